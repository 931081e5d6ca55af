// Makes the table of Keccak-256's functions from what computes its states: KeccakLanes or KeccakSliced.
//
// Sponge: LANES, the messages of a group, and hash<STREAMS>(n, count, word, to): the digests of n messages of `count` whole
// words and an end, group after group. word(i, k) says where word k of messages i to i + LANES - 1 lies, or what all of them
// have there, and word(i, count) the same of what is left, fewer than 8 bytes, and the padding's first bit. Word w of their
// digests goes to to(i, w). STREAMS: there are more places to read from than the CPU would fetch ahead by itself.
#pragma once
#include <cstddef>
#include <cstring>

#include "hash_ops.h"

namespace dp {

template <class Sponge>
struct KeccakHash {
  static constexpr size_t LANES = Sponge::LANES;
  static constexpr HashWord END{nullptr, 1};

  static void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                     u64* out, size_t stride) {
    const auto word = [&](size_t i, size_t k) __attribute__((always_inline)) -> HashWord {
      if (k < headers) return {nullptr, header[k]};
      if (k == headers + count) return END;
      return {columns[k - headers] + offset + i, 0};
    };
    Sponge::template hash<true>(n, headers + count, word, [&](size_t i, size_t w) { return out + w * stride + i; });
  }

  static void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out,
                    size_t stride) {
    const auto word = [&](size_t i, size_t k) __attribute__((always_inline)) -> HashWord {
      if (k == 0) return {nullptr, tag};
      if (k == 9) return END;
      return {k < 5 ? a + (k - 1) * a_stride + i : b + (k - 5) * b_stride + i, 0};
    };
    Sponge::template hash<false>(n, 9, word, [&](size_t i, size_t w) { return out + w * stride + i; });
  }

  static void rows(const u8* rows, size_t length, size_t n, u8* out) {
    const size_t whole = length / 8, rest = length % 8;
    for (size_t i = 0; i < n; i += LANES) {
      u64 words[LANES], digests[4][LANES];
      const auto word = [&](size_t, size_t k) -> HashWord {
        for (size_t l = 0; l < LANES; ++l) {
          const u8* at = rows + (i + l) * length + 8 * k;
          if (k < whole) {
            std::memcpy(&words[l], at, 8);
          } else {
            words[l] = (u64)1 << (8 * rest);  // the padding begins right after the last byte
            for (size_t b = 0; b < rest; ++b) words[l] |= (u64)at[b] << (8 * b);
          }
        }
        return {words, 0};
      };
      Sponge::template hash<false>(LANES, whole, word, [&](size_t, size_t w) { return digests[w]; });
      for (size_t l = 0; l < LANES; ++l)
        for (size_t w = 0; w < 4; ++w) std::memcpy(out + 32 * (i + l) + 8 * w, &digests[w][l], 8);
    }
  }

  static size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
    for (size_t i = 0; i < n; i += LANES) {
      u64 nonces[LANES], digests[4][LANES];
      for (size_t l = 0; l < LANES; ++l) nonces[l] = first + i + l;
      const auto word = [&](size_t, size_t k) __attribute__((always_inline)) -> HashWord {
        if (k == 5) return {nonces, 0};
        return k == 6 ? END : HashWord{nullptr, k == 0 ? tag : seed[k - 1]};
      };
      Sponge::template hash<false>(LANES, 6, word, [&](size_t, size_t w) { return digests[w]; });
      for (size_t l = 0; l < LANES; ++l)
        if (bits == 0 || __builtin_bswap64(digests[0][l]) >> (64 - bits) == 0) return i + l;
    }
    return n;
  }

  static constexpr HashOps ops(const HashOps* narrower) {
    return {LANES, narrower, &leaves, &pairs, nullptr, &rows, &grind, nullptr};
  }
};

}  // namespace dp
