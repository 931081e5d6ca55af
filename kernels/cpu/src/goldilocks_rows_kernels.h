// The inner loops of the row-by-row operations over Goldilocks, each over one block of rows. They exist once per
// instruction set (goldilocks_rows_scalar.cpp, _avx2, _avx512), behind this table; goldilocks_rows.cpp cuts the
// work into blocks. All pointers are to canonical elements; `rows` is a power of two and a multiple of `lanes`.
#pragma once
#include <cstddef>

#include "field/goldilocks.h"

namespace dp {
namespace rows {

using gl::Ext;

// An element as the multiplier of many: cut as the instruction set wants it.
struct Weight {
  u64 part[3];
};

// Terms that one unreduced sum may have.
constexpr size_t MAX_TERMS = 1024;

constexpr size_t MAX_LANES = 8;

// Rows over which inverses share one inversion: enough to make it cheap, few enough to stay in the second-level cache.
constexpr size_t INVERSION_ROWS = 1024;

// What a step of a prepared program does. Arithmetic steps are ARITHMETIC + 16 op + 4 kind(a) + kind(b).
enum StepKind : u32 { STEP_LOAD, STEP_LOAD_NEXT, STEP_STORE, STEP_FOLD, STEP_ARITHMETIC };
enum StepOp : u32 { OP_ADD, OP_SUB, OP_MUL };
enum OperandKind : u32 { BASE, EXT, UNIFORM_BASE, UNIFORM_EXT };

// Operands that vary are slots (of `rows` words; an extension value takes three in a row), uniform ones indices of values.
struct Step {
  u32 kind;
  u32 target;  // slot; for STEP_STORE the output column
  u32 a;       // operand; STEP_LOAD: input matrix; STEP_STORE: slot; STEP_FOLD: first entry of `folded`
  u32 b;       // operand; STEP_LOAD: column; STEP_FOLD: entries
};

// One block of one coset.
struct Block {
  const Step* steps;
  size_t step_count;
  const Ext* uniforms;
  const u32* folded;      // slots
  const Weight* weights;  // three per entry of `folded`
  u64* slots;
  u64* sum;                    // (3, rows): what STEP_FOLD adds to and is written at the end; or null
  const u64* const* matrices;  // element [column 0, this coset, row 0] of each input
  const size_t* column_strides;
  u64* out;                    // element [column 0, this coset, row 0]
  size_t out_stride;           // between output columns
  u64 out_factor;
  bool scaled;                 // whether outputs are multiplied by out_factor
  size_t first, rows, n;       // this block's rows of the coset's n
};

// x_i = start * powers[i], i < rows
struct Points {
  const u64* powers;
  u64 start;
};

// What 1 / (x - z) needs of z, the same for every x. With a = x - z = (a0, a1, a2), s = a0 + a2 and t = a1 + a2 the inverse is
// the adjugate (s^2 - t a1, t a2 - a1 s, a1^2 - a2 s) over the determinant (see gl::inverse), where only a0 varies.
struct Pole {
  u64 z0, a1, a2;
  u64 t_a1, t_a2, a1_a1;
  u64 twice_a1_a2;
  u64 fixed;  // a2 t a2 + a1 a1^2: what the determinant has apart from s
};

struct Kernels {
  const char* name;
  size_t lanes;
  // cuts `count` elements into weights
  void (*split)(const u64* elements, size_t count, Weight* out);
  void (*execute)(const Block& block);
  // sum (3, rows) += sum over c < count of columns (count, rows) times the extension weights[3 c .. 3 c + 2]
  void (*combine)(const u64* columns, size_t count, const Weight* weights, size_t rows, u64* sum);
  // out (count, rows) = copies of the columns, before they are computed with: many loads in flight hide the memory's latency
  void (*gather)(const u64* const* columns, size_t count, size_t rows, u64* out);
  // out (3 columns, `stride` apart) = a / b; zero where b is. rows <= INVERSION_ROWS
  void (*divide)(const u64* a, const u64* b, u64* out, size_t stride, size_t rows);
  // first = vanishing / (x - 1), last = vanishing / before_last, before_last = x - end
  void (*selectors)(const Points& points, u64 vanishing, u64 end, size_t rows, u64* first, u64* last, u64* before_last);
  // out (3, rows) = 1 / (x - z), or x / (x - z)
  void (*point_inverses)(const Points& points, const Pole& pole, bool times_x, size_t rows, u64* out);
  // out (3, lanes) = sums over the rows, lane by lane, of column times the extension weights (3, stride);
  // rows <= lanes * MAX_TERMS
  void (*dot)(const u64* column, const u64* weights, size_t stride, size_t rows, u64* out);
  // out (3 columns, out_stride apart) += (sum - value) * inverses, both (3, rows)
  void (*add_quotient)(const u64* sum, const Ext& value, const u64* inverses, size_t stride, size_t rows, u64* out,
                       size_t out_stride);
  // out (3, rows) = shift + sum over m of terms (3 m columns, `stride` apart)
  void (*sum_terms)(const u64* terms, size_t m, size_t stride, const Ext& shift, size_t rows, u64* out);
  // One fold by 2^log_arity of `rows` rows, see Fold.
  void (*fold)(const struct Fold& fold);
};

struct Fold {
  const u64* in;          // element [0, coset, first row]
  size_t in_stride;       // between coordinates
  size_t in_step;         // between the values that are folded together: n / 2^log_arity
  int log_arity;          // at most MAX_LOG_ARITY
  const u64* powers;      // w_n^-i, i < rows
  u64 start;              // 1 / h of the first row
  const u64* twiddles;    // w_{2^log_arity}^-t, t < 2^(log_arity - 1)
  const Ext* betas;       // beta^(2^step), step <= log_arity
  u64 scale;              // 2^-log_arity
  const u64* add;         // like `out`, or null
  u64* out;
  size_t out_stride;      // between coordinates
  size_t rows;
};

constexpr int MAX_LOG_ARITY = 6;

extern const Kernels SCALAR_KERNELS;
#if defined(__x86_64__)
extern const Kernels AVX2_KERNELS;
extern const Kernels AVX512_KERNELS;
#endif

}  // namespace rows
}  // namespace dp
