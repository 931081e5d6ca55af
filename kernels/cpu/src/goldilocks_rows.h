// Row-by-row operations over Goldilocks on the CPU: those of `CpuRows` and `CpuDeepFri` (kernels/cpu/goldilocks/rows.py and
// deep_fri.py) over whole arrays, cut into blocks for the threads of a pool. Pointers are to arrays of u64 as
// kernels/interface/goldilocks.py lays them out; the caller has checked shapes. Results do not depend on the number of threads.
#pragma once
#include <vector>

#include "goldilocks_rows_code.h"
#include "threads.h"

namespace dp {
namespace rows {

// Throws std::invalid_argument for a name of none that runs here.
const Kernels& kernels_named(const char* name);
// Returns the row kernels that run on this CPU, the fastest last.
std::vector<const Kernels*> all_kernels();

// A low-degree extension (width, cosets, n), or (width, n) with one coset.
struct Matrix {
  const u64* data;
  size_t width, cosets, n;
  const u64* column(size_t c, size_t coset = 0) const { return data + (c * cosets + coset) * n; }
};

class RowOps {
 public:
  RowOps(Pool& pool, const Kernels& kernels) : pool_(pool), kernels_(kernels) {}
  const Kernels& kernels() const { return kernels_; }

  // out (output columns, cosets, n); factors: one per coset, or null
  void evaluate(const RowCode& code, const std::vector<Matrix>& inputs, const Ext* scalars, size_t cosets, size_t n,
                const u64* factors, u64* out) const;
  // out (3 m, n)
  void divide(const u64* a, const u64* b, u64* out, size_t m, size_t n) const;
  // out (3, 2^log_cosets, n)
  void selectors(int log_n, int log_blowup, int log_cosets, u64* out) const;
  // sums (3, n); returns the sum of all terms
  Ext running_sum(const u64* terms, size_t m, size_t n, u64* sums) const;
  // out: (columns of all matrices, 1 or 2, 3)
  void evaluate_at(const std::vector<Matrix>& matrices, const Ext& point, bool next_row, u64* out) const;

  // out (3, n): on the first coset the sum over all columns of their weights (columns, 3) times them
  void combine(const std::vector<Matrix>& matrices, const u64* weights, size_t n, u64* out) const;

  struct Opening {
    Ext point, value;
    size_t group;         // of the matrices opened there
    const u64* weights;   // (columns, 3)
  };
  // out (3, B, n) is added to; groups: the matrices of each group, openings in order of groups
  void deep(const std::vector<std::vector<Matrix>>& groups, const std::vector<Opening>& openings, size_t blowup, size_t n,
            u64* out) const;
  // codeword (3, B, n), out and add (3, B, n >> log_arity)
  void fold(const u64* codeword, int log_blowup, int log_n, int log_arity, const Ext& beta, const u64* add, u64* out) const;

 private:
  const Kernels& kernels_for(size_t rows) const { return rows % kernels_.lanes ? SCALAR_KERNELS : kernels_; }

  Pool& pool_;
  const Kernels& kernels_;
};

}  // namespace rows
}  // namespace dp
