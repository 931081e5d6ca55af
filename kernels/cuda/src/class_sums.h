// Sums of elements of F over the threads of a block, class by class.
#pragma once
#include "field/goldilocks.h"
#include "threads.h"

namespace dp {
namespace gl {

constexpr u32 THREADS = 256;  // most of a block; must equal that in cuda/goldilocks/multilinear.py

// Adds up v over the block's threads of one class, which are those of equal index modulo 2^log_classes; thread
// t < classes has the sum of class t. Blocks are whole warps.
__device__ __forceinline__ Ext class_sum(Ext v, u32 log_classes) {
  constexpr u32 ALL = 0xffffffff;
  __shared__ u64 kept[3][THREADS];
  const u32 classes = 1u << log_classes, apart = classes < 32 ? 32 : classes;
  for (u32 other = 16; other >= classes; other /= 2) {  // within a warp
    Ext added;
    for (int c = 0; c < 3; ++c) added.c[c] = __shfl_xor_sync(ALL, v.c[c], other);
    v = add(v, added);
  }
  for (int c = 0; c < 3; ++c) kept[c][threadIdx.x] = v.c[c];
  __syncthreads();
  if (threadIdx.x < classes)
    for (u32 i = threadIdx.x + apart; i < blockDim.x; i += apart)
      v = add(v, Ext{{kept[0][i], kept[1][i], kept[2][i]}});
  __syncthreads();
  return v;
}

}  // namespace gl
}  // namespace dp
