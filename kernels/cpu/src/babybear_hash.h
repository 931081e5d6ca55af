// Poseidon2 over BabyBear on the CPU, eight states beside each other, or a single one. Every function works on the calling thread.
#pragma once
#include <cstddef>

#include "hash/poseidon2_babybear.h"

namespace dp {

constexpr size_t BABYBEAR_LANES = 8;

// Digests are 8 elements each, one after the other; all elements are canonical.
// Permutes n states of 16 elements.
void babybear_permute(const poseidon2_babybear::Constants& with, const u32* states, size_t n, u32* out);
// Overwrites the first RATE elements of a sponge's state by n values, the first at `at`, and permutes when the last of these
// elements was. Returns the place of the next value.
int babybear_absorb(const poseidon2_babybear::Constants& with, u32* state, int at, const u32* values, size_t n);
// Hashes n rows of `width` elements, `stride` apart: an overwriting sponge without padding.
void babybear_hash_rows(const poseidon2_babybear::Constants& with, const u32* rows, size_t width, size_t n, u32* out);
// Compresses digest i of `left` with digest i of `right`, which are `stride` elements from the next.
void babybear_compress(const poseidon2_babybear::Constants& with, const u32* left, const u32* right, size_t stride, size_t n,
                       u32* out);
// Returns the least i < n for which the state with first + i at `position` gives an element 7 with `bits` low zeros; or n.
size_t babybear_grind(const poseidon2_babybear::Constants& with, const u32* state, int position, u32 first, size_t n, int bits);

}  // namespace dp
