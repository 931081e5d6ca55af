// Sums of elements of BabyBear's extension over the threads of a block, and over the blocks of a grid.
#pragma once
#include "field/babybear.h"

namespace dp {
namespace bb {

// Adds up `sums` over the block's threads, whole warps, into `total` in shared memory, for all threads.
template <int COUNT>
__device__ __forceinline__ void block_sums(m::Ext (&sums)[COUNT], m::Ext* total) {
  constexpr u32 ALL = 0xffffffff, LANES = 32;
  __shared__ m::Ext kept[LANES][COUNT];
  const u32 warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
#pragma unroll
    for (u32 other = LANES / 2; other; other /= 2) {
      m::Ext added;
#pragma unroll
      for (int c = 0; c < 4; ++c) added[c] = __shfl_xor_sync(ALL, sums[k][c], other);
      sums[k] = m::add(sums[k], added);
    }
    if (threadIdx.x % LANES == 0) kept[warp][k] = sums[k];
  }
  __syncthreads();
  if (threadIdx.x < 4 * COUNT) {
    const u32 k = threadIdx.x / 4, c = threadIdx.x % 4;
    u32 sum = kept[0][k][c];
    for (u32 i = 1; i < warps; ++i) sum = bb::add(sum, kept[i][k][c]);
    total[k][c] = sum;
  }
  __syncthreads();
}

// The same over all blocks, by way of `partial` (blocks, COUNT): the last block to end has the sums in `total`, leaves *ended
// zero again, and is the one for which this returns true.
template <int COUNT>
__device__ __forceinline__ bool grid_sums(m::Ext (&sums)[COUNT], m::Ext* total, m::Ext* partial, u32* ended) {
  __shared__ u32 last;
  block_sums(sums, total);
  if (gridDim.x == 1) return true;
  if (threadIdx.x < 4 * COUNT)
    partial[(u64)blockIdx.x * COUNT + threadIdx.x / 4][threadIdx.x % 4] = total[threadIdx.x / 4][threadIdx.x % 4];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ended, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  const volatile u32* const all = reinterpret_cast<const volatile u32*>(partial);
#pragma unroll
  for (int k = 0; k < COUNT; ++k) sums[k] = m::Ext::zero();
  for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x)
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[k][c] = bb::add(sums[k][c], all[4 * ((u64)block * COUNT + k) + c]);
  block_sums(sums, total);
  if (threadIdx.x == 0) *ended = 0;
  return true;
}

}  // namespace bb
}  // namespace dp
