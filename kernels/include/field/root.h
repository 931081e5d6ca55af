// Square roots in a prime field with p = 3 mod 4, as both base fields are, and in its quadratic extension by a root of -1.
// Host only; not constant time.
#pragma once
#include "field/fp2.h"

namespace dp {

// Returns false where there is none.
template <class P>
bool square_root(const Fp<P>& a, Fp<P>& root) {
  Words<P::LIMBS64> e = P::words();  // (p + 1) / 4 = (p - 3) / 4 + 1, and the lowest bits of p are 11
  for (int i = 0; i < P::LIMBS64; ++i) e.w[i] = (e.w[i] >> 2) | (i + 1 < P::LIMBS64 ? e.w[i + 1] << 62 : 0);
  root = a.pow(e) * a;
  return root.sqr() == a;
}

// By way of the norm: for a root y of a, y.c0^2 = (a.c0 + s) / 2 with s a root of the norm.
template <class P>
bool square_root(const Fp2<Fp<P>>& a, Fp2<Fp<P>>& root) {
  using F = Fp<P>;
  F s, half = F::from_u64(2).inverse();
  if (!square_root(a.c0.sqr() + a.c1.sqr(), s)) return false;
  if (!square_root((a.c0 + s) * half, root.c0) && !square_root((a.c0 - s) * half, root.c0)) return false;
  if (!root.c0.is_zero()) {
    root.c1 = a.c1 * root.c0.dbl().inverse();
  } else if (!square_root(a.c0.neg(), root.c1)) {
    return false;
  }
  return root.sqr() == a;
}

}  // namespace dp
