// The optimal ate pairing on BN254 and BLS12-381: products of pairings by one shared Miller loop and one final
// exponentiation.
//
// Miller loop: Vercauteren, Optimal pairings (eprint 2008/096), on the twist in homogeneous projective coordinates with
// the line formulas of Aranha, Karabina, Longa, Gebotys, Lopez: Faster explicit formulas for computing pairings over
// ordinary curves (eprint 2010/526). Lines are known up to a factor that the final exponentiation kills.
#pragma once
#include <vector>

#include "curve/endomorphism.h"

namespace dp {

// Signed binary digits of the loop length, most significant first, without the leading one.
struct LoopDigits {
  signed char digit[68] = {};
  int count = 0;
};

// Non-adjacent form, but with a leading 1 0 -1 written 0 1 1, which saves one doubling.
constexpr LoopDigits loop_digits(unsigned __int128 n) {
  signed char d[70] = {};
  int top = 0;
  for (int i = 0; n != 0; ++i, n >>= 1) {
    if (n & 1) {
      d[i] = (n & 3) == 1 ? 1 : -1;
      n -= (unsigned __int128)(__int128)d[i];
      top = i;
    }
  }
  if (top >= 2 && d[top - 1] == 0 && d[top - 2] == -1) {
    d[top] = 0;
    d[top - 1] = d[top - 2] = 1;
    top -= 1;
  }
  LoopDigits out;
  for (int i = top - 1; i >= 0; --i) out.digit[out.count++] = d[i];
  return out;
}

template <class Tower>
class Miller {
  using F = typename Tower::Fq;
  using F2 = typename Tower::Fq2;
  using F12 = Fp12<Tower>;

 public:
  // Adds a pair; one with a point at infinity contributes a factor of one.
  void push(const Affine<F>& p, const Affine<F2>& q) {
    if (p.is_infinity() || q.is_infinity()) return;
    pairs_.push_back({p.x.neg(), p.y, q, q.x, q.y, F2::one()});
  }

  // The product of the Miller functions of all pairs, before the final exponentiation. Uses the pairs up.
  F12 run() {
    static constexpr LoopDigits digits =
        loop_digits(Tower::M_TWIST ? (unsigned __int128)Tower::X : 6 * (unsigned __int128)Tower::X + 2);
    F12 f = F12::one();
    for (int i = 0; i < digits.count; ++i) {
      if (i) f = f.sqr();
      for (Pair& pair : pairs_) double_step(f, pair);
      if (digits.digit[i]) {
        for (Pair& pair : pairs_) add_step(f, pair, digits.digit[i] > 0 ? pair.q : pair.q.neg());
      }
    }
    if constexpr (Tower::M_TWIST) {
      f = f.conjugate();  // x < 0; inversion up to what the final exponentiation kills
    } else {
      const auto& psi = Psi<Tower>::get();
      for (Pair& pair : pairs_) {
        Affine<F2> q1 = psi(pair.q);
        add_step(f, pair, q1);
        add_step(f, pair, psi(q1).neg());
      }
    }
    pairs_.clear();
    return f;
  }

 private:
  struct Pair {
    F x_neg, y;       // of P
    Affine<F2> q;
    F2 tx, ty, tz;    // the running multiple of Q
  };

  // f times the line  y_P * a  -  x_P * b * w  +  c * w^3  (D), or the same times w^3 (M), from a, b, c in Fp2
  static void multiply_line(F12& f, const Pair& pair, const F2& a, const F2& b, const F2& c) {
    F2 ay = a.scale(pair.y), bx = b.scale(pair.x_neg);
    f = Tower::M_TWIST ? f.mul_by_023(c, bx, ay) : f.mul_by_013(ay, bx, c);
  }

  static void double_step(F12& f, Pair& pair) {
    F2 xy = pair.tx * pair.ty;
    F2 b = pair.ty.sqr(), c = pair.tz.sqr();
    F2 e = c * b3();
    F2 e3 = e.dbl() + e;
    F2 h = (pair.ty + pair.tz).sqr() - b - c;  // 2 y z
    F2 j = pair.tx.sqr();
    F2 ee = e.sqr().dbl().dbl();
    pair.tx = xy.dbl() * (b - e3);
    pair.ty = (b + e3).sqr() - (ee.dbl() + ee);
    pair.tz = b * h.dbl().dbl();
    multiply_line(f, pair, h, j.dbl() + j, b - e);
  }

