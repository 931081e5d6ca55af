// The steps of the multilinear engine's prover (multilinear_steps.h), each a kernel: one thread for an item, or blocks that
// walk the items of a step with sums; or one block. Bound: memory for most, products of F for rounds.
#include "class_sums.h"
#include "multilinear_steps.h"
#include "warp_lanes.h"

using namespace dp;
using namespace dp::gl;

// The sums of all items by class. The last block to end adds up those of all blocks, partial (blocks, SUMS, classes, 3), leaves
// *ended zero again, and calls done(k, class, sum) in the thread of each class. Returns whether this block is that one.
template <class Step, class Done>
__device__ __forceinline__ bool sum_all(const Step& step, u64 items, u32 log_classes, u64* partial, u32* ended,
                                        const Done& done) {
  const u32 classes = 1u << log_classes;
  Ext sums[Step::SUMS] = {};
  for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < items; i += (u64)gridDim.x * THREADS) step(i, sums);
  for (int k = 0; k < Step::SUMS; ++k) {
    const Ext v = class_sum(sums[k], log_classes);
    if (threadIdx.x < classes)
      for (int c = 0; c < 3; ++c)
        partial[((u64)(blockIdx.x * Step::SUMS + k) * classes + threadIdx.x) * 3 + c] = v.c[c];
  }
  __shared__ u32 last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ended, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  const volatile u64* const all = partial;
  for (int k = 0; k < Step::SUMS; ++k) {
    Ext v = embed(0);
    const u32 own = threadIdx.x & (classes - 1);
    for (u32 b = threadIdx.x >> log_classes; b < gridDim.x; b += THREADS >> log_classes) {
      const volatile u64* p = all + ((u64)(b * Step::SUMS + k) * classes + own) * 3;
      v = add(v, Ext{{p[0], p[1], p[2]}});
    }
    v = class_sum(v, log_classes);
    if (threadIdx.x < classes) done(k, threadIdx.x, v);
  }
  if (threadIdx.x == 0) *ended = 0;
  return true;
}

// The threads of one block. Its first warp draws from transcripts.
struct Block {
  u64 first, stride;

  __device__ void sync() const { __syncthreads(); }
  __device__ Ext sum(const Ext& v) const {
    __shared__ Ext total;
    const Ext own = class_sum(v, 0);
    if (threadIdx.x == 0) total = own;
    __syncthreads();
    return total;
  }
  __device__ bool leads() const { return threadIdx.x < WarpLanes::count; }
  __device__ WarpLanes lanes() const { return {threadIdx.x}; }
};

#define DP_EACH(name, Step)                                                                                        \
  extern "C" __global__ void __launch_bounds__(THREADS) ml_##name(const __grid_constant__ steps::Step step, u64 items) { \
    const u64 i = global_thread();                                                                                 \
    if (i < items) step(i);                                                                                        \
  }
#define DP_SUM(name, Step)                                                                                         \
  extern "C" __global__ void __launch_bounds__(THREADS) ml_##name(const __grid_constant__ steps::Step step, u64 items, \
                                                                 u32 log_classes, u64* partial, u32* ended, u64* out) { \
    sum_all(step, items, log_classes, partial, ended, [=](int k, u32 own, const Ext& v) {                           \
      for (int c = 0; c < 3; ++c) out[(((u64)k << log_classes) + own) * 3 + c] = v.c[c];                            \
    });                                                                                                            \
  }
#define DP_ROUND(name, Step)                                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS, 2) ml_##name(const __grid_constant__ steps::Step step,     \
                                                                    u64 items, u64* partial, u32* ended) {         \
    __shared__ Ext sums[steps::Step::SUMS];                                                                        \
    if (!sum_all(step, items, 0, partial, ended, [&](int k, u32, const Ext& v) { sums[k] = v; })) return;          \
    __syncthreads();                                                                                               \
    if (threadIdx.x < WarpLanes::count) step.finish(WarpLanes{threadIdx.x}, sums);                                 \
  }
#define DP_BLOCK(name, Step)                                                                                       \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) ml_##name(const __grid_constant__ steps::Step step) {   \
    step(Block{threadIdx.x, blockDim.x});                                                                          \
  }
#ifdef DP_ONE_BLOCK
DP_BLOCK_STEPS(DP_BLOCK)
#else
DP_MULTILINEAR_STEPS(DP_EACH, DP_SUM)
DP_DEVICE_STEPS(DP_EACH, DP_SUM)
DP_ROUND_STEPS(DP_ROUND)
#endif
