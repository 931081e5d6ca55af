// Keccak states of 8 * V::LANES messages at once, for CPUs that shift vectors but do not rotate them.
//
// Bit z of a lane of the state, z = 4 j + k, lies in slice k, in byte j of 16: one bit there for each of eight messages. A
// rotation by n then takes slice k to slice (k + n) mod 4, which costs nothing, with its bytes turned by (k + n) / 4: one
// operation, where lanes that lie whole in a vector take two shifts and an `or`. A vector holds as many groups of eight
// messages as it has 16 bytes, and messages come in two such vectors' worth (`halves`), into which the transposition of eight
// vectors of words falls.
//
// V: T, LANES, load, store, broadcast; bit_xor, bit_and, xor3 (a ^ b ^ c), chi (a ^ (~b & c)), left<n>, right<n>; and on each
// 16 bytes turned<n>, byte i to i + n mod 16; low_bytes and high_bytes, the bytes of two vectors' lower or upper words in
// turn; split_bytes, which undoes both.
// As in goldilocks_ntt.h, V has internal linkage where it is built with options that not every CPU runs.
#pragma once
#include <cstddef>

#include "each_below.h"
#include "hash/keccak.h"
#include "hash_ops.h"

namespace dp {

template <class V>
class KeccakSliced {
 public:
  using T = typename V::T;
  static constexpr size_t LANES = 8 * V::LANES;

  // As keccak_hash.h wants it. While a block is permuted the next one is fetched and sliced, a word at a time: more of them
  // at once would not stay in the first-level cache, where columns often lie in the same sets.
  template <bool STREAMS, class Word, class To>
  static void hash(size_t n, size_t count, const Word& word, const To& to) {
    constexpr size_t AHEAD = 2;
    static_assert(keccak::RATE_LANES + AHEAD <= TURNS, "a turn for each word");
    const auto words = [&](size_t block) {
      const size_t left = count + 1 - block * keccak::RATE_LANES;
      return left < keccak::RATE_LANES ? left : keccak::RATE_LANES;
    };
    const size_t last = count / keccak::RATE_LANES;
    T next[keccak::RATE_LANES][8];
    for (size_t k = 0; k < keccak::RATE_LANES; ++k) slice(k < words(0) ? word(0, k) : HashWord{nullptr, 0}, next[k]);
    State halves[2];
    Lane parities[2][5];
    for (size_t i = 0, block = 0; i < n;) {
      if (block == last) end(next);
      block == 0 ? absorb<true>(next, halves, parities) : absorb<false>(next, halves, parities);
      const size_t coming_i = block == last ? i + LANES : i, coming = block == last ? 0 : block + 1;
      const size_t expected = coming_i < n ? words(coming) : 0;
      permute(halves, parities, [&](size_t turn) {
        if (STREAMS && turn < expected) fetch(word(coming_i, coming * keccak::RATE_LANES + turn).at);
        const size_t k = turn - AHEAD;
        if (k >= keccak::RATE_LANES) return;
        if (k < expected) slice(word(coming_i, coming * keccak::RATE_LANES + k), next[k]);
        else for (T& x : next[k]) x = V::broadcast(0);
      });
      if (block == last)
        for (size_t w = 0; w < 4; ++w) joined(halves, w, to(i, w));
      i = coming_i, block = coming;
    }
  }

