// Sparse matrices in compressed rows, made on the device: entries of placed templates, and the transpose.
//
// Launch: one thread an entry or a row. Bound: memory bandwidth; for a column that most rows name, the rate of atomic
// additions to one address.
#include "device.h"

using namespace dp;
using i64 = long long;

// Entries of all instances of a template (kernels/interface/templated.py), count = instances * nnz. Those of an instance are
// entry_step behind those of the one before. `position` may be null.
extern "C" __global__ void csr_place_entries(const u32* columns, const u32* value_index, u32 nnz, const i64* runs,
                                             u32 inputs, i64 first, i64 step, u64 entry_step, u64 count,
                                             const u32* position, u32* columns_out, u32* value_index_out) {
  const u64 entry = global_thread();
  if (entry >= count) return;
  const u64 instance = entry / nnz;
  const u32 k = (u32)(entry - instance * nnz), column = columns[k];
  const i64 named = column < inputs ? runs[2 * column] + (i64)instance * runs[2 * column + 1]
                                    : first + (i64)instance * step + (column - inputs);
  const u64 place = instance * entry_step + k;
  columns_out[place] = position ? position[named] : (u32)named;
  value_index_out[place] = value_index[k];
}

// The end of each row of all instances of a template, count = instances * rows; `begin` is the first entry. Rows and entries of
// an instance are row_step and entry_step behind those of the one before.
extern "C" __global__ void csr_place_rows(const u32* row_ptr, u32 rows, u64 row_step, u64 entry_step, u32 begin, u64 count,
                                          u32* ends) {
  const u64 row = global_thread();
  if (row >= count) return;
  const u64 instance = row / rows;
  const u64 own = row - instance * rows;
  ends[instance * row_step + own] = begin + (u32)(instance * entry_step) + row_ptr[own + 1];
}

// counts[c] = number of entries in column c; zero before.
extern "C" __global__ void csr_count_columns(const u32* columns, u64 nnz, u32* counts) {
  const u64 entry = global_thread();
  if (entry < nnz) atomicAdd(counts + columns[entry], 1u);
}

// The transpose's entries. next[c] is the place of column c's next entry; entries of a column come in any order.
extern "C" __global__ void csr_transpose(const u32* row_ptr, const u32* columns, const u32* value_index, u32 rows,
                                         u32* next, u32* columns_out, u32* value_index_out) {
  const u64 row = global_thread();
  if (row >= rows) return;
  for (u32 k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
    const u32 place = atomicAdd(next + columns[k], 1u);
    columns_out[place] = (u32)row;
    value_index_out[place] = value_index[k];
  }
}
