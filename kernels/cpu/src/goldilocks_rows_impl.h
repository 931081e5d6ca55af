// The loops of goldilocks_rows_kernels.h, written once for any vector type. One file per instruction set defines V and
// includes this; everything is in an unnamed namespace, so that code compiled for one CPU is never linked for another.
//
// MANY_REGISTERS: whether three Dots fit in the CPU's registers. V, a vector of WIDTH canonical elements:
//   V load(p), V set1(x), store(p, v), add, sub, mul, V select_zero(v, a, b): a where v is zero, else b
//   Halves halves(v), Pieces pieces(v), Pieces spread(Weight): the two sides of an unreduced product
//   Dot: zero at the start; add(Halves, Pieces), at most MAX_TERMS times; reduce()
//   Lazy: likewise, for a few products: add(Halves, Halves); reduce()
#pragma once
#include "goldilocks_rows_elements.h"

namespace dp {
namespace rows {
namespace {

// -- row programs -------------------------------------------------------------------------------------------------------

template <u32 kind>
struct Operand {  // BASE
  const u64* p;
  Operand(const Block& block, u32 index) : p(block.slots + index * block.rows) {}
  V at(size_t i, size_t) const { return load(p + i); }
};

template <>
struct Operand<EXT> {
  const u64* p;
  Operand(const Block& block, u32 index) : p(block.slots + index * block.rows) {}
  X at(size_t i, size_t rows) const { return load3(p + i, rows); }
};

template <>
struct Operand<UNIFORM_BASE> {
  V v;
  Operand(const Block& block, u32 index) : v(set1(block.uniforms[index].c[0])) {}
  V at(size_t, size_t) const { return v; }
};

template <>
struct Operand<UNIFORM_EXT> {
  X v;
  Operand(const Block& block, u32 index) : v(set1(block.uniforms[index])) {}
  const X& at(size_t, size_t) const { return v; }
};

inline void put(u64* p, size_t, V v) { store(p, v); }
inline void put(u64* p, size_t rows, const X& v) { store3(p, rows, v); }

template <u32 op, u32 kind_a, u32 kind_b>
void arithmetic(const Block& block, const Step& step) {
  const Operand<kind_a> a(block, step.a);
  const Operand<kind_b> b(block, step.b);
  const size_t rows = block.rows;
  u64* target = block.slots + step.target * rows;
  for (size_t i = 0; i < rows; i += WIDTH) {
    if constexpr (op == OP_ADD) put(target + i, rows, add(a.at(i, rows), b.at(i, rows)));
    if constexpr (op == OP_SUB) put(target + i, rows, sub(a.at(i, rows), b.at(i, rows)));
    if constexpr (op == OP_MUL) put(target + i, rows, mul(a.at(i, rows), b.at(i, rows)));
  }
}

using StepFunction = void (*)(const Block&, const Step&);

#define DP_KINDS(op, a) \
  { arithmetic<op, a, BASE>, arithmetic<op, a, EXT>, arithmetic<op, a, UNIFORM_BASE>, arithmetic<op, a, UNIFORM_EXT> }
#define DP_OPERANDS(op) \
  { DP_KINDS(op, BASE), DP_KINDS(op, EXT), DP_KINDS(op, UNIFORM_BASE), DP_KINDS(op, UNIFORM_EXT) }
constexpr StepFunction ARITHMETIC[3][4][4] = {DP_OPERANDS(OP_ADD), DP_OPERANDS(OP_SUB), DP_OPERANDS(OP_MUL)};
#undef DP_OPERANDS
#undef DP_KINDS

constexpr size_t LINE = 64 / sizeof(u64);

inline void copy(u64* target, const u64* source, size_t rows) {
  for (size_t i = 0; i < rows; i += WIDTH) store(target + i, load(source + i));
}

// Copies as `copy` does, and prefetches the next rows, which arrive during the computation on these. A prefetch may lie
// beyond the array's end.
inline void fetch(u64* target, const u64* source, size_t rows) {
  for (size_t i = 0; i < rows; i += WIDTH) {
    if (i % LINE == 0) __builtin_prefetch(source + rows + i, 0, 2);
    store(target + i, load(source + i));
  }
}

// Values used again lie beside each other, not a power of two apart as the columns do, where they would share cache sets.
inline void load_column(const Block& block, const Step& step, bool next) {
  const u64* column = block.matrices[step.a] + step.b * block.column_strides[step.a];
  u64* target = block.slots + step.target * block.rows;
  if (!next) return fetch(target, column + block.first, block.rows);
  if (block.first + block.rows < block.n) return copy(target, column + block.first + 1, block.rows);
  for (size_t i = 0; i + 1 < block.rows; ++i) target[i] = column[block.first + 1 + i];
  target[block.rows - 1] = column[0];
}

inline void store_column(const Block& block, const u64* source, size_t column) {
  u64* target = block.out + column * block.out_stride + block.first;
  if (!block.scaled) return copy(target, source, block.rows);
  const V factor = set1(block.out_factor);
  for (size_t i = 0; i < block.rows; i += WIDTH) store(target + i, mul(load(source + i), factor));
}

// `column(c)` points at the rows of column c.
template <class Column>
void combine_columns(const Column& column, size_t count, const Weight* weights, size_t rows, u64* sum) {
  for (size_t begin = 0; begin < count; begin += MAX_TERMS) {
    const size_t end = count - begin < MAX_TERMS ? count : begin + MAX_TERMS;
    for (size_t i = 0; i < rows; i += WIDTH) {
      if constexpr (MANY_REGISTERS) {
        Dot c0, c1, c2;
        for (size_t c = begin; c < end; ++c) {
          const Halves v = halves(load(column(c) + i));
          c0.add(v, spread(weights[3 * c]));
          c1.add(v, spread(weights[3 * c + 1]));
          c2.add(v, spread(weights[3 * c + 2]));
        }
        store3(sum + i, rows, add(load3(sum + i, rows), X{{c0.reduce(), c1.reduce(), c2.reduce()}}));
      } else {
        for (size_t k = 0; k < 3; ++k) {
          Dot dot;
          for (size_t c = begin; c < end; ++c) dot.add(halves(load(column(c) + i)), spread(weights[3 * c + k]));
          store(sum + k * rows + i, add(load(sum + k * rows + i), dot.reduce()));
        }
      }
    }
  }
}

void combine(const u64* columns, size_t count, const Weight* weights, size_t rows, u64* sum) {
  combine_columns([&](size_t c) { return columns + c * rows; }, count, weights, rows, sum);
}

void gather(const u64* const* columns, size_t count, size_t rows, u64* out) {
  for (size_t c = 0; c < count; ++c) fetch(out + c * rows, columns[c], rows);
}

void execute(const Block& block) {
  for (const Step* step = block.steps; step < block.steps + block.step_count; ++step) {
    switch (step->kind) {
      case STEP_LOAD:
      case STEP_LOAD_NEXT:
        load_column(block, *step, step->kind == STEP_LOAD_NEXT);
        break;
      case STEP_STORE:
        store_column(block, block.slots + step->a * block.rows, step->target);
        break;
      case STEP_FOLD: {
        const u32* folded = block.folded + step->a;
        combine_columns([&](size_t c) { return block.slots + folded[c] * block.rows; }, step->b,
                        block.weights + 3 * step->a, block.rows, block.sum);
        break;
      }
      default: {
        const u32 code = step->kind - STEP_ARITHMETIC;
        ARITHMETIC[code >> 4][(code >> 2) & 3][code & 3](block, *step);
      }
    }
  }
  if (block.sum)
    for (size_t k = 0; k < 3; ++k) store_column(block, block.sum + k * block.rows, k);
}

// -- inverses -----------------------------------------------------------------------------------------------------------

inline V square_times(V a, int times) {
  for (int i = 0; i < times; ++i) a = mul(a, a);
  return a;
}

// a^(p - 2), by the chain of gl::inverse
inline V inverse(V a) {
  const V t2 = mul(mul(a, a), a);
  const V t3 = mul(mul(t2, t2), a);
  const V t6 = mul(square_times(t3, 3), t3);
  const V t12 = mul(square_times(t6, 6), t6);
  const V t24 = mul(square_times(t12, 12), t12);
  const V t30 = mul(square_times(t24, 6), t6);
  const V t31 = mul(mul(t30, t30), a);
  const V t32 = mul(mul(t31, t31), a);
  return mul(square_times(t31, 33), t32);
}

// Inverts `count` vectors, none with a zero, by Montgomery's trick: two passes over prefix products. CHAINS products run
// beside each other, because one would wait for every multiplication. prefix: `count` vectors.
constexpr size_t CHAINS = 4;

void invert_all(u64* a, size_t rows, u64* prefix) {
  const size_t count = rows / WIDTH;
  V running[CHAINS];
  for (V& r : running) r = set1(1);
  for (size_t i = 0; i < count; ++i) {
    V& r = running[i % CHAINS];
    store(prefix + i * WIDTH, r);
    r = mul(r, load(a + i * WIDTH));
  }
  const V ab = mul(running[0], running[1]), cd = mul(running[2], running[3]);
  const V whole = inverse(mul(ab, cd));
  const V ab_inverse = mul(whole, cd), cd_inverse = mul(whole, ab);
  V inverses[CHAINS] = {mul(ab_inverse, running[1]), mul(ab_inverse, running[0]), mul(cd_inverse, running[3]),
                        mul(cd_inverse, running[2])};
  for (size_t i = count; i-- > 0;) {
    V& r = inverses[i % CHAINS];
    const V value = load(a + i * WIDTH);
    store(a + i * WIDTH, mul(r, load(prefix + i * WIDTH)));
    r = mul(r, value);
  }
}

// The first row of the adjugate of multiplication by a, and its determinant: see gl::inverse.
inline X adjugate(const X& a, V& determinant) {
  const V s = add(a.c[0], a.c[2]), t = add(a.c[1], a.c[2]);
  const X m = {{sub(mul(s, s), mul(t, a.c[1])), sub(mul(t, a.c[2]), mul(a.c[1], s)), sub(mul(a.c[1], a.c[1]), mul(s, a.c[2]))}};
  determinant = add(add(mul(a.c[0], m.c[0]), mul(a.c[2], m.c[1])), mul(a.c[1], m.c[2]));
  return m;
}

void divide(const u64* a, const u64* b, u64* out, size_t stride, size_t rows) {
  alignas(64) u64 determinants[INVERSION_ROWS], prefix[INVERSION_ROWS];
  for (size_t i = 0; i < rows; i += WIDTH) {
    V d;
    const X m = adjugate(load3(b + i, stride), d);
    store3(out + i, stride, mul(load3(a + i, stride), m));
    store(determinants + i, select_zero(d, set1(1), d));  // zero only for zero, whose adjugate is zero
  }
  invert_all(determinants, rows, prefix);
  for (size_t i = 0; i < rows; i += WIDTH) store3(out + i, stride, mul(load3(out + i, stride), load(determinants + i)));
}

void selectors(const Points& points, u64 vanishing, u64 end, size_t rows, u64* first, u64* last, u64* before_last) {
  alignas(64) u64 prefix[INVERSION_ROWS];
  const V start = set1(points.start), numerator = set1(vanishing);
  for (size_t i = 0; i < rows; i += WIDTH) {
    const V x = mul(load(points.powers + i), start);
    const V d = sub(x, set1(end));
    store(first + i, sub(x, set1(1)));
    store(last + i, d);
    store(before_last + i, d);
  }
  u64* const columns[] = {first, last};
  for (u64* column : columns) {
    invert_all(column, rows, prefix);
    for (size_t i = 0; i < rows; i += WIDTH) store(column + i, mul(load(column + i), numerator));
  }
}

void point_inverses(const Points& points, const Pole& pole, bool times_x, size_t rows, u64* out) {
  alignas(64) u64 determinants[INVERSION_ROWS], prefix[INVERSION_ROWS];
  const V start = set1(points.start), z0 = set1(pole.z0), a1 = set1(pole.a1), a2 = set1(pole.a2);
  for (size_t i = 0; i < rows; i += WIDTH) {
    const V x = mul(load(points.powers + i), start);
    const V a0 = sub(x, z0), s = add(a0, a2);
    const X m = {{sub(mul(s, s), set1(pole.t_a1)), sub(set1(pole.t_a2), mul(a1, s)), sub(set1(pole.a1_a1), mul(a2, s))}};
    const V d = add(sub(mul(a0, m.c[0]), mul(set1(pole.twice_a1_a2), s)), set1(pole.fixed));
    store3(out + i, rows, times_x ? mul(m, x) : m);
    store(determinants + i, select_zero(d, set1(1), d));
  }
  invert_all(determinants, rows, prefix);
  for (size_t i = 0; i < rows; i += WIDTH) store3(out + i, rows, mul(load3(out + i, rows), load(determinants + i)));
}

// -- openings -----------------------------------------------------------------------------------------------------------

void dot(const u64* column, const u64* weights, size_t stride, size_t rows, u64* out) {
  if constexpr (MANY_REGISTERS) {
    Dot c0, c1, c2;
    for (size_t i = 0; i < rows; i += WIDTH) {
      const Pieces v = pieces(load(column + i));
      c0.add(halves(load(weights + i)), v);
      c1.add(halves(load(weights + stride + i)), v);
      c2.add(halves(load(weights + 2 * stride + i)), v);
    }
    store3(out, WIDTH, X{{c0.reduce(), c1.reduce(), c2.reduce()}});
  } else {
    for (size_t k = 0; k < 3; ++k) {
      Dot dot;
      for (size_t i = 0; i < rows; i += WIDTH) dot.add(halves(load(weights + k * stride + i)), pieces(load(column + i)));
      store(out + k * WIDTH, dot.reduce());
    }
  }
}

void add_quotient(const u64* sum, const Ext& value, const u64* inverses, size_t stride, size_t rows, u64* out,
                  size_t out_stride) {
  const X v = set1(value);
  for (size_t i = 0; i < rows; i += WIDTH) {
    const X quotient = mul(sub(load3(sum + i, rows), v), load3(inverses + i, stride));
    store3(out + i, out_stride, add(load3(out + i, out_stride), quotient));
  }
}

void sum_terms(const u64* terms, size_t m, size_t stride, const Ext& shift, size_t rows, u64* out) {
  for (size_t i = 0; i < rows; i += WIDTH) {
    X total = set1(shift);
    for (size_t t = 0; t < m; ++t) total = add(total, load3(terms + 3 * t * stride + i, stride));
    store3(out + i, rows, total);
  }
}

// Steps by two of (f(h) + f(-h)) + beta (f(h) - f(-h)) / h; the halves' product, 2^-log_arity, is multiplied in at the end.
// Value t of 2^a lies at h w_{2^a}^t, so 1/h of all pairs of a step is that of t = 0 times a twiddle.
void fold(const Fold& f) {
  for (size_t i = 0; i < f.rows; i += WIDTH) {
    X values[1 << MAX_LOG_ARITY];
    for (size_t t = 0; t < (size_t)1 << f.log_arity; ++t) values[t] = load3(f.in + t * f.in_step + i, f.in_stride);
    V inverse_point = mul(load(f.powers + i), set1(f.start));
    for (int step = 0; step < f.log_arity; ++step) {
      const X beta_over_h = mul(set1(f.betas[step]), inverse_point);
      const size_t pairs = (size_t)1 << (f.log_arity - step - 1);
      for (size_t t = 0; t < pairs; ++t) {
        const X a = values[t], b = values[t + pairs];
        const X difference = t == 0 ? sub(a, b) : mul(sub(a, b), set1(f.twiddles[t << step]));
        values[t] = add(add(a, b), mul(difference, beta_over_h));
      }
      inverse_point = mul(inverse_point, inverse_point);
    }
    X result = mul(values[0], set1(f.scale));
    if (f.add) result = add(result, mul(load3(f.add + i, f.out_stride), set1(f.betas[f.log_arity])));
    store3(f.out + i, f.out_stride, result);
  }
}

void split(const u64* elements, size_t count, Weight* out) {
  for (size_t i = 0; i < count; ++i) out[i] = weight(elements[i]);
}

constexpr Kernels KERNELS = {NAME,   WIDTH,     split,          execute, combine,      gather,
                             divide, selectors, point_inverses, dot,     add_quotient, sum_terms, fold};

}  // namespace
}  // namespace rows
}  // namespace dp
