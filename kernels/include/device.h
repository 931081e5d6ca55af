// Helpers of the kernels for fields and curves besides the arithmetic: wide loads and stores, and threads.h.
#pragma once
#include "curve/curves.h"
#include "threads.h"

namespace dp {

// A field element (or anything made of 16-byte pieces, 16-byte aligned) moved as 16-byte accesses.
template <class T>
__device__ __forceinline__ T load16(const T* p) {
  static_assert(sizeof(T) % 16 == 0, "moved in 16-byte pieces");
  T r;
  const uint4* s = reinterpret_cast<const uint4*>(p);
  uint4* d = reinterpret_cast<uint4*>(&r);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(T) / 16); ++i) d[i] = s[i];
  return r;
}

// Loads through the read-only path, for data that no thread writes while the kernel runs.
template <class T>
__device__ __forceinline__ T load16_const(const T* p) {
  static_assert(sizeof(T) % 16 == 0, "moved in 16-byte pieces");
  T r;
  const uint4* s = reinterpret_cast<const uint4*>(p);
  uint4* d = reinterpret_cast<uint4*>(&r);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(T) / 16); ++i) d[i] = __ldg(s + i);
  return r;
}

template <class T>
__device__ __forceinline__ void store16(T* p, const T& v) {
  static_assert(sizeof(T) % 16 == 0, "moved in 16-byte pieces");
  const uint4* s = reinterpret_cast<const uint4*>(&v);
  uint4* d = reinterpret_cast<uint4*>(p);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(T) / 16); ++i) d[i] = s[i];
}

}  // namespace dp
