// What the steps of the multilinear engine share: vectors of F, which lie coordinate by coordinate, so that element j of one
// of n is at j, n + j and 2 n + j; and elements side by side.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {
namespace steps {

constexpr int COORDINATES = 40;  // must equal that in kernels/interface/steps.py

DP_HD Ext load(const u64* p, u64 pitch) { return {{p[0], p[pitch], p[2 * pitch]}}; }
DP_HD void store(u64* p, u64 pitch, const Ext& v) {
  for (int c = 0; c < 3; ++c) p[c * pitch] = v.c[c];
}
DP_HD Ext side_by_side(const u64* p) { return load(p, 1); }
DP_HD void put_side_by_side(u64* p, const Ext& v) { store(p, 1, v); }

DP_HD void accumulate(Ext& sum, const Ext& v) { sum = add(sum, v); }
// even + r (odd - even)
DP_HD Ext between(const Ext& even, const Ext& odd, const Ext& r) { return add(even, mul(sub(odd, even), r)); }

}  // namespace steps
}  // namespace gl
}  // namespace dp