  static void add_step(F12& f, Pair& pair, const Affine<F2>& q) {
    F2 theta = pair.ty - q.y * pair.tz;
    F2 lambda = pair.tx - q.x * pair.tz;
    F2 d = lambda.sqr();
    F2 e = lambda * d;
    F2 g = pair.tx * d;
    F2 h = e + pair.tz * theta.sqr() - g.dbl();
    pair.tx = lambda * h;
    pair.ty = theta * (g - h) - e * pair.ty;
    pair.tz = pair.tz * e;
    multiply_line(f, pair, lambda, theta, theta * q.x - lambda * q.y);
  }

  static const F2& b3() {
    static const F2 b = Tower::b2().dbl() + Tower::b2();
    return b;
  }

  std::vector<Pair> pairs_;
};

// f^X in the cyclotomic subgroup
template <class Tower>
Fp12<Tower> power_of_x(const Fp12<Tower>& f) {
  static constexpr LoopDigits digits = loop_digits(Tower::X);
  Fp12<Tower> inverse = f.conjugate(), r = f;
  for (int i = 0; i < digits.count; ++i) {
    r = r.cyclotomic_sqr();
    if (digits.digit[i]) r = r * (digits.digit[i] > 0 ? f : inverse);
  }
  return r;
}

// m^(2 x (6 x^2 + 3 x + 1) (p^4 - p^2 + 1) / r), the exponent that ffjavascript uses too. Fuentes-Castaneda, Knapp,
// Rodriguez-Henriquez: Faster hashing to G2 (SAC 2011).
inline Fp12<Bn254Tower> hard_part(const Fp12<Bn254Tower>& m) {
  auto x1 = power_of_x(m).cyclotomic_sqr();        // 2x
  auto x6 = x1.cyclotomic_sqr() * x1;              // 6x
  auto xx6 = power_of_x(x6);                       // 6x^2
  auto xxx12 = power_of_x(xx6.cyclotomic_sqr());   // 12x^3
  auto a = xxx12 * xx6 * x6;                       // 12x^3 + 6x^2 + 6x
  auto b = a * x1.conjugate();                     // 12x^3 + 6x^2 + 4x
  auto lambda0 = a * xx6 * m;                      // 12x^3 + 12x^2 + 6x + 1
  auto lambda2 = a.frobenius().frobenius();
  auto lambda3 = (b * m.conjugate()).frobenius().frobenius().frobenius();
  return lambda0 * b.frobenius() * lambda2 * lambda3;
}

// m^(3 (p^4 - p^2 + 1) / r), with 3 (p^4 - p^2 + 1) / r = (x - 1)^2 (x + p) (x^2 + p^2 - 1) + 3. Hayashida, Hayasaka,
// Teruya: Efficient final exponentiation via cyclotomic structure for pairings over families of elliptic curves
// (eprint 2020/875).
inline Fp12<Bls12381Tower> hard_part(const Fp12<Bls12381Tower>& m) {
  auto minus_x = [](const Fp12<Bls12381Tower>& f) { return power_of_x(f); };  // f^-x, since x = -X
  auto a = (minus_x(m) * m).conjugate();            // x - 1
  a = (minus_x(a) * a).conjugate();                 // (x - 1)^2
  a = minus_x(a).conjugate() * a.frobenius();       // ... (x + p)
  auto b = minus_x(minus_x(a)) * a.frobenius().frobenius() * a.conjugate();  // ... (x^2 + p^2 - 1)
  return b * m.cyclotomic_sqr() * m;
}

// To the subgroup of order r, by way of the cyclotomic subgroup: f^((p^6 - 1) (p^2 + 1)), then the hard part.
template <class Tower>
Fp12<Tower> final_exponentiation(const Fp12<Tower>& f) {
  auto m = f.conjugate() * f.inverse();
  return hard_part(m.frobenius().frobenius() * m);
}

}  // namespace dp
