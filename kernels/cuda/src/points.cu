// Checks of affine points that come from outside: canonical coordinates, on the curve, in the subgroup of prime order.
//
// Launch: one thread per point. Bound: multiplications, some 5000 in the coordinates' field for a subgroup check.
#define DP_OUTLINE_PRODUCTS  // compiles in seconds; the checks run once per key
#include "device.h"
#include "group.h"

using namespace dp;
using Order = CURVE::Fr::Params;

__device__ bool in_subgroup(const Point& p) {
  constexpr Words<Order::LIMBS64> r = Order::words();
  Sum q = Sum::from_affine(p);
  for (int i = Order::BITS - 2; i >= 0; --i) {
    double_it(q);
    if ((r.w[i >> 6] >> (i & 63)) & 1) add_to(q, p);
  }
  return q.is_infinity();
}

// *first_bad becomes the least `offset` + i of a point that fails, if it was larger. `b` is the curve's constant.
extern "C" __global__ void points_check(const Point* points, u64 n, u64 offset, const __grid_constant__ F b,
                                        u32 check_subgroup, u64* first_bad) {
  const u64 i = global_thread();
  if (i >= n) return;
  const Point p = load16(points + i);
  bool good = p.x.is_canonical() && p.y.is_canonical();
  if (good && !p.is_infinity()) {
    good = p.y.sqr() == p.x.sqr() * p.x + b;
    if (good && check_subgroup) good = in_subgroup(p);
  }
  if (!good) atomicMin(first_bad, offset + i);
}
