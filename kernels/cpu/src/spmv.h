// Sparse matrix (CSR, values from a dictionary) times vector.
#pragma once
#include "field/fp.h"
#include "ops.h"

namespace dp {

// out = matrix @ x, out in Montgomery form. `standard_form`: x holds integers; then a product of a Montgomery value with it is
// an integer too, and one product per row brings the row's sum into Montgomery form.
template <class F>
void spmv(Pool& pool, const CsrView& m, const u8* x, bool standard_form, u8* out) {
  enum Kind : u8 { PLUS, MINUS, OTHER };
  std::vector<F> values(m.distinct);
  std::vector<u8> kinds(m.distinct, OTHER);
  for (size_t i = 0; i < m.distinct; ++i) {
    values[i] = In<F>(m.values)[i];
    if (values[i] == F::one()) kinds[i] = PLUS;
    if (values[i] == F::one().neg()) kinds[i] = MINUS;
  }
  const In<u32> row_ptr(m.row_ptr), columns(m.columns), value_index(m.value_index);
  const In<F> in(x);
  // cut by entries, not by rows: real matrices have a few very long rows
  const size_t pieces = pool.threads() == 1 ? 1 : (size_t)pool.threads() * 8;
  auto first_row = [&](size_t piece) -> size_t {
    if (piece >= pieces) return m.rows;
    // weight of rows [0, r): entries and rows both cost
    const size_t target = (m.nnz + m.rows) / pieces * piece;
    size_t low = 0, high = m.rows;
    while (low < high) {
      size_t mid = (low + high) / 2;
      if (row_ptr[mid] + mid < target) low = mid + 1; else high = mid;
    }
    return low;
  };
  pool.run(pieces, [&](size_t piece, int) {
    const size_t last = first_row(piece + 1);
    for (size_t row = first_row(piece); row < last; ++row) {
      F sum = F::zero();
      for (size_t k = row_ptr[row]; k < row_ptr[row + 1]; ++k) {
        const u32 v = value_index[k];
        const F w = in[columns[k]];
        if (kinds[v] == PLUS) sum = sum + w;
        else if (kinds[v] == MINUS) sum = sum - w;
        else if (!w.is_zero()) sum = sum + values[v] * w;
      }
      Out<F>(out).put(row, standard_form && !sum.is_zero() ? sum.to_montgomery() : sum);
    }
  });
}

}  // namespace dp
