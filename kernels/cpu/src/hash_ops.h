// Hashes of many messages on the CPU, as one table of functions for each hash and each way to compute it. Every function works
// on the calling thread.
#pragma once
#include <cstddef>

#include "views.h"

namespace dp {

// What a group of messages have at one place: words beside each other, or all the same one.
struct HashWord {
  const u64* at;  // or null
  u64 constant;
};

struct HashOps {
  size_t lanes;             // messages at once: n is a multiple of it everywhere
  const HashOps* narrower;  // for what is left over; null where one message is taken at a time

  // Digests are stored by word: word w of digest i at out[w * stride + i].
  // Hashes header[0 .. headers), then columns[0 .. count) at `offset` + i.
  void (*leaves)(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                 u64* out, size_t stride);
  // Hashes tag, digest i of a, digest i of b. `out` may be `a`.
  void (*pairs)(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out, size_t stride);
  // Hashes digests i, apart + i, 2 apart + i and 3 apart + i of `nodes`. Null for a hash whose trees are binary.
  void (*quads)(const u64* nodes, size_t nodes_stride, size_t apart, size_t n, u64* out, size_t stride);
  // Hashes rows of `length` bytes; digest i is the 32 bytes at out + 32 i. Others than Keccak take whole words, as `leaves` does.
  void (*rows)(const u8* rows, size_t length, size_t n, u8* out);
  // Least i < n whose nonce first + i does the work of `bits` bits for the seed (4 words); n if there is none.
  size_t (*grind)(u64 tag, const u64* seed, u64 first, size_t n, int bits);

  // Permutes n states of 16 elements, one after the other. `out` may be `states`. Null for a hash with other states.
  void (*permute)(const u64* states, size_t n, u64* out);
};

extern const HashOps KECCAK_PORTABLE, POSEIDON2_PORTABLE, POSEIDON2_BN254;
#if DP_X86_VECTORS
extern const HashOps KECCAK_AVX2, KECCAK_AVX512, POSEIDON2_AVX2, POSEIDON2_AVX512;
extern const HashOps POSEIDON2_BN254_AVX2, POSEIDON2_BN254_IFMA;
#endif

}  // namespace dp
