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
#if DP_DEVICE
  // Karatsuba on unreduced products: three of them and two reductions, where three Montgomery products reduce three times.
  DP_PRODUCT static Fp2 product(Fp2 a, Fp2 b) {
    constexpr int N = F::N;
    limb_t low[2 * N], high[2 * N], cross[2 * N], sa[N], sb[N];
    rows::mul_wide<N>(low, a.c0.v, b.c0.v);
    rows::mul_wide<N>(high, a.c1.v, b.c1.v);
    add_n<N>(sa, a.c0.v, a.c1.v);  // no carry out: every modulus here leaves the top bit clear
    add_n<N>(sb, b.c0.v, b.c1.v);
    rows::mul_wide<N>(cross, sa, sb);
    sub_n<2 * N>(cross, cross, low);
    sub_n<2 * N>(cross, cross, high);  // a0 b1 + a1 b0 < 2 p^2 < p R
    const limb_t negative = sub_n<2 * N>(low, low, high);
    F p = F::modulus();
    for (int i = 0; i < N; ++i) p.v[i] = negative ? p.v[i] : 0;
    add_n<N>(low + N, low + N, p.v);  // + p R, to be in [0, p R) again
    Fp2 r;
    mont_reduce<typename F::Params, N>(r.c0.v, low);
    mont_reduce<typename F::Params, N>(r.c1.v, cross);
    return r;
  }
  DP_PRODUCT static Fp2 square(Fp2 a) {  // (c0 + c1)(c0 - c1), 2 c0 c1
    F s = a.c0 + a.c1, d = a.c0 - a.c1;
    Fp2 r;
    mont_mul<typename F::Params, F::N>(r.c0.v, s.v, d.v);
    mont_mul<typename F::Params, F::N>(r.c1.v, a.c0.v, a.c1.v);
    r.c1 = r.c1.dbl();
    return r;
  }
  DP_HD Fp2 operator*(const Fp2& o) const { return product(*this, o); }
  DP_HD Fp2 sqr() const { return square(*this); }
#else
  DP_HD Fp2 operator*(const Fp2& o) const {  // Karatsuba: three products
    F a = c0 * o.c0, b = c1 * o.c1;
    F m = (c0 + c1) * (o.c0 + o.c1);
    return {a - b, m - a - b};
  }
  DP_HD Fp2 sqr() const {  // (c0 + c1)(c0 - c1), 2 c0 c1
    F m = c0 * c1;
    return {(c0 + c1) * (c0 - c1), m.dbl()};
  }
#endif
  DP_HD Fp2 scale(const F& k) const { return {c0 * k, c1 * k}; }
  DP_HD Fp2 inverse() const {
    F n = (c0.sqr() + c1.sqr()).inverse();
    return {c0 * n, (c1 * n).neg()};
  }
};

}  // namespace dp
