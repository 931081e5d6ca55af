// Poseidon2 over BabyBear: rows, nodes and proofs of work. maths/poseidon2_babybear.py defines the hashes.
//
// One thread a permutation, its state in registers, its constants in the same words for all threads. Bound: the integer units;
// a permutation has 5700 instructions, 2300 of them by the multiplier.
#include "hash/poseidon2_babybear_word.h"
#include "threads.h"

using namespace dp;
using namespace dp::poseidon2_babybear;

__device__ __forceinline__ void store_digest(const u32* s, u32* out) {
#pragma unroll
  for (int i = 0; i < DIGEST; ++i) out[i] = bb::from_montgomery(s[i]);
}

// Digests of rows of `width` elements: an overwriting sponge without padding.
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    babybear_hash_rows(const __grid_constant__ Constants with, const u32* rows, u32* out, u64 n, u64 width) {
  const u64 at = global_thread();
  if (at >= n) return;
  const u32* row = rows + at * width;
  u32 s[WIDTH];
#pragma unroll
  for (int i = 0; i < WIDTH; ++i) s[i] = 0;
  for (u64 start = 0; start < width; start += RATE) {
#pragma unroll
    for (int i = 0; i < RATE; ++i)
      if (start + i < width) s[i] = bb::to_montgomery(row[start + i]);
    WordPermutation::permute(s, with);
  }
  store_digest(s, out + at * DIGEST);
}

// The parents of digests `left` and `right`.
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    babybear_compress(const __grid_constant__ Constants with, const u32* left, const u32* right, u32* out, u64 n) {
  const u64 at = global_thread();
  if (at >= n) return;
  u32 s[WIDTH];
#pragma unroll
  for (int i = 0; i < DIGEST; ++i) {
    s[i] = bb::to_montgomery(left[at * DIGEST + i]);
    s[DIGEST + i] = bb::to_montgomery(right[at * DIGEST + i]);
  }
  WordPermutation::permute(s, with);
  store_digest(s, out + at * DIGEST);
}

// best = the least witness in [first, first + count) with which `state` does the work, if below what it was
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    babybear_grind(const __grid_constant__ Constants with, const u32* state, u32 position, u32 first, u32 count, u32 mask, u32* best) {
  const u64 i = global_thread();
  const u32 witness = first + (u32)i;
  if (i >= count || *(volatile u32*)best < witness) return;
  u32 s[WIDTH];
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) s[k] = bb::to_montgomery(k == (int)position ? witness : state[k]);
  WordPermutation::permute(s, with);
  if ((bb::from_montgomery(s[RATE - 1]) & mask) == 0) atomicMin(best, witness);
}
