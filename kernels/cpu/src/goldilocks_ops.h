// Vector operations over Goldilocks on the CPU, as one table of functions for each instruction set. The bindings choose
// a table that the CPU runs, and own the threads: every function here works on the calling thread.
#pragma once
#include <cstddef>
#include <vector>

#include "views.h"

namespace dp {

struct GoldilocksOps {
  const char* name;
  size_t lanes;  // elements in a vector; what has to be a multiple of it says so

  // out[i] = a[i] op b[i * step], for step 0 or 1; n a multiple of `lanes`; canonical in and out. `out` may be an input.
  void (*add)(const u64* a, const u64* b, size_t step, u64* out, size_t n);
  void (*sub)(const u64* a, const u64* b, size_t step, u64* out, size_t n);
  void (*mul)(const u64* a, const u64* b, size_t step, u64* out, size_t n);

  // Transforms of 2^log_n elements; see goldilocks_ntt.h for `roots`. What `inverse` takes is canonical. A table with more than one lane takes 2^log_n of at
  // least 8 * lanes. `in` may be `out`.
  void (*forward)(const u64* in, u64* out, int log_n, const u64* roots, bool last);
  void (*inverse)(const u64* in, u64* out, int log_n, const u64* roots, u64 scale);
  // The outermost pass, of eight blocks, at positions [begin, end) of each, both multiples of `lanes`.
  void (*forward_pass)(u64* data, size_t eighth, size_t begin, size_t end, const u64* roots, bool last);
  void (*inverse_pass)(const u64* in, u64* out, size_t eighth, size_t begin, size_t end, const u64* roots);

  size_t hash_lanes;  // Keccak states in a vector

  // Digests are stored by word: word w of digest i at out[w * stride + i]. n is a multiple of `hash_lanes` everywhere.
  // Hashes header[0 .. headers), then columns[0 .. count) at `offset` + i.
  void (*leaves)(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                 u64* out, size_t stride);
  // Hashes tag, digest i of a, digest i of b.
  void (*pairs)(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out, size_t stride);
  // Hashes rows of `length` bytes; digest i is the 32 bytes at out + 32 i.
  void (*rows)(const u8* rows, size_t length, size_t n, u8* out);
  // Least i < n such that the digest of tag, seed (4 words), first + i begins with `bits` zero bits; n if there is none.
  size_t (*grind)(u64 tag, const u64* seed, u64 first, size_t n, int bits);
};

// Returns the tables that this CPU runs, the fastest last. The first is the portable one.
const std::vector<const GoldilocksOps*>& goldilocks_ops();

extern const GoldilocksOps GOLDILOCKS_PORTABLE;
#if DP_X86_VECTORS
extern const GoldilocksOps GOLDILOCKS_AVX2, GOLDILOCKS_AVX512;
#endif

}  // namespace dp
