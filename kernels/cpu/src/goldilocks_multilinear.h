// Steps of the multilinear engine over Goldilocks: codewords of coefficients, small matrices applied to runs of a column, and
// weighted sums of runs. All elements are canonical.
#pragma once
#include <string>

#include "goldilocks_ops.h"
#include "threads.h"

namespace dp {

struct EncodeCall {
  const u64* coefficients;  // (width, n), in natural order
  u64* out;                 // (width, cosets, n)
  size_t width, cosets;
  int log_n;
  u64 root;           // primitive n-th root of unity
  const u64* shifts;  // (cosets): values at shift * root^j
};

void goldilocks_encode(Pool& pool, const GoldilocksOps& ops, const EncodeCall& call);

// Interpolates each of `runs` runs of 2^log_run values over the powers of `root`, in place.
void goldilocks_interpolate_runs(Pool& pool, const GoldilocksOps& ops, u64* data, size_t runs, int log_run, u64 root);

// Some runs of a table's cells, (width, all runs 2^log_run), moved from the powers of a root of unity to `shift` times these, run by
// run. The cells are `columns`, then those that are next columns, `next` telling the column of each, then others. Only cells that
// are read, or whose next column is, are moved.
struct MoveCall {
  const u64* in;
  u64* out;  // (width, runs 2^log_run)
  size_t width, columns, all_runs;
  size_t first, runs;  // the runs that are moved
  int log_run;
  u64 root, shift;
  const u64* next;
  size_t next_count;
  const u64* read;  // (width): not zero where a cell is read
};
void goldilocks_move_runs(Pool& pool, const GoldilocksOps& ops, const MoveCall& call);

// out[r * runs + i] = sum over a < size of weights[3 a + r] in[i size + a], r < 3, for each of `runs` runs.
void goldilocks_bind_runs(Pool& pool, const GoldilocksOps& ops, const u64* in, size_t runs, size_t size, const u64* weights,
                          u64* out);

// out[c * size + a] = sum over i < runs of weights[c * runs + i] in[i * size + a], for `sets` of three coordinates.
void goldilocks_sum_runs(Pool& pool, const GoldilocksOps& ops, const u64* in, size_t runs, size_t size, const u64* weights,
                         size_t sets, u64* out);

// Runs the step `name` of multilinear_steps.h over `items` items, with the bytes of its struct. A step with sums writes
// (SUMS, 2^log_classes, 3) words; `words` is the room in out. `set` is
// an instruction set's name in goldilocks_ops.h.
void multilinear_step(Pool& pool, const std::string& set, const std::string& name, const void* arguments, size_t bytes,
                      size_t items, int log_classes, u64* out, size_t words);

}  // namespace dp
