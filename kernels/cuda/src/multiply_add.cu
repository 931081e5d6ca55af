// addend + scalar * point for many points: folding a vector in half, and scaling one.
//
// Scalars are taken in non-adjacent form, whose digits are the differences of the bits of 3k and k: 256 doublings and some 85
// mixed additions. Where all points have one scalar, all threads of a warp go the same way.
//
// Launch: one thread per point. Results are XYZZ; point_batch.cu normalises them. Compiled with CURVE and GROUP.
#define DP_OUTLINE_PRODUCTS
#include "group.h"

using namespace dp;

// out[i] = addends[i] + scalars[i] * points[i]. Without addends they are zero. `one_scalar`: that of all points. Scalars are
// below the group's order, of four words.
extern "C" __global__ void multiply_add(const Point* addends, const Point* points, const u64* scalars, u32 one_scalar,
                                        u32 n, Sum* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u64* k = scalars + (one_scalar ? 0 : 4 * (size_t)i);
  u64 three[5], carry = 0, low = 0;
  for (int w = 0; w < 5; ++w) {  // k + 2k
    const u64 a = w < 4 ? k[w] : 0, b = (a << 1) | low;
    low = a >> 63;
    const u64 s = a + b, t = s + carry;
    carry = (s < a) | (t < s);
    three[w] = t;
  }
  const Point p = points[i];
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (int bit = 257; bit >= 1; --bit) {
    double_it(sum);
    const int high = (three[bit >> 6] >> (bit & 63)) & 1;
    const int below = bit < 256 ? (int)((k[bit >> 6] >> (bit & 63)) & 1) : 0;
    if (high != below) add_to(sum, high ? p : p.neg());
  }
  if (addends) add_to(sum, addends[i]);
  out[i] = sum;
}
