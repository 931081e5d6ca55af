// Arithmetic on the limbs of elements. Carry chains and products alone are written twice, once for the host (64-bit
// limbs) and once for the device (32-bit limbs, in field/limbs32.h). add_n and sub_n return the carry or borrow out;
// mont_mul and mont_sqr are the whole Montgomery product and square.
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
#include "field/limbs64.h"
#endif

namespace dp {

// r = (a + b) mod p for a, b < p
template <class P, int N>
DP_HD void mod_add(limb_t* r, const limb_t* a, const limb_t* b) {
#if DP_ADX
  if constexpr (N == 4) adx_add4<P>(r, a, b);
  else adx_add6<P>(r, a, b);
#else
  constexpr Words<P::LIMBS64> p = P::words();
  limb_t s[N], t[N], m[N];
  for (int i = 0; i < N; ++i) m[i] = limb_of<P::LIMBS64>(p, i);
  add_n<N>(s, a, b);  // no carry out: every modulus here leaves the top bit clear
  const limb_t borrow = sub_n<N>(t, s, m);
  for (int i = 0; i < N; ++i) r[i] = borrow ? s[i] : t[i];
#endif
}

// r = (a - b) mod p for a, b < p
template <class P, int N>
DP_HD void mod_sub(limb_t* r, const limb_t* a, const limb_t* b) {
#if DP_ADX
  if constexpr (N == 4) adx_sub4<P>(r, a, b);
  else adx_sub6<P>(r, a, b);
#else
  constexpr Words<P::LIMBS64> p = P::words();
  limb_t s[N], m[N];
  const limb_t borrow = sub_n<N>(s, a, b);
  for (int i = 0; i < N; ++i) m[i] = borrow ? limb_of<P::LIMBS64>(p, i) : 0;
  add_n<N>(r, s, m);
#endif
}

}  // namespace dp
