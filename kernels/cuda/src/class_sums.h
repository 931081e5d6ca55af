// Sums of elements of F over the threads of a block, class by class.
#pragma once
#include "field/goldilocks.h"
#include "threads.h"

namespace dp {
namespace gl {

constexpr u32 THREADS = 256;  // most of a block; must equal that in cuda/goldilocks/multilinear.py

// Adds up v over the block's threads of one class, which are those of equal index modulo 2^log_classes; thread
// t < classes has the sum of class t.
__device__ __forceinline__ Ext class_sum(Ext v, u32 log_classes) {
  __shared__ u64 kept[3][THREADS];
  for (int c = 0; c < 3; ++c) kept[c][threadIdx.x] = v.c[c];
  __syncthreads();
  for (u32 left = blockDim.x / 2; left >= 1u << log_classes; left /= 2) {
    if (threadIdx.x < left)
      for (int c = 0; c < 3; ++c) kept[c][threadIdx.x] = add(kept[c][threadIdx.x], kept[c][threadIdx.x + left]);
    __syncthreads();
  }
  for (int c = 0; c < 3; ++c) v.c[c] = kept[c][threadIdx.x];
  __syncthreads();
  return v;
}

}  // namespace gl
}  // namespace dp
