// Transforms of at most 64 points over Goldilocks in a thread's registers: every root of unity there is a power of two, so a
// product is a shift.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {

template <int D>
__device__ __forceinline__ constexpr int reversed(int j) {
  int r = 0;
  for (int b = 0; b < D; ++b) r |= ((j >> b) & 1) << (D - 1 - b);
  return r;
}

constexpr int LOG_OF_ROOT_64 = 39;  // 7^((p-1)/64) = 2^39

// (a - b) w^j for w of order 2^LEVEL: a shift, by an exponent mod 192 because 2^96 = -1
template <bool INVERSE, int LEVEL, int J>
__device__ __forceinline__ u64 turned_difference(u64 a, u64 b) {
  constexpr int forward = LOG_OF_ROOT_64 * (64 >> LEVEL) % 192 * J % 192;
  constexpr int shift = INVERSE ? (192 - forward) % 192 : forward;
  return shift < 96 ? mul_pow2<shift % 96>(sub(a, b)) : mul_pow2<shift % 96>(sub(b, a));
}

template <bool INVERSE, int LEVEL, int J>
__device__ __forceinline__ void butterflies(u64* v) {
  constexpr int HALF = 1 << (LEVEL - 1);
  if constexpr (J < HALF) {
    const u64 a = v[J], b = v[J + HALF];
    v[J] = add(a, b);
    v[J + HALF] = turned_difference<INVERSE, LEVEL, J>(a, b);
    butterflies<INVERSE, LEVEL, J + 1>(v);
  }
}

// 2^D-point transform in registers, decimation in frequency: output j is left in v[reversed(j)].
template <bool INVERSE, int D>
__device__ __forceinline__ void transform(u64* v) {
  if constexpr (D > 0) {
    butterflies<INVERSE, D, 0>(v);
    transform<INVERSE, D - 1>(v);
    transform<INVERSE, D - 1>(v + (1 << (D - 1)));
  }
}

}  // namespace gl
}  // namespace dp
