// The steps of the Miller loop for one pair, on the twist in homogeneous projective coordinates with the line formulas of
// Aranha, Karabina, Longa, Gebotys, Lopez: Faster explicit formulas for computing pairings over ordinary curves (eprint
// 2010/526). Lines are known up to a factor that the final exponentiation kills.
#pragma once
#include "curve/xyzz.h"
#include "field/fp12.h"

namespace dp {

// Signed binary digits of the loop length, most significant first, without the leading one.
struct LoopDigits {
  signed char digit[68] = {};
  int count = 0;
};

template <class Tower>
struct MillerPair {
  using F = typename Tower::Fq;
  using F2 = typename Tower::Fq2;
  using F12 = Fp12<Tower>;

  F x_neg, y;     // of P
  Affine<F2> q;
  F2 tx, ty, tz;  // the running multiple of Q

  DP_HD static MillerPair of(const Affine<F>& p, const Affine<F2>& q) {
    return {p.x.neg(), p.y, q, q.x, q.y, F2::one()};
  }

  // f times the line  y_P * a  -  x_P * b * w  +  c * w^3  (D), or the same times w^3 (M), from a, b, c in Fp2
  DP_HD void multiply_line(F12& f, const F2& a, const F2& b, const F2& c) const {
    F2 ay = a.scale(y), bx = b.scale(x_neg);
    f = Tower::M_TWIST ? f.mul_by_023(c, bx, ay) : f.mul_by_013(ay, bx, c);
  }

  DP_HD void double_step(F12& f, const F2& b3) {  // b3: three times the twist's constant
    F2 xy = tx * ty;
    F2 b = ty.sqr(), c = tz.sqr();
    F2 e = c * b3;
    F2 e3 = e.dbl() + e;
    F2 h = (ty + tz).sqr() - b - c;  // 2 y z
    F2 j = tx.sqr();
    F2 ee = e.sqr().dbl().dbl();
    tx = xy.dbl() * (b - e3);
    ty = (b + e3).sqr() - (ee.dbl() + ee);
    tz = b * h.dbl().dbl();
    multiply_line(f, h, j.dbl() + j, b - e);
  }

  DP_HD void add_step(F12& f, const Affine<F2>& other) {
    F2 theta = ty - other.y * tz;
    F2 lambda = tx - other.x * tz;
    F2 d = lambda.sqr();
    F2 e = lambda * d;
    F2 g = tx * d;
    F2 h = e + tz * theta.sqr() - g.dbl();
    tx = lambda * h;
    ty = theta * (g - h) - e * ty;
    tz = tz * e;
    multiply_line(f, lambda, theta, theta * other.x - lambda * other.y);
  }
};

}  // namespace dp
