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
DP_ROUND_STEPS(DP_ROUND)

constexpr u32 LOG_TILE = 12;  // words of a block's tile; must equal that in cuda/goldilocks/multilinear.py

// Binds runs: out[r apart + i] = the sum over a < 2^log_run of matrix[3 a + r] in[i 2^log_run + a], r < 3. A tile goes by way of
// shared memory, with a word of padding after each run. Bound: memory.
extern "C" __global__ void __launch_bounds__(THREADS)
    ml_bind_runs(const u64* __restrict__ in, u64 words, const u64* __restrict__ matrix, u64* __restrict__ out, u32 log_run,
                 u64 apart) {
  __shared__ u64 tile[(1u << LOG_TILE) + (1u << (LOG_TILE - 2))], factors[3 << 6];
  const u64 begin = (u64)blockIdx.x << LOG_TILE;
  const u32 count = (u32)min(1ull << LOG_TILE, words - begin), size = 1u << log_run, runs = count >> log_run;
  const u32 pad = log_run > 1 ? log_run : 31;
  for (u32 i = threadIdx.x; i < count; i += THREADS) tile[i + (i >> pad)] = in[begin + i];
  for (u32 i = threadIdx.x; i < 3 * size; i += THREADS) factors[i] = matrix[i];
  __syncthreads();
  for (u32 i = threadIdx.x; i < 3 * runs; i += THREADS) {
    const u32 r = i / runs, run = i - r * runs, first = run << log_run;
    const u64* const own = tile + first + (first >> pad);
    ProductSum sum;
#pragma unroll 4
    for (u32 a = 0; a < size; ++a) sum.add(own[a], factors[3 * a + r]);
    out[r * apart + (begin >> log_run) + run] = sum.value();
  }
}

constexpr u32 SETS = 4;                            // must equal that in kernels/interface/multilinear.py
constexpr u32 TILE_RUNS = 128, TILE_WORDS = 2048;  // most of a tile

// The sums of weight times run over all runs of columns, for up to SETS sets of weights (sets, 3, runs), many of which are zero:
// out (sets, 2^log_run, 3). A block's tile and its weights lie in shared memory. A thread adds up one place of some runs, for one
// set, and reduces its sum once. Partial sums (blocks, sets, 2^log_run, 3) are added up by the last block to end, which leaves
// *ended zero again. Bound: instructions, then memory.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    ml_sum_runs(const u64* __restrict__ columns, const u64* __restrict__ weights, u64 runs, u32 log_run, u32 sets, u64* partial,
                u32* ended, u64* out) {
  __shared__ u64 tile[TILE_WORDS], factors[3 * SETS * TILE_RUNS], kept[3][THREADS];
  __shared__ u32 last;
  const u32 size = 1u << log_run, most = min(TILE_RUNS, TILE_WORDS >> log_run);
  const u32 place = threadIdx.x & (size - 1), group = threadIdx.x >> log_run, set = group % SETS, part = group / SETS;
  const u32 parts = (THREADS >> log_run) / SETS;
  ExtSum sum;
  for (u64 first = (u64)blockIdx.x * most; first < runs; first += (u64)gridDim.x * most) {
    const u32 own = (u32)min((u64)most, runs - first);
    for (u32 i = threadIdx.x; i < own << log_run; i += THREADS) tile[i] = columns[(first << log_run) + i];
    for (u32 row = threadIdx.x / TILE_RUNS; row < 3 * sets; row += THREADS / TILE_RUNS) {
      const u32 j = threadIdx.x % TILE_RUNS;
      if (j < own) factors[row * TILE_RUNS + j] = weights[row * runs + first + j];
    }
    __syncthreads();
    for (u32 j = part; set < sets && j < own; j += parts) {
      const u64* const w = factors + 3 * set * TILE_RUNS + j;
      const Ext weight{{w[0], w[TILE_RUNS], w[2 * TILE_RUNS]}};
      if (weight.c[0] | weight.c[1] | weight.c[2]) sum.add(weight, tile[(j << log_run) + place]);
    }
    __syncthreads();
  }
  const Ext own = sum.value();
  for (int c = 0; c < 3; ++c) kept[c][threadIdx.x] = own.c[c];
  __syncthreads();
  const u32 words = 3 * sets << log_run;
  for (u32 i = threadIdx.x; i < words; i += THREADS) {
    const u32 c = i % 3, at = i / 3;  // set and place
    u64 total = kept[c][at];
    for (u32 h = 1; h < parts; ++h) total = add(total, kept[c][at + (h * SETS << log_run)]);
    partial[(u64)blockIdx.x * words + i] = total;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ended, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  const volatile u64* const all = partial;
  for (u32 i = threadIdx.x; i < words; i += THREADS) {
    u64 total = 0;
#pragma unroll 8
    for (u32 b = 0; b < gridDim.x; ++b) total = add(total, all[(u64)b * words + i]);
    out[i] = total;
  }
  if (threadIdx.x == 0) *ended = 0;
}
#endif
