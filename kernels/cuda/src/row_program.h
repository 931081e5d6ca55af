// The types and functions that generated row programs use (kernels/cuda/goldilocks/row_program.py). One thread computes one
// row.
#pragma once
#include "field/goldilocks.h"
#include "field/goldilocks_sum.h"
#include "threads.h"

namespace dp {
namespace gl {

constexpr int MATRICES = 8, COSETS = 32;  // must equal those in cuda/goldilocks/row_program.py

// The shapes of a launch. Offsets are in elements; entry i of an array is about matrix i.
struct RowShape {
  u64 rows;                  // D n, D output cosets of n rows
  u64 columns[MATRICES];     // from a column to the next
  u64 cosets[MATRICES];      // from the coset that output coset t reads to the one that t + 1 reads
  u64 factors[COSETS];       // of each output coset
  u32 log_n;
  u32 add;                   // to what the output holds
};

struct Row {
  u64 index, coset, here, next;

  __device__ __forceinline__ Row(const RowShape& shape) : index(global_thread()) {
    u64 n = 1ull << shape.log_n;
    coset = index >> shape.log_n;
    here = index & (n - 1);
    next = (here + 1) & (n - 1);
  }
};

__device__ __forceinline__ void write_row(u64* out, const RowShape& shape, const Row& row, u32 column, u64 value) {
  u64* p = out + column * shape.rows + row.index;
  value = mul(value, shape.factors[row.coset]);
  *p = shape.add ? add(*p, value) : value;
}

__device__ __forceinline__ void write_row(u64* out, const RowShape& shape, const Row& row, u32 column, const Ext& v) {
  for (u32 i = 0; i < 3; ++i) write_row(out, shape, row, column + i, v.c[i]);
}

DP_HD Ext add(const Ext& a, u64 b) { return {{add(a.c[0], b), a.c[1], a.c[2]}}; }
DP_HD Ext sub(const Ext& a, u64 b) { return {{sub(a.c[0], b), a.c[1], a.c[2]}}; }
DP_HD Ext sub(u64 a, const Ext& b) { return {{sub(a, b.c[0]), neg(b.c[1]), neg(b.c[2])}}; }

}  // namespace gl
}  // namespace dp
