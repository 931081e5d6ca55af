// Carry chains: the only arithmetic that is written twice, once for the host (64-bit limbs) and once for the device
// (32-bit limbs, in field/limbs32.h). add_n and sub_n return the carry or borrow out; mont_mul and mont_sqr are
// the whole Montgomery product and square.
#pragma once
#include "field/params.h"

namespace dp {

// limb i of a constant given as 64-bit words
template <int N64>
DP_HD constexpr limb_t limb_of(const Words<N64>& c, int i) {
#if DP_DEVICE
  return (limb_t)(c.w[i >> 1] >> (32 * (i & 1)));
#else
  return c.w[i];
#endif
}

}  // namespace dp

#if DP_DEVICE
#include "field/limbs32.h"
#else

namespace dp {

using wide_t = unsigned __int128;

template <int N>
DP_HD limb_t add_n(limb_t* r, const limb_t* a, const limb_t* b) {
  wide_t t = 0;
  for (int i = 0; i < N; ++i) {
    t += (wide_t)a[i] + b[i];
    r[i] = (limb_t)t;
    t >>= LIMB_BITS;
  }
  return (limb_t)t;
}

template <int N>
DP_HD limb_t sub_n(limb_t* r, const limb_t* a, const limb_t* b) {
  limb_t borrow = 0;
  for (int i = 0; i < N; ++i) {
    wide_t t = (wide_t)a[i] - b[i] - borrow;
    r[i] = (limb_t)t;
    borrow = (limb_t)(t >> LIMB_BITS) & 1;
  }
  return borrow;
}

// Portable Montgomery product a * b / R mod p (CIOS without the extra carry word: every modulus here leaves its top bit
// clear). Result < p for inputs < p.
template <class P, int N>
DP_HD void mont_mul(limb_t* r, const limb_t* a, const limb_t* b) {
  constexpr Words<P::LIMBS64> p = P::words();
  constexpr limb_t inv = (limb_t)P::inv64();
  limb_t t[N + 1] = {};
  for (int i = 0; i < N; ++i) {
    wide_t c = 0;
    for (int j = 0; j < N; ++j) {
      c += (wide_t)a[j] * b[i] + t[j];
      t[j] = (limb_t)c;
      c >>= LIMB_BITS;
    }
    limb_t hi = t[N] + (limb_t)c;
    limb_t m = t[0] * inv;
    c = ((wide_t)m * limb_of<P::LIMBS64>(p, 0) + t[0]) >> LIMB_BITS;
    for (int j = 1; j < N; ++j) {
      c += (wide_t)m * limb_of<P::LIMBS64>(p, j) + t[j];
      t[j - 1] = (limb_t)c;
      c >>= LIMB_BITS;
    }
    c += hi;
    t[N - 1] = (limb_t)c;
    t[N] = (limb_t)(c >> LIMB_BITS);
  }
  limb_t s[N], q[N];
  for (int i = 0; i < N; ++i) q[i] = limb_of<P::LIMBS64>(p, i);
  limb_t borrow = sub_n<N>(s, t, q);
  for (int i = 0; i < N; ++i) r[i] = borrow ? t[i] : s[i];
}

template <class P, int N>
DP_HD void mont_sqr(limb_t* r, const limb_t* a) {
  mont_mul<P, N>(r, a, a);
}

}  // namespace dp

#endif
