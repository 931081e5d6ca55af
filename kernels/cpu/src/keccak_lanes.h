// Keccak states of V::LANES messages at once, a message in each lane; each lane runs the permutation of hash/keccak.h.
//
// V: T, LANES, REGISTERS, load, store, broadcast; bit_xor, xor3 (a ^ b ^ c), chi (a ^ (~b & c)), rotl<n>; theta_sum and
// theta: with b' = theta_sum(a, b), theta(s, a, b') is s ^ a ^ b, in one operation.
// As in goldilocks_ntt.h, V has internal linkage where it is built with options that not every CPU runs.
#pragma once
#include <cstddef>

#include "hash/keccak.h"

namespace dp {

template <class V>
class KeccakLanes {
 public:
  using T = typename V::T;
  static constexpr size_t LANES = V::LANES;

  // As keccak_hash.h wants it.
  template <bool STREAMS, class Word, class To>
  static void hash(size_t n, size_t count, const Word& word, const To& to) {
    for (size_t i = 0; i < n; i += LANES) {
      T s[25];
      sponge(s, count, [&](size_t k) __attribute__((always_inline)) {
        const auto from = word(i, k);
        if (from.at == nullptr) return V::broadcast(from.constant);
        if (STREAMS) __builtin_prefetch(from.at + 4 * LANES);
        return V::load(from.at);
      });
      for (size_t w = 0; w < 4; ++w) V::store(to(i, w), s[w]);
    }
  }

 private:
  // The state after the words up to word(count), of which the last one is what is left of a message, fewer than 8 bytes, and
  // the padding's first bit.
  template <class Word>
  __attribute__((always_inline)) static void sponge(T (&s)[25], size_t count, const Word& word) {
    // Hidden from the compiler, which fills 25 vectors in memory with a constant by `rep stos`: what that has stored cannot
    // be read for as long as a tenth of a permutation.
    T zero = V::broadcast(0);
    if (V::REGISTERS < 32) asm("" : "+m"(zero));
#pragma GCC unroll 25
    for (T& lane : s) lane = zero;
    size_t at = 0;
    for (; at + keccak::RATE_LANES <= count; at += keccak::RATE_LANES) {
#pragma GCC unroll 17
      for (size_t i = 0; i < keccak::RATE_LANES; ++i) s[i] = V::bit_xor(s[i], word(at + i));
      permute(s);
    }
#pragma GCC unroll 17
    for (size_t i = 0; i < keccak::RATE_LANES; ++i) {
      if (at + i <= count) s[i] = V::bit_xor(s[i], word(at + i));
    }
    s[keccak::RATE_LANES - 1] = V::bit_xor(s[keccak::RATE_LANES - 1], V::broadcast(0x8000000000000000ull));
    permute(s);
  }

