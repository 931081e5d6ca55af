// The end of an MSM, from the records of msm_accumulate.cu: records are merged, then buckets are summed with weights.
//
// Records are ordered by key, at most two per thread of msm_accumulate. A block of msm_merge adds the records of each
// run as a tree and passes on its first and last run, which neighbours may continue; the last launch has one block.
//
// The weighted sum of a set, sum of (b + 1) * bucket[b], is left in parts whose weights are powers of two, for the host to
// put together: it takes microseconds where doublings here would take their latency each. A thread takes running sums over
// 2^log_chunk buckets, which make their weighted sum W and their plain sum S. What is left is the sum of all W, and of
// 2^log_chunk * j * S over the threads j: with V_k the sum of S over the threads whose bit k is set, that is the sum of
// 2^(log_chunk + k) * V_k, and one tree of additions makes all V_k.
//
// Bound: the latency of an addition times the depth of the kernel, but the multiplier for msm_reduce over many buckets. So
// trees are added by four lanes for each sum (quads.h). Products are calls: the code stays small.
//
// Compiled with CURVE, GROUP, MERGE_BLOCK (threads), REDUCE_BLOCK (running sums of a block of msm_reduce, a power of two) and
// REDUCE_THREADS (of a block of msm_reduce and msm_sum, at least as many).
#define DP_OUTLINE_PRODUCTS
#include "quads.h"

using namespace dp;

namespace {

constexpr u32 NO_KEY = 0xffffffffu;

constexpr u32 log2_of(u32 power) { return power == 1 ? 0 : 1 + log2_of(power / 2); }
constexpr u32 REDUCE_PARTS = 2 + log2_of(REDUCE_BLOCK);  // S, V_k for each bit of a thread's index, W

// Folds the first 2 * half of `size` sums, both powers of two, in place: x[0] becomes their sum, and x[2^k] the sum of those
// whose index has bit k. Beyond them each part x[2^k, 2^(k + 1)) is folded to the sum of its first 2 * half, at x[2^k].
//
// A step adds the upper half of each part to its lower half. It leaves the upper half of the first part as it was: these are
// the sums with this bit set, and a part of their own from then on.
DP_HD void fold(Sum* x, u32 size, u32 half) {
  u32 parts = 0;
  while (size >> parts > half) ++parts;
  for (u32 h = half; h > 0; h /= 2, ++parts) {
    __syncthreads();
    add_pairs(x, h * parts, [&](u32 t) {
      const u32 part = t / h, at = t % h + (part ? size >> part : 0);
      return make_uint2(at, at + h);
    });
  }
  __syncthreads();
}

// How many threads of the block before this one have `set`, and in `all` how many of the block; `warp_counts` has a word
// for each warp of MERGE_BLOCK threads.
DP_HD u32 rank_of(bool set, u32* warp_counts, u32& all) {
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 ballot = __ballot_sync(0xffffffffu, set);
  if (lane == 0) warp_counts[warp] = __popc(ballot);
  __syncthreads();
  u32 rank = __popc(ballot & ((1u << lane) - 1));
  all = 0;
  for (u32 w = 0; w < MERGE_BLOCK / 32; ++w) {
    if (w < warp) rank += warp_counts[w];
    all += warp_counts[w];
  }
  return rank;
}

}  // namespace

// One level of merging: a block takes blockDim.x records (in place), of which those with NO_KEY are holes. Runs that may
// go on in the neighbouring blocks, the first and the last, become records 2b and 2b + 1; with one block all is whole.
extern "C" __global__ void __launch_bounds__(MERGE_BLOCK)
    msm_merge(const u32* record_keys, Sum* records, u32 count, Sum* buckets, u32* keys_out, Sum* records_out) {
  __shared__ u32 keys[MERGE_BLOCK];
  __shared__ u32 places[MERGE_BLOCK];
  __shared__ u32 todo[MERGE_BLOCK];
  __shared__ u32 warp_counts[MERGE_BLOCK / 32];
  const u32 t = threadIdx.x;
  const u32 place = blockIdx.x * MERGE_BLOCK + t;

  // close the holes
  const u32 own_key = place < count ? record_keys[place] : NO_KEY;
  u32 valid;
  const u32 position = rank_of(own_key != NO_KEY, warp_counts, valid);
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
  for (u32 d = 1;; d *= 2) {
    const bool adds = t < valid && (t - begin) % (2 * d) == 0 && t + d < run_end;
    u32 count;
    const u32 own = rank_of(adds, warp_counts, count);
    if (count == 0) break;
    if (adds) todo[own] = t;
    __syncthreads();
    add_pairs(records, count, [&](u32 i) { return make_uint2(places[todo[i]], places[todo[i] + d]); });
    __syncthreads();
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

// Parts of the weighted sums of sets of buckets. A block takes REDUCE_BLOCK running sums, and leaves in
// partial[set][part][block]: its S as part 0, its V_k as 1 + k, its W as the last. Sets are blockIdx.y; `scratch` holds two
// sums for each running sum.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS)
    msm_reduce(const Sum* buckets, u32 buckets_per_set, u32 log_chunk, Sum* scratch, Sum* partial) {
  const u64 first = (u64)(blockIdx.x * REDUCE_BLOCK + threadIdx.x) << log_chunk;
  Sum running = Sum::infinity(), weighted = Sum::infinity();
  if (threadIdx.x < REDUCE_BLOCK && first < buckets_per_set) {
    const Sum* b = buckets + (size_t)blockIdx.y * buckets_per_set + first;
#pragma unroll 1
    for (u32 k = (u32)min((u64)1 << log_chunk, buckets_per_set - first); k-- > 0;) {
      add_to(running, b[k]);
      add_to(weighted, running);
    }
  }
  Sum* own = scratch + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * 2 * REDUCE_BLOCK;
  if (threadIdx.x < REDUCE_BLOCK) {
    own[threadIdx.x] = running;
    if (log_chunk > 0) own[REDUCE_BLOCK + threadIdx.x] = weighted;  // else W is S
  }
  fold(own, log_chunk > 0 ? 2 * REDUCE_BLOCK : REDUCE_BLOCK, REDUCE_BLOCK / 2);
  for (u32 part = threadIdx.x; part < REDUCE_PARTS; part += REDUCE_THREADS) {
    const bool plain = part == 0 || (part == REDUCE_PARTS - 1 && log_chunk == 0);
    partial[((size_t)blockIdx.y * REDUCE_PARTS + part) * gridDim.x + blockIdx.x] = own[plain ? 0 : 1u << (part - 1)];
  }
}

// A block for each part and set, (REDUCE_PARTS, sets), folds partial[set][part][`count`] of `count` blocks, a power of two.
// sums[set] is the row of parts, followed by V_k of the blocks' S for each bit k of a block's index.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) msm_sum(Sum* partial, u32 count, u32 width, Sum* sums) {
  Sum* own = partial + ((size_t)blockIdx.y * REDUCE_PARTS + blockIdx.x) * count;
  Sum* row = sums + (size_t)blockIdx.y * width;
  fold(own, count, count / 2);
  if (threadIdx.x == 0) row[blockIdx.x] = own[0];
  if (blockIdx.x == 0 && REDUCE_PARTS + threadIdx.x < width) row[REDUCE_PARTS + threadIdx.x] = own[1u << threadIdx.x];
}
