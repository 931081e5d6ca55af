// Products and transforms over BabyBear. maths/babybear.py defines the elements, which are canonical in memory.
//
// One thread per item of a result. Bound: memory, but for products of matrices with many terms.
#include "field/babybear.h"
#include "threads.h"

using namespace dp;

// A factor of a product of outer x inner items: item (i, j) takes its item i outer + j inner.
struct Steps {
  u64 outer, inner;
};

extern "C" __global__ void babybear_mul(const u32* a, const u32* b, u32* out, u64 n, u64 inner, const __grid_constant__ Steps of_a,
                                        const __grid_constant__ Steps of_b) {
  const u64 at = global_thread();
  if (at >= n) return;
  const u64 i = at / inner, j = at % inner;
  out[at] = bb::mul(bb::to_montgomery(a[i * of_a.outer + j * of_a.inner]), b[i * of_b.outer + j * of_b.inner]);
}

extern "C" __global__ void babybear_ext_mul(const uint4* a, const uint4* b, uint4* out, u64 n, u64 inner,
                                            const __grid_constant__ Steps of_a, const __grid_constant__ Steps of_b) {
  const u64 at = global_thread();
  if (at >= n) return;
  const u64 i = at / inner, j = at % inner;
  const uint4 x = a[i * of_a.outer + j * of_a.inner], y = b[i * of_b.outer + j * of_b.inner];
  const u32 left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
  u32 product[4];
  bb::ext_mul(left, right, product);
  out[at] = make_uint4(product[0], product[1], product[2], product[3]);
}

// total[i] += a[i] by, for extension elements `total` and `by`, and base or extension elements a.
extern "C" __global__ void babybear_add_scaled(const u32* a, const uint4* by, uint4* total, u64 n, u32 extended) {
  const u64 at = global_thread();
  if (at >= n) return;
  const uint4 factor = *by, before = total[at];
  const u32 right[4] = {factor.x, factor.y, factor.z, factor.w};
  u32 left[4] = {extended ? 0 : a[at], 0, 0, 0}, product[4];
  if (extended) {
    const uint4 x = reinterpret_cast<const uint4*>(a)[at];
    left[0] = x.x, left[1] = x.y, left[2] = x.z, left[3] = x.w;
  }
  bb::ext_mul(left, right, product);
  total[at] = make_uint4(bb::add(before.x, product[0]), bb::add(before.y, product[1]), bb::add(before.z, product[2]),
                         bb::add(before.w, product[3]));
}

// out (rows, columns) = a (rows, inner) b (inner, columns). Sums of the two words of a product hold 2^32 of them.
extern "C" __global__ void babybear_matmul(const u32* a, const u32* b, u32* out, u64 rows, u64 inner, u64 columns) {
  const u64 at = global_thread();
  if (at >= rows * columns) return;
  const u32 *left = a + at / columns * inner, *right = b + at % columns;
  u64 low = 0, high = 0;
  for (u64 k = 0; k < inner; ++k) {
    const u64 product = (u64)left[k] * right[k * columns];
    low += (u32)product;
    high += product >> 32;
  }
  constexpr u64 RADIX = ((u64)1 << 32) % bb::P;
  out[at] = (u32)((low % bb::P + high % bb::P * RADIX) % bb::P);
}

// Items in the order of their reversed numbers. An item has `inner` elements, and a vector 2^log_n items.
extern "C" __global__ void babybear_reverse(const u32* in, u32* out, u64 n, u32 log_n, u64 inner) {
  const u64 at = global_thread();
  if (at >= n) return;
  const u64 item = at / inner, place = item & (((u64)1 << log_n) - 1);
  const u64 from = log_n ? __brev((u32)place) >> (32 - log_n) : 0;
  out[at] = in[(item - place + from) * inner + at % inner];
}

// The butterflies of one level, whose blocks have 2^(log_half + 1) items. `roots`, in Montgomery form: the first 2^(log_n - 1)
// powers of the root of unity.
extern "C" __global__ void babybear_butterflies(u32* data, const u32* roots, u64 n, u32 log_half, u32 log_n, u64 inner) {
  const u64 at = global_thread();
  if (at >= n / 2) return;
  const u64 pair = at / inner, c = at % inner, half = (u64)1 << log_half, j = pair & (half - 1);
  u32* low = data + (((pair - j) << 1) + j) * inner + c;
  u32* high = low + half * inner;
  const u32 x = *low, y = bb::mul(*high, roots[j << (log_n - 1 - log_half)]);
  *low = bb::add(x, y);
  *high = bb::sub(x, y);
}

extern "C" __global__ void babybear_to_montgomery(u32* data, u64 n) {
  const u64 at = global_thread();
  if (at < n) data[at] = bb::to_montgomery(data[at]);
}
