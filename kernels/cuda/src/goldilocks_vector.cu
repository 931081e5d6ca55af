// Elementwise arithmetic of Goldilocks vectors. With `scalar`, b is one element for all of a. Bound: memory.
#include "device.h"
#include "field/goldilocks.h"

using namespace dp;

extern "C" __global__ void goldilocks_add(const u64* a, const u64* b, u64* out, u64 n, u32 scalar) {
  const u64 i = global_thread();
  if (i < n) out[i] = gl::add(a[i], b[scalar ? 0 : i]);
}

extern "C" __global__ void goldilocks_sub(const u64* a, const u64* b, u64* out, u64 n, u32 scalar) {
  const u64 i = global_thread();
  if (i < n) out[i] = gl::sub(a[i], b[scalar ? 0 : i]);
}

extern "C" __global__ void goldilocks_mul(const u64* a, const u64* b, u64* out, u64 n, u32 scalar) {
  const u64 i = global_thread();
  if (i < n) out[i] = gl::mul(a[i], b[scalar ? 0 : i]);
}
