// What rules of tables run on: programs, and the cells of a row.
#pragma once
#include "field/goldilocks_sum.h"
#include "multilinear_base.h"
#include "threads.h"

namespace dp {
namespace gl {

// A program, or a piece of one.
struct Code {
  const u64 *code, *constants, *coefficients;
  u64 instructions;
};

struct Base {  // column c of this row is `pitch` after that of c - 1
  using Value = u64;
  using Sum = ExtSum;
  const u64* row;
  u64 pitch;

  __device__ __forceinline__ u64 cell(u64 column) const { return row[column * pitch]; }
  static __device__ __forceinline__ u64 constant(u64 v) { return v; }
  static __device__ __forceinline__ u64 slot(const u64* slots, u32 number) { return slots[number * blockDim.x]; }
  static __device__ __forceinline__ void keep(u64* slots, u32 number, u64 v) { slots[number * blockDim.x] = v; }
};

struct Between {  // the cells at the integer `at` between this row and the next one, as vectors of F
  using Value = Ext;
  using Sum = ExtProductSum;
  const u64* row;
  u64 rows, pitch, at;

  __device__ __forceinline__ Ext cell(u64 column) const {
    const u64* p = row + column * rows;
    const Ext even = steps::load(p, pitch);
    if (at == 0) return even;
    return add(even, mul(sub(steps::load(p + 1, pitch), even), at));
  }
  static __device__ __forceinline__ Ext constant(u64 v) { return embed(v); }
  static __device__ __forceinline__ Ext slot(const u64* slots, u32 number) {
    return steps::load(slots + 3 * number * blockDim.x, blockDim.x);
  }
  static __device__ __forceinline__ void keep(u64* slots, u32 number, const Ext& v) {
    steps::store(slots + 3 * number * blockDim.x, blockDim.x, v);
  }
};

template <class Cells>
__device__ __forceinline__ typename Cells::Value constant(const Code& program, u32 number) {
  return Cells::constant(__ldg(program.constants + number));
}
__device__ __forceinline__ Ext coefficient(const Code& program, u32 number) {
  const u64* c = program.coefficients + 3 * number;
  return {{__ldg(c), __ldg(c + 1), __ldg(c + 2)}};
}

}  // namespace gl
}  // namespace dp
