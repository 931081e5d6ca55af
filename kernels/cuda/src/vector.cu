// Field vectors: elementwise operations and scaling by powers. FIELD names the parameters (field/params.h).
//
// Layout: n elements of 32 or 48 bytes, contiguous, Montgomery form. Outputs may be the inputs.
// Launch: one thread per element; scale_powers has several elements per thread, a whole grid apart, so that neighbouring
// threads touch neighbouring elements.
// Bound: memory bandwidth for add and sub; multiplications for the rest.
#include "device.h"

using namespace dp;
using F = Fp<FIELD>;

extern "C" __global__ void vector_add(const F* a, const F* b, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i) + load16(b + i));
}

extern "C" __global__ void vector_sub(const F* a, const F* b, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i) - load16(b + i));
}

extern "C" __global__ void vector_mul(const F* a, const F* b, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i) * load16(b + i));
}

extern "C" __global__ void vector_mul_sub(const F* a, const F* b, const F* c, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i) * load16(b + i) - load16(c + i));
}

extern "C" __global__ void vector_to_montgomery(const F* a, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i).to_montgomery());
}

extern "C" __global__ void vector_from_montgomery(const F* a, F* out, u64 n) {
  u64 i = global_thread();
  if (i < n) store16(out + i, load16(a + i).from_montgomery());
}

// base^(2^k) for k < 40, in Montgomery form: powers of any index an array can have, from products of these.
struct Squares {
  F base[40];
};

DP_HD F power(const Squares& squares, u64 exponent) {
  F r = F::one();
  for (int k = 0; exponent; ++k, exponent >>= 1)
    if (exponent & 1) r = r * squares.base[k];
  return r;
}

// out[i] = a[i] * first * base^i. Thread t takes i = t, t + stride, ...: one power from the squares, then one product
// by base^stride (`step`) for each further element.
extern "C" __global__ void vector_scale_powers(const F* a, F* out, u64 n, const __grid_constant__ Squares squares,
                                               const __grid_constant__ F first, const __grid_constant__ F step) {
  u64 i = global_thread(), stride = global_threads();
  if (i >= n) return;
  F p = power(squares, i) * first;
  for (;;) {
    store16(out + i, load16(a + i) * p);
    i += stride;
    if (i >= n) return;
    p = p * step;
  }
}
