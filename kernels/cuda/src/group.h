// The group for which a kernel source is compiled: CURVE is Bn254 or Bls12381, GROUP is 1 or 2.
#pragma once
#include "curve/curves.h"

namespace dp {

#if GROUP == 1
using F = CURVE::Fq;
#else
using F = CURVE::Fq2;
#endif
using Point = Affine<F>;
using Sum = XYZZ<F>;

// Additions and doublings as functions, for every place but the innermost loops: one copy of the code, which is tens of
// kilobytes, in place of one at each use, and a compilation of seconds.
DP_COLD void add_to(Sum& sum, const Sum& other) { sum = sum.add(other); }
DP_COLD void add_to(Sum& sum, const Point& other) { sum = sum.add(other); }
DP_COLD void double_it(Sum& sum) { sum = sum.dbl(); }

}  // namespace dp