 private:
  static constexpr int SLICES = 4;
  static constexpr int ROTATIONS[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                        25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
  static constexpr size_t TURNS = 24;  // of `permute`: two rounds of one half each
  using Lane = T[SLICES];
  using State = Lane[25];

  static void fetch(const u64* at) {
    if (at)
      for (size_t l = 0; l < LANES; l += 8) __builtin_prefetch(at + l);
  }

  // Slices of the first half, then of the second.
  static void slice(HashWord from, T (&out)[8]) {
    T v[8];
    for (size_t s = 0; s < 8; ++s) v[s] = from.at ? V::load(from.at + s * V::LANES) : V::broadcast(from.constant);
    transpose_bits(v);
    for (int k = 0; k < SLICES; ++k) {
      out[k] = V::low_bytes(v[k], v[k + SLICES]);
      out[k + SLICES] = V::high_bytes(v[k], v[k + SLICES]);
    }
  }
  static void joined(const State (&halves)[2], size_t lane, u64* out) {
    T v[8];
    for (int k = 0; k < SLICES; ++k) V::split_bytes(halves[0][lane][k], halves[1][lane][k], v[k], v[k + SLICES]);
    transpose_bits(v);
    for (size_t s = 0; s < 8; ++s) V::store(out + s * V::LANES, v[s]);
  }

  // Bit t of byte b of vector s to bit s of byte b of vector t: blocks of bits beside the diagonal change places.
  static void transpose_bits(T (&v)[8]) {
    exchange<1>(v, 0x5555555555555555);
    exchange<2>(v, 0x3333333333333333);
    exchange<4>(v, 0x0F0F0F0F0F0F0F0F);
  }
  template <int N>
  static void exchange(T (&v)[8], u64 mask) {
    for (int s = 0; s < 8; ++s) {
      if (s & N) continue;
      const T changes = V::bit_and(V::bit_xor(V::template right<N>(v[s]), v[s + N]), V::broadcast(mask));
      v[s + N] = V::bit_xor(v[s + N], changes);
      v[s] = V::bit_xor(v[s], V::template left<N>(changes));
    }
  }

  // Both states with `words` added to them, or to none where a message begins, and their columns' parities.
  template <bool FIRST>
  static void absorb(const T (&words)[keccak::RATE_LANES][8], State (&halves)[2], Lane (&parities)[2][5]) {
    for (int i = 0; i < 2 * SLICES; ++i) {
      T p[5];
#pragma GCC unroll 25
      for (int lane = 0; lane < 25; ++lane) {
        T& to = halves[i / SLICES][lane][i % SLICES];
        if (lane >= keccak::RATE_LANES) to = FIRST ? V::broadcast(0) : to;
        else to = FIRST ? words[lane][i] : V::bit_xor(to, words[lane][i]);
        p[lane % 5] = lane < 5 ? to : V::bit_xor(p[lane % 5], to);
      }
      for (int x = 0; x < 5; ++x) parities[i / SLICES][x][i % SLICES] = p[x];
    }
  }
  // The padding's last bit, which is the last of a block.
  static void end(T (&words)[keccak::RATE_LANES][8]) {
    T last[8];
    slice({nullptr, 0x8000000000000000}, last);
    for (int i = 0; i < 8; ++i) words[keccak::RATE_LANES - 1][i] = V::bit_xor(words[keccak::RATE_LANES - 1][i], last[i]);
  }

  struct RoundConstants {
    Lane of[24];
    RoundConstants() {
      for (int r = 0; r < 24; ++r) {
        T both[8];
        slice({nullptr, keccak::ROUND_CONSTANTS[r]}, both);
        for (int k = 0; k < SLICES; ++k) of[r][k] = both[k];
      }
    }
  };
  static const RoundConstants& round_constants() {
    static const RoundConstants constants;
    return constants;
  }

  template <class Turn>
  static void permute(State (&halves)[2], Lane (&parities)[2][5], const Turn& turn) {
    const RoundConstants& constants = round_constants();
    State other;
    for (int h = 0; h < 2; ++h)
      for (int r = 0; r < 24; r += 2) {
        round(halves[h], parities[h], other, constants.of[r]);
        round(other, parities[h], halves[h], constants.of[r + 1]);
        turn(h * 12 + r / 2);
      }
  }

  // Slice K of a lane rotated by N is slice `source` of the lane, with its bytes turned.
  static constexpr int source(int n, int k) { return (k + 64 - n) % SLICES; }
  template <int N, int K>
  __attribute__((always_inline)) static T turned(T slice) {
    return V::template turned<(N - K + source(N, K)) / SLICES % 16>(slice);
  }

  // Not inlined: were the states' vectors the compiler's own variables, it would keep them on the stack in another order.
  __attribute__((noinline)) static void round(const State& in, Lane (&c)[5], State& out, const Lane& constant) {
    Lane d[5];
    each_below<5 * SLICES>([&](auto i) __attribute__((always_inline)) {
      constexpr int x = i / SLICES, k = i % SLICES;
      d[x][k] = V::bit_xor(c[(x + 4) % 5][k], turned<1, k>(c[(x + 1) % 5][source(1, k)]));
    });
    each_below<SLICES>([&](auto k) __attribute__((always_inline)) {
      T p[5];
      each_below<5>([&](auto y) __attribute__((always_inline)) {
        T b[5];
        each_below<5>([&](auto x) __attribute__((always_inline)) {
          constexpr int from = (x + 3 * y) % 5 + 5 * x, n = ROTATIONS[from], slice = source(n, k);
          b[x] = turned<n, k>(V::bit_xor(in[from][slice], d[from % 5][slice]));
        });
        each_below<5>([&](auto x) __attribute__((always_inline)) {
          T e = V::chi(b[x], b[(x + 1) % 5], b[(x + 2) % 5]);
          if constexpr (x == 0 && y == 0) e = V::bit_xor(e, constant[k]);
          out[5 * y + x][k] = e;
          p[x] = y == 0 ? e : V::bit_xor(p[x], e);
        });
      });
      each_below<5>([&](auto x) __attribute__((always_inline)) { c[x][k] = p[x]; });
    });
  }
};

}  // namespace dp
