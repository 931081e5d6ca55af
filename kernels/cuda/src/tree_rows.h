// What the trees of every hash have in common: leaves over rows of column-major matrices, and where digests lie.
//
// A level of m nodes over blow-up B is laid out as the matrices are: with B' = min(B, m), node i = j B' + k is stored at
// k (m / B') + j. So adjacent threads read adjacent rows, and a parent's children lie equally far apart in a coset.
// A digest is 4 words.
#pragma once
#include "threads.h"

namespace dp {

constexpr int MATRICES = 8;  // matrices per launch of leaves
constexpr u32 RESUME = 1, FINISH = 2;

struct Leaves {
  u64 count;                   // leaves
  u64 words;                   // of a whole leaf with its header
  u32 log_n, log_blowup;       // of the matrices
  u32 log_count, log_arity;    // a leaf holds rows i + t count, t < 2^log_arity
  u32 header_words, matrices;  // to absorb in this launch
  u32 filled, flags;           // words of the current block that earlier launches absorbed
  u32 widths[MATRICES];

  // The leaf at a place of the level's layout, in natural order.
  __device__ __forceinline__ u64 index(u64 place) const {
    const u32 log_cosets = min(log_blowup, log_count), log_rows = log_count - log_cosets;
    return ((place & (((u64)1 << log_rows) - 1)) << log_cosets) + (place >> log_rows);
  }
};

// The row of a matrix (B, n) in natural order.
__device__ __forceinline__ u64 row_place(u64 row, u32 log_n, u32 log_blowup) {
  return ((row & (((u64)1 << log_blowup) - 1)) << log_n) + (row >> log_blowup);
}

// The first four words of a state.
__device__ __forceinline__ void store_digest(u64* digests, u64 at, const u64* s) {
  ulonglong2* p = reinterpret_cast<ulonglong2*>(digests) + 2 * at;
  p[0] = make_ulonglong2(s[0], s[1]);
  p[1] = make_ulonglong2(s[2], s[3]);
}

struct Seed {
  u64 lane[4];
};

}  // namespace dp
