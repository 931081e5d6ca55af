// Witnesses of parts of a circuit that are placed many times, over FIELD (synthesis.h).
//
// Launch: bits have one thread an element; products have one thread an instance, which makes its wires one after the other. A block of SHA-256 has one block
// of threads an instance: its first thread makes the values on the way in shared memory, and all of them write their bits.
// Bound: products by the latency of one thread's chain of multiplications where instances are few, which is usual; SHA-256 by
// memory bandwidth, 32 bytes a bit.
#define DP_OUTLINE_PRODUCTS
#include "device.h"
#include "synthesis.h"

using namespace dp;
using F = Fp<FIELD>;

// Row k of out, n elements, is bit k of the integers that `a` stands for.
extern "C" __global__ void synthesis_bits(const F* a, F* out, u64 n, u32 count) {
  const u64 i = global_thread();
  if (i >= n) return;
  const F x = load16(a + i).from_montgomery(), one = F::one(), zero = F::zero();
  for (u32 k = 0; k < count; ++k) store16(out + k * n + i, bit_of(x, k) ? one : zero);
}

extern "C" __global__ void synthesis_products(F* wires, const i64* runs, const i64* first, u32 inputs, u32 own, u32 lanes,
                                              u32 batch, u64 instances, const u32* row_ptr, const u32* columns,
                                              const u32* value_index, const F* values) {
  const u64 number = global_thread();
  if (number >= instances) return;
  const Instance at({runs, first, inputs, own, lanes, batch}, number);
  run_products(Products<F>{row_ptr, columns, value_index, values}, own, wires, at);
}

extern "C" __global__ void synthesis_sha256(F* wires, const i64* runs, const i64* first, u32 inputs, u32 own, u32 lanes,
                                            u32 batch, u64 instances, const int* sources, const u32* bits) {
  __shared__ u32 words[24];
  __shared__ u64 kept[SHA256_KEPT];
  const Instance at({runs, first, inputs, own, lanes, batch}, blockIdx.x);
  const Sha256Wires block{sources, bits};
  for (u32 word = threadIdx.x; word < 24; word += blockDim.x) words[word] = sha256_word(block, word, wires, at);
  __syncthreads();
  if (threadIdx.x == 0) sha256_compress(words, kept);
  __syncthreads();
  const F one = F::one(), zero = F::zero();
  for (u32 i = threadIdx.x; i < own; i += blockDim.x)
    store16(wires + at.own(i), sha256_bit(kept, bits[i]) ? one : zero);
}
