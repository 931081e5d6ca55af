// BabyBear's elements into Montgomery form, and proofs of work by Poseidon2. maths/poseidon2_babybear.py defines the hash.
//
// One thread for an element, or a permutation. Bound: memory; the integer units.
#include "hash/poseidon2_babybear_word.h"
#include "threads.h"

using namespace dp;
using namespace dp::poseidon2_babybear;

extern "C" __global__ void babybear_to_montgomery(u32* data, u64 n) {
  const u64 at = global_thread();
  if (at < n) data[at] = bb::to_montgomery(data[at]);
}

// best = the least witness in [first, first + count) with which `state` does the work, if below what it was
extern "C" __global__ void __launch_bounds__(HASH_THREADS)
    babybear_grind(const __grid_constant__ Constants with, const u32* state, u32 position, u32 first, u32 count, u32 mask,
                   u32* best) {
  const u64 i = global_thread();
  const u32 witness = first + (u32)i;
  if (i >= count || *(volatile u32*)best < witness) return;
  u32 s[WIDTH];
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) s[k] = bb::to_montgomery(k == (int)position ? witness : state[k]);
  WordPermutation::permute(s, with);
  if ((bb::from_montgomery(s[RATE - 1]) & mask) == 0) atomicMin(best, witness);
}
