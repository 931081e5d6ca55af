// Batch inversion over FIELD (Montgomery's trick), in levels. `fold` multiplies CHUNK elements into one, skipping zeros;
// `unfold` takes the inverse of that product apart again. The host recurses until so few elements are left that each is
// inverted alone, by a chain of some 380 products.
//
// Layout: n elements, contiguous, Montgomery form; outputs may be the inputs. Launch: one thread for CHUNK elements that
// are `count` apart, so that neighbouring threads touch neighbouring elements.
// Bound: multiplications, 3 per element and level; for small n, the latency of the chains.
#define DP_OUTLINE_PRODUCTS  // a fifth of the compilation, for an operation of set-up
#include "device.h"

using namespace dp;
using F = Fp<FIELD>;

constexpr int CHUNK = 8;

extern "C" __global__ void invert_fold(const F* a, F* products, u64 n, u64 count) {
  u64 t = global_thread();
  if (t >= count) return;
  F p = F::one();
  for (u64 i = t; i < n; i += count) {
    F x = load16(a + i);
    if (!x.is_zero()) p = p * x;
  }
  store16(products + t, p);
}

extern "C" __global__ void invert_each(F* a, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(a + i, load16(a + i).inverse());
}

extern "C" __global__ void invert_unfold(const F* a, const F* inverses, F* out, u64 n, u64 count) {
  u64 t = global_thread();
  if (t >= count) return;
  F before[CHUNK];  // product of the chunk's elements before this one
  F p = F::one();
#pragma unroll
  for (int j = 0; j < CHUNK; ++j) {
    u64 i = t + j * count;
    before[j] = p;
    if (i < n) {
      F x = load16(a + i);
      if (!x.is_zero()) p = p * x;
    }
  }
  F inverse = load16(inverses + t);  // of the product of the elements up to and with j
#pragma unroll
  for (int j = CHUNK - 1; j >= 0; --j) {
    u64 i = t + j * count;
    if (i >= n) continue;
    F x = load16(a + i);
    if (x.is_zero()) {
      store16(out + i, x);
    } else {
      store16(out + i, inverse * before[j]);
      inverse = inverse * x;
    }
  }
}
