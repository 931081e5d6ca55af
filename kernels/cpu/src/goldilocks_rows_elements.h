// Elements of F on lanes, for any vector type V of goldilocks_rows_impl.h, whose including file has defined it. Everything is in an
// unnamed namespace, so that code compiled for one CPU is never linked for another.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace rows {
namespace {

struct X {
  V c[3];
};

inline X load3(const u64* p, size_t stride) { return {{load(p), load(p + stride), load(p + 2 * stride)}}; }
inline void store3(u64* p, size_t stride, const X& x) {
  store(p, x.c[0]);
  store(p + stride, x.c[1]);
  store(p + 2 * stride, x.c[2]);
}
inline X set1(const Ext& e) { return {{set1(e.c[0]), set1(e.c[1]), set1(e.c[2])}}; }

inline X add(const X& a, const X& b) { return {{add(a.c[0], b.c[0]), add(a.c[1], b.c[1]), add(a.c[2], b.c[2])}}; }
inline X sub(const X& a, const X& b) { return {{sub(a.c[0], b.c[0]), sub(a.c[1], b.c[1]), sub(a.c[2], b.c[2])}}; }
inline X add(const X& a, V b) { return {{add(a.c[0], b), a.c[1], a.c[2]}}; }
inline X sub(const X& a, V b) { return {{sub(a.c[0], b), a.c[1], a.c[2]}}; }
inline X add(V a, const X& b) { return add(b, a); }
inline X sub(V a, const X& b) { return {{sub(a, b.c[0]), sub(set1(0), b.c[1]), sub(set1(0), b.c[2])}}; }
inline X mul(const X& a, V b) { return {{mul(a.c[0], b), mul(a.c[1], b), mul(a.c[2], b)}}; }
inline X mul(V a, const X& b) { return mul(b, a); }

// With x^3 = x + 1 each coordinate is a sum of three products: a by a matrix made of b, of which each sum is reduced once.
inline X mul(const X& a, const X& b) {
  const Halves a0 = halves(a.c[0]), a1 = halves(a.c[1]), a2 = halves(a.c[2]);
  const Halves b0 = halves(b.c[0]), b1 = halves(b.c[1]), b2 = halves(b.c[2]);
  const Halves s = halves(add(b.c[0], b.c[2])), t = halves(add(b.c[1], b.c[2]));
  Lazy c0(a0, b0), c1(a0, b1), c2(a0, b2);
  c0.add(a1, b2);
  c1.add(a1, s);
  c2.add(a1, b1);
  c0.add(a2, b1);
  c1.add(a2, t);
  c2.add(a2, s);
  return {{c0.reduce(), c1.reduce(), c2.reduce()}};
}

}  // namespace
}  // namespace rows
}  // namespace dp
