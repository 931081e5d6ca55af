// Fp2[v] / (v^3 - xi), the middle of the pairing's tower. Inverses and powers are used on the host only.
#pragma once
#include "field/fp2.h"

namespace dp {

// base^e, e as little-endian 64-bit words; for constants
template <class F2, int M>
F2 power(const F2& base, const Words<M>& e) {
  F2 r = F2::one();
  for (int i = M * 64 - 1; i >= 0; --i) {
    r = r.sqr();
    if ((e.w[i >> 6] >> (i & 63)) & 1) r = r * base;
  }
  return r;
}

// Tower gives Fq2, the non-residue xi of the extension (a static function) and the product mul_xi(a) = xi * a.
template <class Tower>
struct Fp6 {
  using F2 = typename Tower::Fq2;
  F2 c0, c1, c2;

  DP_HD static Fp6 zero() { return {F2::zero(), F2::zero(), F2::zero()}; }
  DP_HD static Fp6 one() { return {F2::one(), F2::zero(), F2::zero()}; }
  DP_HD bool is_zero() const { return c0.is_zero() && c1.is_zero() && c2.is_zero(); }
  DP_HD bool operator==(const Fp6& o) const { return c0 == o.c0 && c1 == o.c1 && c2 == o.c2; }

  DP_HD Fp6 operator+(const Fp6& o) const { return {c0 + o.c0, c1 + o.c1, c2 + o.c2}; }
  DP_HD Fp6 operator-(const Fp6& o) const { return {c0 - o.c0, c1 - o.c1, c2 - o.c2}; }
  DP_HD Fp6 neg() const { return {c0.neg(), c1.neg(), c2.neg()}; }
  DP_HD Fp6 mul_v() const { return {Tower::mul_xi(c2), c0, c1}; }

  DP_PRODUCT static Fp6 product(const Fp6& a, const Fp6& b) {  // Karatsuba: six products
    F2 v0 = a.c0 * b.c0, v1 = a.c1 * b.c1, v2 = a.c2 * b.c2;
    F2 t01 = (a.c0 + a.c1) * (b.c0 + b.c1) - v0 - v1;
    F2 t02 = (a.c0 + a.c2) * (b.c0 + b.c2) - v0 - v2;
    F2 t12 = (a.c1 + a.c2) * (b.c1 + b.c2) - v1 - v2;
    return {v0 + Tower::mul_xi(t12), t01 + Tower::mul_xi(v2), t02 + v1};
  }
  DP_HD Fp6 operator*(const Fp6& o) const { return product(*this, o); }
  DP_HD Fp6 scale(const F2& k) const { return {c0 * k, c1 * k, c2 * k}; }
  DP_HD Fp6 mul_by_01(const F2& b0, const F2& b1) const {  // times b0 + b1 v: five products
    F2 v0 = c0 * b0, v1 = c1 * b1;
    return {v0 + Tower::mul_xi(c2 * b1), (c0 + c1) * (b0 + b1) - v0 - v1, v1 + c2 * b0};
  }
  DP_HD Fp6 mul_by_1(const F2& b1) const {  // times b1 v
    return {Tower::mul_xi(c2 * b1), c0 * b1, c1 * b1};
  }
  Fp6 inverse() const {
    F2 a = c0.sqr() - Tower::mul_xi(c1 * c2);
    F2 b = Tower::mul_xi(c2.sqr()) - c0 * c1;
    F2 c = c1.sqr() - c0 * c2;
    F2 norm = c0 * a + Tower::mul_xi(c2 * b + c1 * c);
    return Fp6{a, b, c}.scale(norm.inverse());
  }
};

}  // namespace dp
