// What every kernel file needs beside the arithmetic: wide loads and stores, dynamic shared memory, thread indices.
#pragma once
#include "curve/curves.h"

// A kernel's dynamic shared memory as an array of T. The tests' host build has its own definition.
#ifndef DP_EMULATE
#define DP_DYNAMIC_SHARED(T, name)                                        \
  extern __shared__ __align__(16) unsigned char dp_dynamic_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(dp_dynamic_shared_bytes)
#endif

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

// The same through the read-only path, for data that no thread writes while the kernel runs.
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

__device__ __forceinline__ u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 global_threads() { return (u64)gridDim.x * blockDim.x; }

}  // namespace dp
