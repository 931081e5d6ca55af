// Checks of affine points that come from outside: canonical coordinates, on the curve, in the subgroup of prime order.
// CURVE is the curve, COORDINATE the field of the coordinates (Fq or Fq2).
//
// One thread a point. Bound: multiplications, some 5000 in the coordinates' field a point where the subgroup is checked.
#include "device.h"

using namespace dp;
using F = CURVE::COORDINATE;
using Order = CURVE::Fr::Params;

__device__ __noinline__ bool in_subgroup(const Affine<F>& p) {
  constexpr Words<Order::LIMBS64> r = Order::words();
  XYZZ<F> q = XYZZ<F>::from_affine(p);
  for (int i = Order::BITS - 2; i >= 0; --i) {
    q = q.dbl();
    if ((r.w[i >> 6] >> (i & 63)) & 1) q = q.add(p);
  }
  return q.is_infinity();
}

// *first_bad becomes the least `offset` + i of a point that fails, if it was larger. `b` is the curve's constant.
extern "C" __global__ void points_check(const Affine<F>* points, u64 n, u64 offset, const __grid_constant__ F b,
                                        u32 check_subgroup, u64* first_bad) {
  const u64 i = global_thread();
  if (i >= n) return;
  const Affine<F> p = load16(points + i);
  bool good = p.x.is_canonical() && p.y.is_canonical();
  if (good && !p.is_infinity()) {
    good = p.y.sqr() == p.x.sqr() * p.x + b;
    if (good && check_subgroup) good = in_subgroup(p);
  }
  if (!good) atomicMin(first_bad, offset + i);
}
