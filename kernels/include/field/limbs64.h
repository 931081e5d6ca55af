// 64-bit limbs, for the host: portable, with x86-64's carry chains where the compiler may use them (field/limbs_adx.h).
#pragma once
#include "field/params.h"
#if defined(__x86_64__) && defined(__ADX__) && defined(__BMI2__)
#define DP_ADX 1
#include "field/limbs_adx.h"
#else
#define DP_ADX 0
#endif

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

// Montgomery product a * b / R mod p (CIOS without the extra carry word: every modulus here leaves its top bit clear).
// Result < p for inputs < p. A function of its own: its operands live in memory anyway, and inlined into curve formulas it
// would fill the instruction cache, and the compiler's time.
template <class P, int N>
[[gnu::noinline]] void mont_mul(limb_t* r, const limb_t* a, const limb_t* b) {
#if DP_ADX
  if constexpr (N == 4) adx_mul4<P>(r, a, b);
  else adx_mul6<P>(r, a, b);
#else
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
#endif
}

template <class P, int N>
DP_HD void mont_sqr(limb_t* r, const limb_t* a) {
  mont_mul<P, N>(r, a, a);
}

}  // namespace dp
