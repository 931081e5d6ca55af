// Operations on many points at once: repeated doubling, and XYZZ to affine. They build the tables of multiples of an
// MSM's fixed points and finish fixed-base multiplications. Both are set-up work, so products are calls.
//
// Launch: point_double has one thread per point; point_normalise has `stride` threads, each of which takes every
// `stride`-th point with a single inversion. Compiled with CURVE and GROUP.
#define DP_OUTLINE_PRODUCTS
#include "group.h"

using namespace dp;

// out[i] = 2^doublings * points[i]
extern "C" __global__ void point_double(const Point* points, u32 n, u32 doublings, Sum* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Sum sum = Sum::from_affine(points[i]);
#pragma unroll 1
  for (u32 k = 0; k < doublings; ++k) sum = sum.dbl();
  out[i] = sum;
}

// out[i] = sums[i] in affine coordinates, by Montgomery's trick: thread t takes t, t + stride, t + 2 stride, ... and keeps the
// products of the denominators so far where the x coordinates will go.
extern "C" __global__ void point_normalise(const Sum* sums, u32 n, u32 stride, Point* out) {
  const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= stride || t >= n) return;
  const u32 last = t + (n - 1 - t) / stride * stride;
  F product = F::one();
#pragma unroll 1
  for (u32 i = t; i < n; i += stride) {
    out[i].x = product;
    if (!sums[i].is_infinity()) product = product * (sums[i].zz * sums[i].zzz);
  }
  F inverse = product.inverse();
#pragma unroll 1
  for (u32 i = last;; i -= stride) {
    const Sum sum = sums[i];
    if (sum.is_infinity()) {
      out[i] = Point::infinity();
    } else {
      const F own = inverse * out[i].x;  // 1 / (zz zzz)
      inverse = inverse * (sum.zz * sum.zzz);
      out[i] = {sum.x * (own * sum.zzz), sum.y * (own * sum.zz)};
    }
    if (i == t) break;
  }
}
