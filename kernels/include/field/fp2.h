// Fp[u] / (u^2 + 1): the field of G2 for both curves.
#pragma once
#include "field/fp.h"

namespace dp {

template <class F>
struct Fp2 {
  using Base = F;
  static constexpr int LIMBS64 = 2 * F::LIMBS64;
  static constexpr int BYTES = 2 * F::BYTES;
  F c0, c1;

  DP_HD static Fp2 zero() { return {F::zero(), F::zero()}; }
  DP_HD static Fp2 one() { return {F::one(), F::zero()}; }
  DP_HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
  DP_HD bool operator==(const Fp2& o) const { return c0 == o.c0 && c1 == o.c1; }
  DP_HD bool operator!=(const Fp2& o) const { return !(*this == o); }
  DP_HD bool is_canonical() const { return c0.is_canonical() && c1.is_canonical(); }

  DP_HD Fp2 operator+(const Fp2& o) const { return {c0 + o.c0, c1 + o.c1}; }
  DP_HD Fp2 operator-(const Fp2& o) const { return {c0 - o.c0, c1 - o.c1}; }
  DP_HD Fp2 neg() const { return {c0.neg(), c1.neg()}; }
  DP_HD Fp2 dbl() const { return {c0.dbl(), c1.dbl()}; }
  DP_HD Fp2 conjugate() const { return {c0, c1.neg()}; }
  DP_HD Fp2 operator*(const Fp2& o) const {  // Karatsuba: three products
    F a = c0 * o.c0, b = c1 * o.c1;
    F m = (c0 + c1) * (o.c0 + o.c1);
    return {a - b, m - a - b};
  }
  DP_HD Fp2 sqr() const {  // (c0 + c1)(c0 - c1), 2 c0 c1
    F m = c0 * c1;
    return {(c0 + c1) * (c0 - c1), m.dbl()};
  }
  DP_HD Fp2 scale(const F& k) const { return {c0 * k, c1 * k}; }
  DP_HD Fp2 inverse() const {
    F n = (c0.sqr() + c1.sqr()).inverse();
    return {c0 * n, (c1 * n).neg()};
  }
};

}  // namespace dp
