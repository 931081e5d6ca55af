// Many independent additions of affine points at the price of one inversion: 5 products and a squaring each.
#pragma once
#include <cstddef>

#include "curve/xyzz.h"

namespace dp {

// What the slope of a + b is divided by, never zero, for equal abscissas.
template <class F>
[[gnu::noinline]] F equal_x_denominator(const Affine<F>& a, const Affine<F>& b) {
  return a.y == b.y && !a.y.is_zero() ? a.y.dbl() : F::one();
}

// a + b for any operands, given the inverse of the denominator
template <class F>
[[gnu::noinline]] Affine<F> sum_with_inverse(const Affine<F>& a, const Affine<F>& b, const F& inverse) {
  if (a.is_infinity()) return b;
  if (b.is_infinity()) return a;
  F slope;
  if (a.x == b.x) {
    if (!(a.y == b.y)) return Affine<F>::infinity();
    const F xx = a.x.sqr();
    slope = (xx.dbl() + xx) * inverse;
  } else {
    slope = (b.y - a.y) * inverse;
  }
  Affine<F> r;
  r.x = slope.sqr() - a.x - b.x;
  r.y = slope * (a.x - r.x) - a.y;
  return r;
}

// What `get` of batch_add gives of an operand: its abscissa, or all of it.
template <class F>
void take(const Affine<F>& p, F& out) {
  out = p.x;
}
template <class F>
void take(const Affine<F>& p, Affine<F>& out) {
  out = p;
}

// put(i, a_i + b_i) for i in [0, n), where get(i, a, b) yields the operands. get is called twice for each i: from the last to
// the first, for the abscissas alone, then from the first to the last, each followed, a few later at most, by its put; a put
// may overwrite operands of i and before. `suffix` is scratch for n elements. Operands are of odd order, so that y = 0 means
// infinity.
//
// Products are as long in latency as in work, so additions go in step with their neighbours: index i belongs to the chain of
// denominators i % WAYS, and each line below is WAYS independent products.
template <class F, class Get, class Put>
void batch_add(size_t n, F* suffix, const Get& get, const Put& put) {
  constexpr size_t WAYS = 2;
  if (n == 0) return;
  Affine<F> a[WAYS], b[WAYS];
  F d[WAYS], inverse[WAYS];
  auto denominator = [&](size_t i, size_t k, const F& ax, const F& bx) {
    d[k] = bx - ax;
    if (__builtin_expect(d[k].is_zero(), 0)) {
      get(i + k, a[k], b[k]);
      d[k] = equal_x_denominator(a[k], b[k]);
    }
  };
  F product[WAYS];
  for (F& p : product) p = F::one();
  auto backward = [&](size_t i, size_t count) {
    F ax[WAYS], bx[WAYS];
    for (size_t k = 0; k < count; ++k) get(i + k, ax[k], bx[k]);
    for (size_t k = 0; k < count; ++k) denominator(i, k, ax[k], bx[k]);
    for (size_t k = 0; k < count; ++k) suffix[i + k] = product[k];  // of its chain's denominators after i + k
    for (size_t k = 0; k < count; ++k) product[k] = product[k] * d[k];
  };
  auto forward = [&](size_t i, size_t count) {
    for (size_t k = 0; k < count; ++k) get(i + k, a[k], b[k]);
    for (size_t k = 0; k < count; ++k) denominator(i, k, a[k].x, b[k].x);
    F own[WAYS], slope[WAYS];
    bool special = false;
    for (size_t k = 0; k < count; ++k) own[k] = inverse[k] * suffix[i + k];
    for (size_t k = 0; k < count; ++k) inverse[k] = inverse[k] * d[k];  // of its chain's denominators after i + k
    for (size_t k = 0; k < count; ++k) special |= a[k].x == b[k].x || a[k].y.is_zero() || b[k].y.is_zero();
    if (__builtin_expect(special, 0)) {
      for (size_t k = 0; k < count; ++k) put(i + k, sum_with_inverse(a[k], b[k], own[k]));
      return;
    }
    for (size_t k = 0; k < count; ++k) slope[k] = (b[k].y - a[k].y) * own[k];
    for (size_t k = 0; k < count; ++k) b[k].x = slope[k].sqr() - a[k].x - b[k].x;
    for (size_t k = 0; k < count; ++k) b[k].y = slope[k] * (a[k].x - b[k].x) - a[k].y;
    for (size_t k = 0; k < count; ++k) put(i + k, b[k]);
  };
  const size_t even = n - n % WAYS;
  if (even < n) backward(even, n - even);
  for (size_t i = even; i > 0; i -= WAYS) backward(i - WAYS, WAYS);
  F all = (product[0] * product[1]).inverse();
  inverse[0] = all * product[1];
  inverse[1] = all * product[0];
  for (size_t i = 0; i < even; i += WAYS) forward(i, WAYS);
  if (even < n) forward(even, n - even);
}

}  // namespace dp
