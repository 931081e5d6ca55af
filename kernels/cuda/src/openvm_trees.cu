// OpenVM 2's Merkle trees over the rows of codewords, of elements in Montgomery form but for those of opened leaves, which are for
// the host. openvm_codes.cu describes where a codeword has its rows.
//
// One thread a permutation, its state in registers. Blocks join what they have hashed through shared memory, so that digests of
// rows are never stored, and a launch takes up to 9 levels of a tree. Bound: the integer units.
#include "hash/poseidon2_babybear_word.h"
#include "threads.h"

using namespace dp;
using namespace dp::poseidon2_babybear;

struct Digest {
  uint4 low, high;
};

// Joins the nodes i and i + apart, and so on, of blocks of 2 apart nodes: node i of the result is in place i.
__device__ __forceinline__ void join(const Constants& with, u32 (*nodes)[HASH_THREADS], u32 left, u32 right, u32 to, bool works) {
  u32 s[WIDTH];
  if (works) {
#pragma unroll
    for (int i = 0; i < DIGEST; ++i) s[i] = nodes[i][left], s[DIGEST + i] = nodes[i][right];
    WordPermutation::permute(s, with);
  }
  __syncthreads();
  if (works) {
#pragma unroll
    for (int i = 0; i < DIGEST; ++i) nodes[i][to] = s[i];
  }
  __syncthreads();
}

__device__ __forceinline__ Digest digest_of(const u32 (*nodes)[HASH_THREADS], u32 i) {
  return {make_uint4(nodes[0][i], nodes[1][i], nodes[2][i], nodes[3][i]),
          make_uint4(nodes[4][i], nodes[5][i], nodes[6][i], nodes[7][i])};
}

// The leaves of codewords (width, rows): a thread hashes a row, and a block joins the digests of each leaf's 2^log_fold rows.
// Leaf i is in place i, its rows are in place rev(i) of the codeword.
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    trees_leaves(const __grid_constant__ Constants with, const u32* codewords, Digest* leaves, u64 rows, u32 width, u32 log_fold, u32 log_leaves) {
  __shared__ u32 nodes[DIGEST][HASH_THREADS];
  const u64 row = global_thread();
  {
    const u32* cell = codewords + row;
    u32 s[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) s[i] = 0;
    for (u32 left = width; left; left -= min(left, (u32)RATE)) {
#pragma unroll
      for (int i = 0; i < RATE; ++i)
        if (i < left) s[i] = *cell, cell += rows;
      WordPermutation::permute(s, with);
    }
#pragma unroll
    for (int i = 0; i < DIGEST; ++i) nodes[i][threadIdx.x] = s[i];
  }
  __syncthreads();
  // The rows of a leaf are in the order of their reversed numbers: 2u and 2u + 1 are half of them apart.
  for (u32 log_left = log_fold; log_left > 0; --log_left) {
    const u32 half = 1u << (log_left - 1), i = threadIdx.x, own = i & (half - 1), left = 2 * (i - own) + own;
    join(with, nodes, left, left + half, i, i < blockDim.x >> (log_fold - log_left + 1));
  }
  if (threadIdx.x < blockDim.x >> log_fold) {
    const u32 place = blockIdx.x * (blockDim.x >> log_fold) + threadIdx.x;
    leaves[log_leaves ? __brev(place) >> (32 - log_leaves) : 0] = digest_of(nodes, threadIdx.x);
  }
}

// The levels above one of 2^log_size nodes, `levels` of them. A block joins 2^levels neighbours. Levels lie one behind another.
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    trees_climb(const __grid_constant__ Constants with, Digest* level, u32 log_size, u32 levels) {
  __shared__ u32 nodes[DIGEST][HASH_THREADS];
  u32 s[WIDTH];
  {
    const Digest* const pair = level + 2 * global_thread();
    const Digest a = pair[0], b = pair[1];
    const u32 both[WIDTH] = {a.low.x, a.low.y, a.low.z, a.low.w, a.high.x, a.high.y, a.high.z, a.high.w,
                             b.low.x, b.low.y, b.low.z, b.low.w, b.high.x, b.high.y, b.high.z, b.high.w};
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) s[i] = both[i];
    WordPermutation::permute(s, with);
  }
#pragma unroll
  for (int i = 0; i < DIGEST; ++i) nodes[i][threadIdx.x] = s[i];
  __syncthreads();
  for (u32 done = 1;; ++done) {
    const u32 own = blockDim.x >> (done - 1);
    level += (u64)1 << (log_size - done + 1);
    if (threadIdx.x < own) level[(u64)blockIdx.x * own + threadIdx.x] = digest_of(nodes, threadIdx.x);
    if (done == levels) return;
    const u32 left = 2 * threadIdx.x;
    join(with, nodes, left, left + 1, threadIdx.x, threadIdx.x < own / 2);
  }
}

// Opened leaves, canonical: rows (queries, 2^log_fold, width), then paths (queries, log_leaves, 8).
extern "C" __global__ void trees_open(const u32* codewords, const u32* digests, const u32* queries, u32* out, u64 count,
                                      u64 rows, u64 width, u32 log_fold, u32 log_leaves) {
  const u64 at = global_thread(), cells = (count * width) << log_fold;
  if (at < cells) {
    const u64 column = at % width, row = at / width, q = row >> log_fold;
    const u32 t = (u32)row & ((1u << log_fold) - 1), log_rows = log_fold + log_leaves;
    const u32 number = (t << log_leaves) + queries[q];
    out[at] = bb::from_montgomery(codewords[column * rows + (log_rows ? __brev(number) >> (32 - log_rows) : 0)]);
  } else if (at < cells + count * log_leaves * DIGEST) {
    const u64 word = at - cells, node = word / DIGEST, q = node / log_leaves;
    const u32 depth = (u32)(node % log_leaves);
    const u64 level = ((u64)2 << log_leaves) - ((u64)2 << (log_leaves - depth));
    out[at] = bb::from_montgomery(digests[(level + ((queries[q] >> depth) ^ 1)) * DIGEST + word % DIGEST]);
  }
}