  // One round in registers; needs 32 of them.
  __attribute__((always_inline)) static void permute(T (&state)[25]) {
    if (V::REGISTERS < 32) return permute_stored(state);
    T s[25];
#pragma GCC unroll 25
    for (int i = 0; i < 25; ++i) s[i] = state[i];
    for (int r = 0; r < 24; ++r) {
      T c[5], d[5], b[5], out[25];
      for (int x = 0; x < 5; ++x) c[x] = V::xor3(V::xor3(s[x], s[x + 5], s[x + 10]), s[x + 15], s[x + 20]);
      for (int x = 0; x < 5; ++x) d[x] = V::bit_xor(c[(x + 4) % 5], V::template rotl<1>(c[(x + 1) % 5]));
#define LANE(k, i, n) b[k] = V::template rotl<n>(V::bit_xor(s[i], d[i % 5]))
#define CHI(y) for (int x = 0; x < 5; ++x) out[y + x] = V::chi(b[x], b[(x + 1) % 5], b[(x + 2) % 5])
      b[0] = V::bit_xor(s[0], d[0]); LANE(1, 6, 44); LANE(2, 12, 43); LANE(3, 18, 21); LANE(4, 24, 14); CHI(0);
      out[0] = V::bit_xor(out[0], V::broadcast(keccak::ROUND_CONSTANTS[r]));
      LANE(0, 3, 28); LANE(1, 9, 20); LANE(2, 10, 3); LANE(3, 16, 45); LANE(4, 22, 61); CHI(5);
      LANE(0, 1, 1); LANE(1, 7, 6); LANE(2, 13, 25); LANE(3, 19, 8); LANE(4, 20, 18); CHI(10);
      LANE(0, 4, 27); LANE(1, 5, 36); LANE(2, 11, 10); LANE(3, 17, 15); LANE(4, 23, 56); CHI(15);
      LANE(0, 2, 62); LANE(1, 8, 55); LANE(2, 14, 39); LANE(3, 15, 41); LANE(4, 21, 2); CHI(20);
#pragma GCC unroll 25
      for (int i = 0; i < 25; ++i) s[i] = out[i];
    }
#pragma GCC unroll 25
    for (int i = 0; i < 25; ++i) state[i] = s[i];
  }

  static void permute_stored(T (&state)[25]) {
    T other[25], c[5];
    for (int x = 0; x < 5; ++x)
      c[x] = V::xor3(V::xor3(state[x], state[x + 5], state[x + 10]), state[x + 15], state[x + 20]);
    for (int r = 0; r < 24; r += 2) {
      round(state, c, other, keccak::ROUND_CONSTANTS[r]);
      round(other, c, state, keccak::ROUND_CONSTANTS[r + 1]);
    }
  }

  __attribute__((always_inline)) static void round(const T (&s)[25], T (&c)[5], T (&out)[25], u64 constant) {
    T d[5], p[5];
    for (int x = 0; x < 5; ++x) d[x] = V::theta_sum(c[(x + 4) % 5], V::template rotl<1>(c[(x + 1) % 5]));
    const auto theta = [&](int i) { return V::theta(s[i], c[(i + 4) % 5], d[i % 5]); };
    // Row by row, so that few registers hold what is not yet stored.
    const auto chi = [&](int y, T b0, T b1, T b2, T b3, T b4) {
      T e[5] = {V::chi(b0, b1, b2), V::chi(b1, b2, b3), V::chi(b2, b3, b4), V::chi(b3, b4, b0), V::chi(b4, b0, b1)};
      if (y == 0) e[0] = V::bit_xor(e[0], V::broadcast(constant));
      for (int x = 0; x < 5; ++x) {
        out[y + x] = e[x];
        p[x] = y ? V::bit_xor(p[x], e[x]) : e[x];
      }
    };
    chi(0, theta(0), V::template rotl<44>(theta(6)), V::template rotl<43>(theta(12)), V::template rotl<21>(theta(18)),
        V::template rotl<14>(theta(24)));
    chi(5, V::template rotl<28>(theta(3)), V::template rotl<20>(theta(9)), V::template rotl<3>(theta(10)),
        V::template rotl<45>(theta(16)), V::template rotl<61>(theta(22)));
    chi(10, V::template rotl<1>(theta(1)), V::template rotl<6>(theta(7)), V::template rotl<25>(theta(13)),
        V::template rotl<8>(theta(19)), V::template rotl<18>(theta(20)));
    chi(15, V::template rotl<27>(theta(4)), V::template rotl<36>(theta(5)), V::template rotl<10>(theta(11)),
        V::template rotl<15>(theta(17)), V::template rotl<56>(theta(23)));
    chi(20, V::template rotl<62>(theta(2)), V::template rotl<55>(theta(8)), V::template rotl<39>(theta(14)),
        V::template rotl<41>(theta(15)), V::template rotl<2>(theta(21)));
    for (int x = 0; x < 5; ++x) c[x] = p[x];
  }
};

}  // namespace dp
