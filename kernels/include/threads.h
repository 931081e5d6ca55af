// Helpers of all kernels, without curves: dynamic shared memory and thread indices.
#pragma once
#include "platform.h"

// A kernel's dynamic shared memory as an array of T. The tests' host build has its own definition.
#ifndef DP_EMULATE
#define DP_DYNAMIC_SHARED(T, name)                                        \
  extern __shared__ __align__(16) unsigned char dp_dynamic_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(dp_dynamic_shared_bytes)
#endif

namespace dp {

__device__ __forceinline__ u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 global_threads() { return (u64)gridDim.x * blockDim.x; }

}  // namespace dp
