// The loops of multilinear_kernels.h, written once for any vector type. One file per instruction set defines V, as for
// goldilocks_rows_impl.h, and three more functions:
//   zipped(p, even, odd)       of 2 WIDTH words the even ones and the odd ones
//   threes(p, a, b, c)         of 3 WIDTH words those at 3 i, 3 i + 1, 3 i + 2
//   transposed(p, stride, out) out[i] holds word i of WIDTH runs, `stride` apart
// Everything is in an unnamed namespace, so that code compiled for one CPU is never linked for another.
#pragma once
#include "goldilocks_rows_elements.h"
#include "multilinear_kernels.h"

namespace dp {
namespace rows {
namespace {

using isa::threes;
using isa::transposed;
using isa::zipped;

inline X load(Vectors in, size_t j) { return load3(in.at + j, in.pitch); }
inline void store(Out out, size_t j, const X& x) { store3(out.at + j, out.pitch, x); }
inline X side_by_side(const u64* p) {
  X x;
  threes(p, x.c[0], x.c[1], x.c[2]);
  return x;
}
struct Pair {
  X even, odd;
};
inline Pair load_pair(Vectors in, size_t j) {
  Pair pair;
  for (size_t k = 0; k < 3; ++k) zipped(in.at + k * in.pitch + 2 * j, pair.even.c[k], pair.odd.c[k]);
  return pair;
}
inline void add_to(u64* sums, const X& x) { store3(sums, WIDTH, add(load3(sums, WIDTH), x)); }

// a b + c d, each coordinate of which is reduced once
inline X sum_of_products(const X& a, const X& b, const X& c, const X& d) {
  const Halves b0 = halves(b.c[0]), b1 = halves(b.c[1]), b2 = halves(b.c[2]);
  const Halves s = halves(add(b.c[0], b.c[2])), t = halves(add(b.c[1], b.c[2]));
  const Halves d0 = halves(d.c[0]), d1 = halves(d.c[1]), d2 = halves(d.c[2]);
  const Halves u = halves(add(d.c[0], d.c[2])), v = halves(add(d.c[1], d.c[2]));
  const Halves a0 = halves(a.c[0]), a1 = halves(a.c[1]), a2 = halves(a.c[2]);
  const Halves c0 = halves(c.c[0]), c1 = halves(c.c[1]), c2 = halves(c.c[2]);
  X x;
  {
    Lazy sum(a0, b0);
    sum.add(a1, b2), sum.add(a2, b1), sum.add(c0, d0), sum.add(c1, d2), sum.add(c2, d1);
    x.c[0] = sum.reduce();
  }
  {
    Lazy sum(a0, b1);
    sum.add(a1, s), sum.add(a2, t), sum.add(c0, d1), sum.add(c1, u), sum.add(c2, v);
    x.c[1] = sum.reduce();
  }
  {
    Lazy sum(a0, b2);
    sum.add(a1, b1), sum.add(a2, s), sum.add(c0, d2), sum.add(c1, d1), sum.add(c2, u);
    x.c[2] = sum.reduce();
  }
  return x;
}

void tabulate(const u64* low, const Ext& factor, size_t count, bool add_to, Out out) {
  const X f = set1(factor);
  for (size_t j = 0; j < count; j += WIDTH) {
    const X v = mul(side_by_side(low + 3 * j), f);
    store(out, j, add_to ? add(load(out.in(), j), v) : v);
  }
}

void scale(Vectors in, const Ext& factor, size_t count, Out out) {
  const X f = set1(factor);
  for (size_t j = 0; j < count; j += WIDTH) store(out, j, mul(load(in, j), f));
}

void add_scaled(Vectors in, const Ext& factor, size_t count, Out target) {
  const X f = set1(factor);
  for (size_t j = 0; j < count; j += WIDTH) store(target, j, add(load(target.in(), j), mul(load(in, j), f)));
}

void combine(Vectors in, size_t apart, const Ext* factors, size_t vectors, size_t count, Out out) {
  for (size_t j = 0; j < count; j += WIDTH) {
    X sum = mul(load(in, j), set1(factors[0]));
    for (size_t k = 1; k < vectors; ++k) sum = add(sum, mul(load3(in.at + k * apart + j, in.pitch), set1(factors[k])));
    store(out, j, sum);
  }
}

void weigh(Vectors in, const u64* low, const Ext& factor, size_t count, u64* sums) {
  X sum = set1(Ext{{0, 0, 0}});
  for (size_t j = 0; j < count; j += WIDTH) sum = add(sum, mul(load(in, j), side_by_side(low + 3 * j)));
  add_to(sums, mul(sum, set1(factor)));
}

void weigh_runs(Vectors in, const u64* low, const Ext& factor, size_t runs, size_t size, u64* sums) {
  const X f = set1(factor);
  for (size_t a = 0; a < size; a += WIDTH) {
    X sum = set1(Ext{{0, 0, 0}});
    for (size_t x = 0; x < runs; ++x)
      sum = add(sum, mul(load(in, size * x + a), set1(Ext{{low[3 * x], low[3 * x + 1], low[3 * x + 2]}})));
    store3(sums + a, size, add(load3(sums + a, size), mul(sum, f)));
  }
}

void fold(Vectors in, const Ext& r, size_t count, Out out) {
  const X x = set1(r);
  for (size_t j = 0; j < count; j += WIDTH) {
    const Pair p = load_pair(in, j);
    store(out, j, add(p.even, mul(p.odd, x)));
  }
}

void between(Vectors in, const Ext& r, size_t count, Out out) {
  const X x = set1(r);
  for (size_t j = 0; j < count; j += WIDTH) {
    const Pair p = load_pair(in, j);
    store(out, j, add(p.even, mul(sub(p.odd, p.even), x)));
  }
}

void unzip(Vectors in, size_t count, Out even, Out odd) {
  for (size_t j = 0; j < count; j += WIDTH) {
    const Pair p = load_pair(in, j);
    store(even, j, p.even);
    store(odd, j, p.odd);
  }
}

void pair_sums(Vectors v, Vectors u, size_t count, u64* sums) {
  X first = set1(Ext{{0, 0, 0}}), second = first;
  for (size_t j = 0; j < count; j += WIDTH) {
    const Pair a = load_pair(v, j), b = load_pair(u, j);
    first = add(first, sum_of_products(a.even, b.odd, a.odd, b.even));
    second = add(second, mul(a.odd, b.odd));
  }
  add_to(sums, first);
  add_to(sums + 3 * WIDTH, second);
}

void layer(Vectors p, Vectors q, size_t count, Out above_p, Out above_q) {
  for (size_t j = 0; j < count; j += WIDTH) {
    const Pair a = load_pair(p, j), b = load_pair(q, j);
    store(above_p, j, sum_of_products(a.even, b.odd, a.odd, b.even));
    store(above_q, j, mul(b.even, b.odd));
  }
}

void layer_sums(LayerRows rows, const u64* low, const Ext& factor, size_t count, u64* sums) {
  X first = set1(Ext{{0, 0, 0}}), second = first;
  for (size_t j = 0; j < count; j += WIDTH) {
    Pair v[4];
    for (size_t k = 0; k < 4; ++k) v[k] = load_pair(rows[k].in(), j);
    const X weight = side_by_side(low + 3 * j);
    first = add(first, mul(sum_of_products(v[0].even, v[3].even, v[1].even, v[2].even), weight));
    for (Pair& pair : v) pair.odd = sub(pair.odd, pair.even);
    second = add(second, mul(sum_of_products(v[0].odd, v[3].odd, v[1].odd, v[2].odd), weight));
  }
  const X f = set1(factor);
  add_to(sums, mul(first, f));
  add_to(sums + 3 * WIDTH, mul(second, f));
}

void between_base(const u64* in, const u64* at, size_t points, size_t count, u64* out, size_t apart) {
  for (size_t j = 0; j < count; j += WIDTH) {
    V even, odd;
    zipped(in + 2 * j, even, odd);
    const V step = sub(odd, even);
    for (size_t k = 0; k < points; ++k) store(out + k * apart + j, at[k] ? add(even, mul(step, set1(at[k]))) : even);
  }
}

void bind_runs(const u64* in, size_t count, size_t size, const Weight* weights, Out out) {
  for (size_t i = 0; i < count; i += WIDTH) {
    Dot c[3];
    for (size_t a = 0; a < size; a += WIDTH) {
      V x[WIDTH];
      transposed(in + i * size + a, size, x);
      for (size_t l = 0; l < WIDTH; ++l) {
        const Halves v = halves(x[l]);
        for (size_t k = 0; k < 3; ++k) c[k].add(v, spread(weights[3 * (a + l) + k]));
      }
    }
    store(out, i, X{{c[0].reduce(), c[1].reduce(), c[2].reduce()}});
  }
}

void sum_runs(const u64* in, size_t count, size_t size, const u64* weights, size_t pitch, u64* sums) {
  for (size_t a = 0; a < size; a += WIDTH) {
    Dot c[3];
    for (size_t i = 0; i < count; ++i) {
      const Halves v = halves(load(in + i * size + a));
      for (size_t k = 0; k < 3; ++k) c[k].add(v, spread(weight(weights[k * pitch + i])));
    }
    for (size_t k = 0; k < 3; ++k) store(sums + k * size + a, add(load(sums + k * size + a), c[k].reduce()));
  }
}

void next_runs(const u64* in, const u64* moved, const u64* last, size_t count, size_t size, u64* out) {
  alignas(64) u64 turned[MAX_RUN + 1];
  for (size_t i = 0; i < count; ++i, in += size, moved += size, out += size) {
    for (size_t a = 0; a < size; a += WIDTH) store(turned + a, load(moved + a));
    turned[size] = moved[0];
    const V step = sub(set1(in[size]), set1(in[0]));
    for (size_t a = 0; a < size; a += WIDTH) store(out + a, add(load(turned + a + 1), mul(step, load(last + a))));
  }
}

void split_all(const u64* elements, size_t count, Weight* out) {
  for (size_t i = 0; i < count; ++i) out[i] = weight(elements[i]);
}

constexpr MultilinearKernels MULTILINEAR = {NAME,      WIDTH, tabulate, scale,      add_scaled,   combine,   weigh,    weigh_runs, fold,
                                            between,   unzip, pair_sums, layer,     layer_sums,   between_base, bind_runs, sum_runs, next_runs,
                                            split_all};

}  // namespace
}  // namespace rows
}  // namespace dp
