// Sparse matrix times vector over FIELD. Rows are CSR; values are indices into a dictionary whose first two entries are
// 1 and -1, which need no multiplication. Zeros of x, most of a real witness, need nothing at all.
//
// Launch: one thread for each row of at most SHORT_ROW entries. Longer rows are cut into segments of at most SEGMENT
// entries, one warp each, whose sums a second kernel adds with one warp per row. So one row with most of the entries
// costs what the same entries would cost anywhere.
// Bound: random 32-byte reads of x (an entry is 8 bytes, its element 32).
#include "device.h"

using namespace dp;
using F = Fp<FIELD>;

constexpr u32 SHORT_ROW = 32, ONE = 0, MINUS_ONE = 1;

// The sum's addend for one entry. x in Montgomery form or, where the caller converts each row's sum, in standard form:
// the values are in Montgomery form, so their product with x has the form of x.
__device__ __forceinline__ void add_entry(F& sum, u32 column, u32 value, const F* x, const F* values) {
  F v = load16_const(x + column);
  if (v.is_zero()) return;
  if (value == ONE) {
    sum = sum + v;
  } else if (value == MINUS_ONE) {
    sum = sum - v;
  } else {
    sum = sum + v * load16_const(values + value);
  }
}

__device__ __forceinline__ F warp_sum(F sum) {
#pragma unroll 1
  for (int delta = 16; delta; delta /= 2) {
    F other;
#pragma unroll
    for (int i = 0; i < F::N; ++i) other.v[i] = __shfl_down_sync(0xffffffffu, sum.v[i], delta);
    sum = sum + other;
  }
  return sum;
}

// The sum of row i is written as that of row i * spread, where spread is not 1 modulo a power of two, whose `mask` has all lower
// bits (kernels/interface/templated.py).
__device__ __forceinline__ void finish(F* out, u32 row, const F& sum, u32 standard_form, u32 spread, u32 mask) {
  store16(out + (row * spread & mask), standard_form ? sum.to_montgomery() : sum);
}

extern "C" __global__ void spmv_short(const u32* row_ptr, const u32* columns, const u32* value_index, const F* values,
                                      const F* x, F* out, u32 rows, u32 standard_form, u32 spread, u32 mask) {
  const u64 row = global_thread();
  if (row >= rows) return;
  const u32 begin = row_ptr[row], end = row_ptr[row + 1];
  if (end - begin > SHORT_ROW) return;
  F sum = F::zero();
  for (u32 k = begin; k < end; ++k) add_entry(sum, columns[k], value_index[k], x, values);
  finish(out, (u32)row, sum, standard_form, spread, mask);
}

// Segment s holds the entries from segment_begin[s] to segment_end[s].
extern "C" __global__ void spmv_segments(const u32* segment_begin, const u32* segment_end, const u32* columns,
                                         const u32* value_index, const F* values, const F* x, F* partial,
                                         u32 segments) {
  const u64 s = global_thread() / 32;
  const u32 lane = threadIdx.x % 32;
  if (s >= segments) return;
  F sum = F::zero();
  for (u32 k = segment_begin[s] + lane; k < segment_end[s]; k += 32)
    add_entry(sum, columns[k], value_index[k], x, values);
  sum = warp_sum(sum);
  if (lane == 0) store16(partial + s, sum);
}

// long_rows[i] is a row, whose segments are first_segment[i] to first_segment[i + 1].
extern "C" __global__ void spmv_long(const u32* long_rows, const u32* first_segment, const F* partial, F* out, u32 count,
                                     u32 standard_form, u32 spread, u32 mask) {
  const u64 i = global_thread() / 32;
  const u32 lane = threadIdx.x % 32;
  if (i >= count) return;
  F sum = F::zero();
  for (u32 s = first_segment[i] + lane; s < first_segment[i + 1]; s += 32) sum = sum + load16(partial + s);
  sum = warp_sum(sum);
  if (lane == 0) finish(out, long_rows[i], sum, standard_form, spread, mask);
}
