// Fp6[w] / (w^2 - v): the target field of the pairing. Inverses and what is of the cyclotomic subgroup are used on the
// host only.
// As a polynomial in w over Fp2 the coefficients are, in order,
// c0.c0, c1.c0, c0.c1, c1.c1, c0.c2, c1.c2, and w^6 = xi.
#pragma once
#include "field/fp6.h"

namespace dp {

template <class Tower>
struct Fp12 {
  using F2 = typename Tower::Fq2;
  using F6 = Fp6<Tower>;
  F6 c0, c1;

  DP_HD static Fp12 one() { return {F6::one(), F6::zero()}; }
  DP_HD bool operator==(const Fp12& o) const { return c0 == o.c0 && c1 == o.c1; }
  DP_HD bool is_one() const { return *this == one(); }

  DP_HD Fp12 operator*(const Fp12& o) const {
    F6 a = c0 * o.c0, b = c1 * o.c1;
    return {a + b.mul_v(), (c0 + c1) * (o.c0 + o.c1) - a - b};
  }
  DP_HD Fp12 sqr() const {  // complex squaring: two products in Fp6
    F6 ab = c0 * c1;
    F6 t = (c0 + c1) * (c0 + c1.mul_v());
    return {t - ab - ab.mul_v(), ab + ab};
  }
  // times l0 + l1 w + l3 w^3
  DP_HD Fp12 mul_by_013(const F2& l0, const F2& l1, const F2& l3) const {
    F6 a = c0.scale(l0), b = c1.mul_by_01(l1, l3);
    return {a + b.mul_v(), (c0 + c1).mul_by_01(l0 + l1, l3) - a - b};
  }
  // times l0 + l2 w^2 + l3 w^3
  DP_HD Fp12 mul_by_023(const F2& l0, const F2& l2, const F2& l3) const {
    F6 a = c0.mul_by_01(l0, l2), b = c1.mul_by_1(l3);
    return {a + b.mul_v(), (c0 + c1).mul_by_01(l0, l2 + l3) - a - b};
  }
  Fp12 inverse() const {
    F6 n = (c0 * c0 - (c1 * c1).mul_v()).inverse();
    return {c0 * n, (c1 * n).neg()};
  }

  // x^(p^6); the inverse of an element of the cyclotomic subgroup
  DP_HD Fp12 conjugate() const { return {c0, c1.neg()}; }

  // x^p: conjugate every Fp2 coefficient, multiply the one of w^i by w^(i (p - 1)) = xi^(i (p - 1) / 6)
  Fp12 frobenius() const {
    const FrobeniusConstants& g = FrobeniusConstants::get();
    return {{c0.c0.conjugate(), c0.c1.conjugate() * g.power[2], c0.c2.conjugate() * g.power[4]},
            {c1.c0.conjugate() * g.power[1], c1.c1.conjugate() * g.power[3],
             c1.c2.conjugate() * g.power[5]}};
  }

  // Squaring in the cyclotomic subgroup, where x^(p^6 + 1) = 1 and x^(p^4 - p^2 + 1) = 1.
  // Granger, Scott: Faster squaring in the cyclotomic subgroup of sixth degree extensions (eprint 2009/565).
  Fp12 cyclotomic_sqr() const {
    const F2 &f0 = c0.c0, &f1 = c1.c0, &f2 = c0.c1, &f3 = c1.c1, &f4 = c0.c2, &f5 = c1.c2;
    F2 a0, a1, b0, b1, d0, d1;
    sqr4(a0, a1, f0, f3);
    sqr4(b0, b1, f1, f4);
    sqr4(d0, d1, f2, f5);
    d1 = Tower::mul_xi(d1);
    return {{three_minus_two(a0, f0), three_minus_two(b0, f2), three_minus_two(d0, f4)},
            {three_plus_two(d1, f1), three_plus_two(a1, f3), three_plus_two(b1, f5)}};
  }

  // xi^(i (p - 1) / 6) for i = 0 .. 5, computed on first use
  struct FrobeniusConstants {
    F2 power[6];
    static const FrobeniusConstants& get() {
      static const FrobeniusConstants constants = make();
      return constants;
    }

   private:
    static FrobeniusConstants make() {
      using P = typename Tower::Fq::Inner::Params;
      Words<P::LIMBS64> e = P::words();
      e.w[0] -= 1;  // p is odd
      unsigned __int128 rest = 0;
      for (int i = P::LIMBS64 - 1; i >= 0; --i) {
        rest = (rest << 64) | e.w[i];
        e.w[i] = (u64)(rest / 6);
        rest %= 6;
      }
      FrobeniusConstants c;
      c.power[0] = F2::one();
      c.power[1] = dp::power(Tower::xi(), e);
      for (int i = 2; i < 6; ++i) c.power[i] = c.power[i - 1] * c.power[1];
      return c;
    }
  };

  // (a + b s)^2 in Fp4 = Fp2[s] / (s^2 - xi), s = w^3
  static void sqr4(F2& r0, F2& r1, const F2& a, const F2& b) {
    F2 aa = a.sqr(), bb = b.sqr();
    r1 = (a + b).sqr() - aa - bb;
    r0 = aa + Tower::mul_xi(bb);
  }
  static F2 three_minus_two(const F2& x, const F2& y) { return (x - y).dbl() + x; }
  static F2 three_plus_two(const F2& x, const F2& y) { return (x + y).dbl() + x; }
};

}  // namespace dp
