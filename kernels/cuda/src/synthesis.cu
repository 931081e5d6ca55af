// Witnesses of parts of a circuit that are placed many times, over FIELD (synthesis.h).
//
// Launch: bits have one thread an element or an instance. Products have one thread an instance, which makes its wires one after the other, or
// where instances are few a group of threads, which makes those at once that wait for none of each other. A block of SHA-256 has
// one block of threads an instance: its first thread makes the values on the way in shared memory, and all of them write their bits.
// Bound: products by the latency of a chain of multiplications where instances are few, which is usual; SHA-256 by memory
// bandwidth, 32 bytes a bit.
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

extern "C" __global__ void synthesis_products(F* wires, const i64* runs, const i64* own_runs, u32 inputs, u32 own, u32 lanes,
                                              u32 batch, u64 instances, const u32* row_ptr, const u32* columns,
                                              const u32* value_index, const F* values) {
  const u64 number = global_thread();
  if (number >= instances) return;
  const Instance at({runs, own_runs, inputs, own, lanes, batch}, number);
  run_products(Products<F>{row_ptr, columns, value_index, values}, own, wires, at);
}

// Bits of a combination, one row of `row_ptr`.
extern "C" __global__ void synthesis_element_bits(F* wires, const i64* runs, const i64* own_runs, u32 inputs, u32 own, u32 lanes,
                                                  u32 batch, u64 instances, const u32* row_ptr, const u32* columns,
                                                  const u32* value_index, const F* values, u32 shift) {
  const u64 number = global_thread();
  if (number >= instances) return;
  const Instance at({runs, own_runs, inputs, own, lanes, batch}, number);
  run_bits(BitsOf<F>{{row_ptr, columns, value_index, values}, shift}, own, wires, at);
}

// The value of another lane of the warp, all of whose lanes call this.
static __device__ F of_lane(const F& x, u32 lane) {
  F other;
  for (int i = 0; i < F::N; ++i) other.v[i] = __shfl_sync(0xffffffffu, x.v[i], lane);
  return other;
}

// The sum of x over 2^log neighbouring lanes of a warp, all of which call this.
static __device__ F sum_of_lanes(F x, u32 log) {
  for (u32 delta = (1u << log) >> 1; delta; delta >>= 1) x = x + of_lane(x, (threadIdx.x & 31) ^ delta);
  return x;
}

// As synthesis_products, with a group of 2^log_group lanes for each instance. Level l has the own wires order[begin] to
// order[end - 1], with begin = levels[2 l] and end = levels[2 l + 2], which wait for wires of lower levels only. Bytes 0, 1 and
// 2 of levels[2 l + 1] are the logarithms of the most terms of their rows a, b and c, rounded up. The lanes of a group share out
// the wires of a level, and where there are more lanes than wires, the terms of each: from four lanes a wire on, half of them
// take row a and a quarter each of the others, so that the rows' loads and products pass at the same time.
extern "C" __global__ void synthesis_products_grouped(F* wires, const i64* runs, const i64* own_runs, u32 inputs, u32 own, u32 lanes,
                                                      u32 batch, u64 instances, const u32* row_ptr, const u32* columns,
                                                      const u32* value_index, const F* values, const u32* order,
                                                      const u32* levels, u32 level_count, u32 log_group) {
  const u32 group = 1u << log_group, lane = threadIdx.x & (group - 1);
  const u64 number = global_thread() >> log_group;
  const bool there = number < instances;  // lanes without an instance take part in the sums of the warp
  const Instance at({runs, own_runs, inputs, own, lanes, batch}, there ? number : instances - 1);
  const Products<F> program{row_ptr, columns, value_index, values};
  for (u32 level = 0; level < level_count; ++level) {
    const u32 begin = levels[2 * level], end = levels[2 * level + 2], terms = levels[2 * level + 1];
    const u32 log_a = terms & 0xff, log_b = terms >> 8 & 0xff, log_c = terms >> 16 & 0xff;
    const u32 most = max(log_a + 1, max(log_b, log_c) + 2);
    u32 log_each = 0;
    while (log_each < most && (end - begin) << (log_each + 1) <= group) ++log_each;
    const u32 each = 1u << log_each, piece = lane & (each - 1);
    for (u32 from = begin; from < end; from += group >> log_each) {
      const u32 place = from + (lane >> log_each);
      const bool made = there && place < end;
      F a = F::zero(), b = F::zero(), c = F::zero();
      const u32 wire = made ? order[place] : 0, row = 3 * wire;
      if (log_each >= 2) {
        const u32 quarter = each >> 2, part = piece / quarter, here = (threadIdx.x & 31) - piece;
        const u32 which = part < 2 ? 0 : part - 1, begin_at = which == 0 ? piece : piece % quarter;
        if (made) a = combination(program, row + which, wires, at, begin_at, which == 0 ? 2 * quarter : quarter);
        a = sum_of_lanes(a, log_each - 2);
        b = of_lane(a, here + 2 * quarter);
        c = of_lane(a, here + 3 * quarter);
        a = a + of_lane(a, here + quarter);  // for the first lane of a wire
      } else {
        if (made) {
          a = combination(program, row, wires, at, piece, each);
          b = combination(program, row + 1, wires, at, piece, each);
          c = combination(program, row + 2, wires, at, piece, each);
        }
        a = sum_of_lanes(a, log_each);
        b = sum_of_lanes(b, log_each);
        c = sum_of_lanes(c, log_each);
      }
      if (made && piece == 0) wires[at.own(wire)] = c + a * b;
    }
    __syncwarp();
  }
}

extern "C" __global__ void synthesis_sha256(F* wires, const i64* runs, const i64* own_runs, u32 inputs, u32 own, u32 lanes,
                                            u32 batch, u64 instances, const int* sources, const u32* bits) {
  __shared__ u32 words[24];
  __shared__ u64 kept[SHA256_KEPT];
  const Instance at({runs, own_runs, inputs, own, lanes, batch}, blockIdx.x);
  const Sha256Wires block{sources, bits};
  for (u32 word = threadIdx.x; word < 24; word += blockDim.x) words[word] = sha256_word(block, word, wires, at);
  __syncthreads();
  if (threadIdx.x == 0) sha256_compress(words, kept);
  __syncthreads();
  const F one = F::one(), zero = F::zero();
  for (u32 i = threadIdx.x; i < own; i += blockDim.x)
    store16(wires + at.own(i), sha256_bit(kept, bits[i]) ? one : zero);
}
