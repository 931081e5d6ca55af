// Keccak-256 of V::LANES messages at once; each lane runs the permutation of hash/keccak.h.
//
// V: T, LANES, load, store, broadcast, iota (0, 1, 2, ...), add; bit_xor, xor3 (a ^ b ^ c), chi (a ^ (~b & c)), rotl<n>;
// theta_sum and theta: with b' = theta_sum(a, b), theta(s, a, b') is s ^ a ^ b, in one operation.
// As in goldilocks_ntt.h, V has internal linkage where it is built with options that not every CPU runs.
#pragma once
#include <cstddef>

#include "hash/keccak.h"
#include "views.h"

namespace dp {

template <class V>
class KeccakLanes {
 public:
  using T = typename V::T;
  static constexpr size_t LANES = V::LANES;

  static void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                     u64* out, size_t stride) {
    for (size_t i = 0; i < n; i += LANES) {
      KeccakLanes sponge;
      for (size_t h = 0; h < headers; ++h) sponge.absorb(V::broadcast(header[h]));
      for (size_t c = 0; c < count; ++c) {
        const u64* at = columns[c] + offset + i;
        __builtin_prefetch(at + 4 * LANES);  // the columns are too many streams for the CPU to follow
        sponge.absorb(V::load(at));
      }
      sponge.finish(out + i, stride);
    }
  }

  static void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out,
                    size_t stride) {
    for (size_t i = 0; i < n; i += LANES) {
      KeccakLanes sponge;
      sponge.absorb(V::broadcast(tag));
      for (size_t w = 0; w < 4; ++w) sponge.absorb(V::load(a + w * a_stride + i));
      for (size_t w = 0; w < 4; ++w) sponge.absorb(V::load(b + w * b_stride + i));
      sponge.finish(out + i, stride);
    }
  }

  static void rows(const u8* rows, size_t length, size_t n, u8* out) {
    for (size_t i = 0; i < n; i += LANES) {
      KeccakLanes sponge;
      u64 words[LANES];
      for (size_t at = 0; at + 8 <= length; at += 8) {
        for (size_t l = 0; l < LANES; ++l) std::memcpy(&words[l], rows + (i + l) * length + at, 8);
        sponge.absorb(V::load(words));
      }
      const size_t rest = length % 8;
      for (size_t l = 0; l < LANES; ++l) {  // the padding begins right after the last byte
        words[l] = (u64)1 << (8 * rest);
        for (size_t b = 0; b < rest; ++b) words[l] |= (u64)rows[(i + l) * length + length - rest + b] << (8 * b);
      }
      sponge.pad(V::load(words));
      for (size_t w = 0; w < 4; ++w) {
        V::store(words, sponge.s_[w]);
        for (size_t l = 0; l < LANES; ++l) std::memcpy(out + 32 * (i + l) + 8 * w, &words[l], 8);
      }
    }
  }

  static size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
    for (size_t i = 0; i < n; i += LANES) {
      KeccakLanes sponge;
      sponge.absorb(V::broadcast(tag));
      for (size_t w = 0; w < 4; ++w) sponge.absorb(V::broadcast(seed[w]));
      sponge.absorb(V::add(V::broadcast(first + i), V::iota()));
      sponge.pad(V::broadcast(1));
      u64 words[LANES];
      V::store(words, sponge.s_[0]);
      for (size_t l = 0; l < LANES; ++l)
        if (bits == 0 || __builtin_bswap64(words[l]) >> (64 - bits) == 0) return i + l;
    }
    return n;
  }

 private:
  KeccakLanes() {
    // Hidden from the compiler, which fills 25 vectors with a constant by `rep stos`: what that has stored cannot be read
    // for as long as a tenth of a permutation.
    T zero = V::broadcast(0);
    asm("" : "+m"(zero));
    for (T& lane : s_) lane = zero;
  }
  void absorb(T x) {
    s_[at_] = V::bit_xor(s_[at_], x);
    if (++at_ == keccak::RATE_LANES) {
      permute(s_);
      at_ = 0;
    }
  }
  // `x`: what is left of the message, fewer than 8 bytes, and the padding's first bit
  void pad(T x) {
    s_[at_] = V::bit_xor(s_[at_], x);
    s_[keccak::RATE_LANES - 1] = V::bit_xor(s_[keccak::RATE_LANES - 1], V::broadcast(0x8000000000000000ull));
    permute(s_);
  }
  void finish(u64* out, size_t stride) {
    pad(V::broadcast(1));
    for (size_t w = 0; w < 4; ++w) V::store(out + w * stride, s_[w]);
  }

  static void permute(T (&state)[25]) {
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

  T s_[25];
  int at_ = 0;
};

}  // namespace dp
