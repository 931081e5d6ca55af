// The end of an MSM, from the records of msm_accumulate.cu: records are merged, then buckets are summed with weights.
//
// Records are ordered by key, at most two per thread of msm_accumulate. A block of msm_merge adds the records of each
// run as a tree and passes on its first and last run, which neighbours may continue; the last launch has one block.
// The weighted sum takes running sums over chunks of buckets, one per thread, each weighted by where its chunk begins.
//
// Bound: the latency of an addition (about 5 us for BN254 G1, 25 us for BLS12-381 G2) times the depth of the kernel, but
// the multiplier for msm_reduce over many buckets. Products are calls: the code stays small.
//
// Compiled with CURVE, GROUP, MERGE_BLOCK and REDUCE_BLOCK (threads).
#define DP_OUTLINE_PRODUCTS
#include "group.h"

using namespace dp;

namespace {

constexpr u32 NO_KEY = 0xffffffffu;

// Adds the sums of a block's threads; thread 0 returns the total. `scratch` is the block's own, a Sum for each thread.
DP_HD Sum block_sum(Sum mine, Sum* scratch) {
  scratch[threadIdx.x] = mine;
  for (u32 d = blockDim.x / 2; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) {
      add_to(mine, scratch[threadIdx.x + d]);
      scratch[threadIdx.x] = mine;
    }
  }
  return mine;
}

}  // namespace

// One level of merging: a block takes blockDim.x records (in place), of which those with NO_KEY are holes. Runs that may
// go on in the neighbouring blocks, the first and the last, become records 2b and 2b + 1; with one block all is whole.
extern "C" __global__ void __launch_bounds__(MERGE_BLOCK)
    msm_merge(const u32* record_keys, Sum* records, u32 count, Sum* buckets, u32* keys_out, Sum* records_out) {
  __shared__ u32 keys[MERGE_BLOCK];
  __shared__ u32 places[MERGE_BLOCK];
  __shared__ u32 warp_counts[MERGE_BLOCK / 32];
  const u32 t = threadIdx.x, lane = t & 31, warp = t >> 5;
  const u32 place = blockIdx.x * MERGE_BLOCK + t;

  // close the holes
  const u32 own_key = place < count ? record_keys[place] : NO_KEY;
  const u32 ballot = __ballot_sync(0xffffffffu, own_key != NO_KEY);
  if (lane == 0) warp_counts[warp] = __popc(ballot);
  __syncthreads();
  u32 position = __popc(ballot & ((1u << lane) - 1)), valid = 0;
  for (u32 w = 0; w < MERGE_BLOCK / 32; ++w) {
    if (w < warp) position += warp_counts[w];
    valid += warp_counts[w];
  }
  if (own_key != NO_KEY) {
    keys[position] = own_key;
    places[position] = place;
  }
  __syncthreads();

  u32 begin = 0, run_end = 0, key = NO_KEY;
  if (t < valid) {
    key = keys[t];
    for (u32 lo = 0, hi = t; (begin = lo) < hi;) {  // the first record of this key
      u32 mid = (lo + hi) / 2;
      if (keys[mid] < key) lo = mid + 1;
      else hi = mid;
    }
    u32 hi = valid;
    for (run_end = t + 1; run_end < hi;) {
      u32 mid = (run_end + hi) / 2;
      if (keys[mid] > key) hi = mid;
      else run_end = mid + 1;
    }
  }
  // each run as a binary tree on its own positions; done when no run is longer than the distance
  for (u32 d = 1; __syncthreads_or(t < valid && run_end - begin > d); d *= 2) {
    if (t < valid && (t - begin) % (2 * d) == 0 && t + d < run_end)
      add_to(records[places[t]], records[places[t + d]]);
  }

  if (gridDim.x > 1 && t < 2) keys_out[2 * blockIdx.x + t] = NO_KEY;
  __syncthreads();
  if (t < valid && t == begin) {
    const Sum sum = records[places[t]];
    const bool first = begin == 0, last = run_end == valid;
    if (gridDim.x > 1 && (first || last)) {
      const u32 slot = 2 * blockIdx.x + (first ? 0 : 1);
      keys_out[slot] = key;
      records_out[slot] = sum;
    } else {
      buckets[key] = sum;
    }
  }
}

// The weighted sum of each set's buckets, sum of (b + 1) * bucket[b], as one partial sum a block: thread j takes `chunk`
// buckets by running sums, and adds j * chunk times their plain sum. Sets are blockIdx.y; `scratch` holds a Sum a thread.
extern "C" __global__ void __launch_bounds__(REDUCE_BLOCK)
    msm_reduce(const Sum* buckets, u32 buckets_per_set, u32 chunk, Sum* scratch, Sum* partial) {
  const u32 j = blockIdx.x * REDUCE_BLOCK + threadIdx.x;
  const u64 first = (u64)j * chunk;
  Sum sum = Sum::infinity();
  if (first < buckets_per_set) {
    const Sum* b = buckets + (size_t)blockIdx.y * buckets_per_set + first;
    Sum running = Sum::infinity();
#pragma unroll 1
    for (u32 k = first + chunk < buckets_per_set ? chunk : (u32)(buckets_per_set - first); k-- > 0;) {
      add_to(running, b[k]);
      add_to(sum, running);
    }
    Sum weighted = Sum::infinity();
#pragma unroll 1
    for (int bit = 31 - __clz((int)(first | 1)); bit >= 0; --bit) {
      double_it(weighted);
      if ((first >> bit) & 1) add_to(weighted, running);
    }
    add_to(sum, weighted);
  }
  const size_t block = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  sum = block_sum(sum, scratch + block * REDUCE_BLOCK);
  if (threadIdx.x == 0) partial[block] = sum;
}

// sums[set] = the sum of `count` partial sums of each set; one block a set.
extern "C" __global__ void __launch_bounds__(REDUCE_BLOCK)
    msm_sum(const Sum* partial, u32 count, Sum* scratch, Sum* sums) {
  Sum sum = Sum::infinity();
#pragma unroll 1
  for (u32 k = threadIdx.x; k < count; k += REDUCE_BLOCK) add_to(sum, partial[(size_t)blockIdx.x * count + k]);
  sum = block_sum(sum, scratch + (size_t)blockIdx.x * REDUCE_BLOCK);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// result = sum of 2^(window_bits * set) * sums[set], by Horner's rule on one thread: used where memory did not allow the
// multiples that make one set of buckets enough.
extern "C" __global__ void msm_join_sets(const Sum* sums, u32 sets, u32 window_bits, Sum* result) {
  Sum sum = sums[sets - 1];
#pragma unroll 1
  for (u32 set = sets - 1; set-- > 0;) {
#pragma unroll 1
    for (u32 k = 0; k < window_bits; ++k) double_it(sum);
    add_to(sum, sums[set]);
  }
  *result = sum;
}
