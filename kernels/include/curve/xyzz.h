// Short Weierstrass points with a = 0: affine, and XYZZ (x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2).
// Formulas: Explicit-Formulas Database, "shortw/xyzz": add-2008-s, madd-2008-s, dbl-2008-s-1, mdbl-2008-s-1.
// Every operation is complete: equal, opposite and infinite inputs give the right result.
#pragma once
#include "field/fp2.h"

namespace dp {

template <class F>
struct Affine {
  using Field = F;
  F x, y;  // (0, 0) is the point at infinity; it lies on neither curve, since b != 0

  DP_HD static Affine infinity() { return {F::zero(), F::zero()}; }
  DP_HD bool is_infinity() const { return x.is_zero() && y.is_zero(); }
  DP_HD Affine neg() const { return {x, y.neg()}; }
  DP_HD bool operator==(const Affine& o) const { return x == o.x && y == o.y; }
};

template <class F>
struct XYZZ {
  using Field = F;
  F x, y, zz, zzz;  // zz = 0 is the point at infinity

  DP_HD static XYZZ infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
  DP_HD static XYZZ from_affine(const Affine<F>& p) {
    if (p.is_infinity()) return infinity();
    return {p.x, p.y, F::one(), F::one()};
  }
  DP_HD bool is_infinity() const { return zz.is_zero(); }
  DP_HD XYZZ neg() const { return {x, y.neg(), zz, zzz}; }

  // Doublings that an addition meets: the summands are equal.
  DP_COLD static void dbl_into(XYZZ& r, const Affine<F>& p) { r = dbl_affine(p); }
  DP_COLD static void dbl_into(XYZZ& r, const XYZZ& p) { r = p.dbl(); }

  DP_HD static XYZZ dbl_affine(const Affine<F>& p) {  // p is not infinity; 2-torsion does not occur (prime order)
    F u = p.y.dbl();
    F v = u.sqr();
    F w = u * v;
    F s = p.x * v;
    F xx = p.x.sqr();
    F m = xx.dbl() + xx;
    XYZZ r;
    r.x = m.sqr() - s.dbl();
    r.y = difference_of_products(m, s - r.x, w, p.y);
    r.zz = v;
    r.zzz = w;
    return r;
  }
  DP_HD XYZZ dbl() const {
    if (is_infinity()) return *this;
    F u = y.dbl();
    F v = u.sqr();
    F w = u * v;
    F s = x * v;
    F xx = x.sqr();
    F m = xx.dbl() + xx;
    XYZZ r;
    r.x = m.sqr() - s.dbl();
    r.y = difference_of_products(m, s - r.x, w, y);
    r.zz = v * zz;
    r.zzz = w * zzz;
    return r;
  }
  DP_HD XYZZ add(const Affine<F>& q) const {
    if (q.is_infinity()) return *this;
    if (is_infinity()) return from_affine(q);
    F p = q.x * zz - x;
    F rr = q.y * zzz - y;
    XYZZ r;
    if (p.is_zero()) {
      if (!rr.is_zero()) return infinity();
      dbl_into(r, q);
      return r;
    }
    F pp = p.sqr();
    F ppp = p * pp;
    F qq = x * pp;
    r.x = rr.sqr() - ppp - qq.dbl();
    r.y = difference_of_products(rr, qq - r.x, y, ppp);
    r.zz = zz * pp;
    r.zzz = zzz * ppp;
    return r;
  }
  DP_HD XYZZ add(const XYZZ& q) const {
    if (q.is_infinity()) return *this;
    if (is_infinity()) return q;
    F u1 = x * q.zz, u2 = q.x * zz;
    F s1 = y * q.zzz, s2 = q.y * zzz;
    F p = u2 - u1, rr = s2 - s1;
    XYZZ r;
    if (p.is_zero()) {
      if (!rr.is_zero()) return infinity();
      dbl_into(r, *this);
      return r;
    }
    F pp = p.sqr();
    F ppp = p * pp;
    F qq = u1 * pp;
    r.x = rr.sqr() - ppp - qq.dbl();
    r.y = difference_of_products(rr, qq - r.x, s1, ppp);
    r.zz = zz * q.zz * pp;
    r.zzz = zzz * q.zzz * ppp;
    return r;
  }
  DP_HD Affine<F> to_affine() const {
    if (is_infinity()) return Affine<F>::infinity();
    F i = (zz * zzz).inverse();
    return {x * i * zzz, y * i * zz};
  }
  // k * this, k as little-endian 64-bit words; not constant time (its uses are public or blinded by the caller)
  template <int M>
  DP_HD XYZZ mul(const Words<M>& k) const {
    XYZZ r = infinity();
    for (int i = M * 64 - 1; i >= 0; --i) {
      r = r.dbl();
      if ((k.w[i >> 6] >> (i & 63)) & 1) r = r.add(*this);
    }
    return r;
  }
};

}  // namespace dp
