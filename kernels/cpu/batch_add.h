// Many independent additions of affine points at the price of one inversion: 5 products and a squaring each.
#pragma once
#include <cstddef>

#include "curve/xyzz.h"

namespace dp {

// What the slope of a + b is divided by; never zero. Infinite operands need no slope, and their zero coordinates do no harm.
template <class F>
DP_HD F slope_denominator(const Affine<F>& a, const Affine<F>& b) {
  F d = b.x - a.x;
  if (__builtin_expect(!d.is_zero(), 1)) return d;
  return a.y == b.y && !a.y.is_zero() ? a.y.dbl() : F::one();
}

// a + b, complete, given the inverse of slope_denominator(a, b)
template <class F>
DP_HD Affine<F> add_with_inverse(const Affine<F>& a, const Affine<F>& b, const F& inverse) {
  if (__builtin_expect(a.is_infinity(), 0)) return b;
  if (__builtin_expect(b.is_infinity(), 0)) return a;
  F slope;
  if (__builtin_expect(a.x == b.x, 0)) {
    if (!(a.y == b.y)) return Affine<F>::infinity();
    F xx = a.x.sqr();
    slope = (xx.dbl() + xx) * inverse;
  } else {
    slope = (b.y - a.y) * inverse;
  }
  Affine<F> r;
  r.x = slope.sqr() - a.x - b.x;
  r.y = slope * (a.x - r.x) - a.y;
  return r;
}

// put(i, a_i + b_i) for i in [0, n), where get(i, a, b) yields the operands. get is called twice for each i: from the last to
// the first, then from the first to the last, each followed by its put; a put may overwrite operands of i and before.
// `suffix` is scratch for n + 1 elements.
template <class F, class Get, class Put>
void batch_add(size_t n, F* suffix, const Get& get, const Put& put) {
  if (n == 0) return;
  Affine<F> a, b;
  suffix[n] = F::one();
  for (size_t i = n; i-- > 0;) {
    get(i, a, b);
    suffix[i] = suffix[i + 1] * slope_denominator(a, b);
  }
  F inverse = suffix[0].inverse();  // of the product of the denominators from i on
  for (size_t i = 0; i < n; ++i) {
    get(i, a, b);
    F own = inverse * suffix[i + 1];
    inverse = inverse * slope_denominator(a, b);
    put(i, add_with_inverse(a, b, own));
  }
}

}  // namespace dp
