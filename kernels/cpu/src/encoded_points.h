// Points as bytes: coordinates big-endian, in standard form. A coordinate has one element, or two in G2, the last one first.
#pragma once
#include <atomic>
#include <cstring>

#include "field/fp.h"
#include "threads.h"
#include "views.h"

namespace dp {

constexpr size_t POINTS_GRAIN = 512;
constexpr size_t MOST_PER_COORDINATE = 2;

// Reverses the bytes of words.
template <size_t SIZE>
void reverse_bytes(const u8* from, u8* to) {
  static_assert(SIZE % 8 == 0, "whole words");
  for (size_t at = 0; at < SIZE; at += 8) {
    u64 word;
    std::memcpy(&word, from + at, 8);
    word = __builtin_bswap64(word);
    std::memcpy(to + SIZE - 8 - at, &word, 8);
  }
}

template <class F>
void to_big_endian(Pool& pool, const u8* points, size_t n, size_t per, u8* out) {
  pool.ranges(2 * n, 2 * POINTS_GRAIN, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      for (size_t e = 0; e < per; ++e) {
        const F x = In<F>(points)[i * per + e].from_montgomery();
        reverse_bytes<sizeof(F)>(reinterpret_cast<const u8*>(&x), out + (i * per + per - 1 - e) * sizeof(F));
      }
  });
}

template <class F>
size_t from_big_endian(Pool& pool, const u8* bytes, size_t n, size_t per, u8 flags, u8* out) {
  const size_t size = 2 * per * sizeof(F);
  std::atomic<size_t> first_bad{n};
  pool.ranges(n, POINTS_GRAIN, [&](size_t begin, size_t end) {
    u8 own[2 * MOST_PER_COORDINATE * sizeof(F)];
    for (size_t i = begin; i < end; ++i) {
      std::memcpy(own, bytes + i * size, size);  // a mapped file may change meanwhile
      bool good = !(own[0] & flags), zero = true;
      for (size_t at = 0; at < 2 * per; ++at) {
        F x;
        reverse_bytes<sizeof(F)>(own + at * sizeof(F), reinterpret_cast<u8*>(&x));
        zero &= x.is_zero();
        good &= x.is_canonical();
        Out<F>(out).put(2 * per * i + at / per * per + per - 1 - at % per, x.to_montgomery());
      }
      if (good && !zero) continue;
      size_t known = first_bad.load(std::memory_order_relaxed);
      while (i < known && !first_bad.compare_exchange_weak(known, i, std::memory_order_relaxed)) {
      }
      break;
    }
  });
  return first_bad.load();
}

}  // namespace dp
