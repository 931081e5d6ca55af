// Vector operations over Goldilocks on the CPU, and hashes, as one table of functions for each instruction set. The bindings choose
// a table that the CPU runs, and own the threads: every function here works on the calling thread.
#pragma once
#include <cstddef>
#include <vector>

#include "hash_ops.h"

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
  // Interpolates `runs` runs of 2^log_run neighbours, 8 to 32, in place; a multiple of `lanes` of them. `scale` is the inverse of
  // 2^log_run.
  void (*interpolate)(u64* data, size_t runs, int log_run, u64 scale);
  // Moves such runs, from values over the powers of a root of unity to those over `shift` times them: factors[k] is shift^rev(k) /
  // 2^log_run, where rev reverses log_run bits.
  void (*move)(const u64* in, u64* out, size_t runs, int log_run, const u64* factors);
  // The outermost pass, of eight blocks, at positions [begin, end) of each, both multiples of `lanes`.
  void (*forward_pass)(u64* data, size_t eighth, size_t begin, size_t end, const u64* roots, bool last);
  void (*inverse_pass)(const u64* in, u64* out, size_t eighth, size_t begin, size_t end, const u64* roots);

  const HashOps *keccak, *poseidon2;
};

// Returns the tables that this CPU runs, the fastest last. The first is the portable one.
const std::vector<const GoldilocksOps*>& goldilocks_ops();

// Returns the code of Poseidon2 over BN254 for a CPU that runs this table.
const HashOps& poseidon2_bn254_ops(const GoldilocksOps& table);

extern const GoldilocksOps GOLDILOCKS_PORTABLE;
#if DP_X86_VECTORS
extern const GoldilocksOps GOLDILOCKS_AVX2, GOLDILOCKS_AVX512;
#endif

}  // namespace dp
