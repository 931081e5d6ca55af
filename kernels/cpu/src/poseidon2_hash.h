// Poseidon2 states of several messages at once, a message in each lane, and the table of functions made of them.
//
// A: the arithmetic that hash/poseidon2.h asks for, with LANES, load, store.
#pragma once
#include <cstring>

#include "hash/poseidon2.h"
#include "hash_ops.h"

namespace dp {

template <class A>
struct Poseidon2Hash {
  using T = typename A::T;
  static constexpr size_t LANES = A::LANES;
  static constexpr int WIDTH = poseidon2::WIDTH, RATE = poseidon2::RATE, DIGEST = poseidon2::DIGEST;

  // The sponge over `count` words, of which word(k) is the k-th of all messages. Words replace the rate, the last block is
  // filled with zeros, and the length in the capacity tells messages apart.
  template <class Word>
  static void sponge(T (&s)[WIDTH], size_t count, const Word& word) {
    for (T& x : s) x = A::round_constant(0);
    s[RATE] = A::round_constant(poseidon2::SPONGE_TAG);
    s[RATE + 1] = A::round_constant(count);
    for (size_t at = 0; at < count; at += RATE) {
      for (size_t i = 0; i < RATE; ++i) s[i] = at + i < count ? word(at + i) : A::round_constant(0);
      poseidon2::permute<A>(s);
    }
  }

  static void put(const T (&s)[WIDTH], u64* out, size_t stride) {
    for (int w = 0; w < DIGEST; ++w) A::store(out + w * stride, s[w]);
  }

  static void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                     u64* out, size_t stride) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      sponge(s, headers + count, [&](size_t k) {
        return k < headers ? A::round_constant(header[k]) : A::load(columns[k - headers] + offset + i);
      });
      put(s, out + i, stride);
    }
  }

  // A node over the four digests of s.
  static void node(T (&s)[WIDTH], u64* out, size_t stride) {
    T first[DIGEST];
    for (int w = 0; w < DIGEST; ++w) first[w] = s[w];
    poseidon2::permute<A>(s);
    for (int w = 0; w < DIGEST; ++w) A::store(out + w * stride, A::add(s[w], first[w]));
  }

  static void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out,
                    size_t stride) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      for (int w = 0; w < DIGEST; ++w) {
        s[w] = A::load(a + w * a_stride + i);
        s[DIGEST + w] = A::load(b + w * b_stride + i);
        s[2 * DIGEST + w] = A::round_constant(w ? 0 : tag);
        s[3 * DIGEST + w] = A::round_constant(0);
      }
      node(s, out + i, stride);
    }
  }

  static void quads(const u64* nodes, size_t nodes_stride, size_t apart, size_t n, u64* out, size_t stride) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      for (int k = 0; k < WIDTH; ++k) s[k] = A::load(nodes + k % DIGEST * nodes_stride + k / DIGEST * apart + i);
      node(s, out + i, stride);
    }
  }

  static void rows(const u8* rows, size_t length, size_t n, u8* out) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      u64 words[LANES], digests[DIGEST][LANES];
      sponge(s, length / 8, [&](size_t k) {
        for (size_t l = 0; l < LANES; ++l) std::memcpy(&words[l], rows + (i + l) * length + 8 * k, 8);
        return A::load(words);
      });
      for (int w = 0; w < DIGEST; ++w) A::store(digests[w], s[w]);
      for (size_t l = 0; l < LANES; ++l)
        for (int w = 0; w < DIGEST; ++w) std::memcpy(out + 32 * (i + l) + 8 * w, &digests[w][l], 8);
    }
  }

  static size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      u64 nonces[LANES], found[LANES];
      for (size_t l = 0; l < LANES; ++l) nonces[l] = first + i + l;
      for (T& x : s) x = A::round_constant(0);
      for (int w = 0; w < DIGEST; ++w) s[w] = A::round_constant(seed[w]);
      s[DIGEST] = A::load(nonces);
      s[RATE] = A::round_constant(tag);
      poseidon2::permute<A>(s);
      A::store(found, s[0]);
      for (size_t l = 0; l < LANES; ++l)
        if ((found[l] & (((u64)1 << bits) - 1)) == 0) return i + l;
    }
    return n;
  }

  static void permute(const u64* states, size_t n, u64* out) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[WIDTH];
      u64 words[WIDTH][LANES];
      for (size_t l = 0; l < LANES; ++l)
        for (int k = 0; k < WIDTH; ++k) words[k][l] = states[(i + l) * WIDTH + k];
      for (int k = 0; k < WIDTH; ++k) s[k] = A::load(words[k]);
      poseidon2::permute<A>(s);
      for (int k = 0; k < WIDTH; ++k) A::store(words[k], s[k]);
      for (size_t l = 0; l < LANES; ++l)
        for (int k = 0; k < WIDTH; ++k) out[(i + l) * WIDTH + k] = words[k][l];
    }
  }

  static constexpr HashOps ops(const HashOps* narrower) {
    return {LANES, narrower, &leaves, &pairs, &quads, &rows, &grind, &permute};
  }
};

}  // namespace dp
