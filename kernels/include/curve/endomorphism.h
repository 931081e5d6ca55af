// Efficient endomorphisms of the two curves, and the subgroup tests that follow from them.
#pragma once
#include "curve/curves.h"
#include "field/called.h"
#include "field/fp12.h"

namespace dp {

// The parameter of each family, the tower's non-residue xi, and how the sextic twist E' is related to E:
// D: y^2 = x^3 + b / xi, (x, y) -> (x w^2, y w^3);  M: y^2 = x^3 + b xi, (x, y) -> (x / w^2, y / w^3).
struct Bn254Tower {
  using Fr = Bn254::Fr;
  using Fq = Called<Bn254::Fq>;
  using Fq2 = Called<Bn254::Fq2>;
  static constexpr bool M_TWIST = false;
  static constexpr u64 X = 4965661367192848881ULL;  // x > 0
  static Fq2 xi() { return {{Bn254::Fq::from_u64(9), Bn254::Fq::one()}}; }
  [[gnu::noinline]] static Fq2 mul_xi(const Fq2& a) {  // 9 + u
    Bn254::Fq2 t = a.e.dbl().dbl().dbl() + a.e;
    return {{t.c0 - a.e.c1, t.c1 + a.e.c0}};
  }
  static Fq b1() { return {Bn254::Fq::from_u64(3)}; }
  static const Fq2& b2() {
    static const Fq2 b = xi().inverse().scale(b1());
    return b;
  }
};

struct Bls12381Tower {
  using Fr = Bls12381::Fr;
  using Fq = Called<Bls12381::Fq>;
  using Fq2 = Called<Bls12381::Fq2>;
  static constexpr bool M_TWIST = true;
  static constexpr u64 X = 0xd201000000010000ULL;  // x = -X
  static Fq2 xi() { return {{Bls12381::Fq::one(), Bls12381::Fq::one()}}; }
  [[gnu::noinline]] static Fq2 mul_xi(const Fq2& a) { return {{a.e.c0 - a.e.c1, a.e.c0 + a.e.c1}}; }  // 1 + u
  static Fq b1() { return {Bls12381::Fq::from_u64(4)}; }
  static const Fq2& b2() {
    static const Fq2 b = xi().scale(b1());
    return b;
  }
};

// psi: the p-power Frobenius of E, carried to the twist. On the subgroup of order r it multiplies by p.
template <class Tower>
struct Psi {
  using F2 = typename Tower::Fq2;
  static const Psi& get() {
    static const Psi psi;
    return psi;
  }
  Affine<F2> operator()(const Affine<F2>& q) const {
    return {q.x.conjugate() * x, q.y.conjugate() * y};
  }
  XYZZ<F2> operator()(const XYZZ<F2>& q) const {
    return {q.x.conjugate() * x, q.y.conjugate() * y, q.zz.conjugate(), q.zzz.conjugate()};
  }
  F2 x, y;

 private:
  Psi() {
    const auto& g = Fp12<Tower>::FrobeniusConstants::get();
    x = Tower::M_TWIST ? g.power[2].inverse() : g.power[2];
    y = Tower::M_TWIST ? g.power[3].inverse() : g.power[3];
  }
};

// beta with (x, y) -> (beta x, y) of eigenvalue -x^2 on G1 of BLS12-381: the cube root of unity xi^((p^2 - 1) / 3).
inline const Bls12381Tower::Fq& bls12381_beta() {
  static const Bls12381Tower::Fq beta = [] {
    Bls12381Tower::Fq2 g = Fp12<Bls12381Tower>::FrobeniusConstants::get().power[2];
    return Bls12381Tower::Fq{(g * g.conjugate()).e.c0};
  }();
  return beta;
}

template <class F>
bool same_point(const XYZZ<F>& a, const XYZZ<F>& b) {
  if (a.is_infinity() || b.is_infinity()) return a.is_infinity() && b.is_infinity();
  return a.x * b.zz == b.x * a.zz && a.y * b.zzz == b.y * a.zzz;
}

template <class F>
[[gnu::noinline]] XYZZ<F> times(const XYZZ<F>& p, u64 k) {
  return p.mul(Words<1>{{k}});
}

template <class F>
[[gnu::noinline]] XYZZ<F> add(const XYZZ<F>& p, const XYZZ<F>& q) {
  return p.add(q);
}

// The tests below take points of the curve (of its twist) and accept exactly those of order r, and infinity. That they
// are exact is computed in tests/kernels/cpu/test_pairing.py: an equation h(psi) Q = 0 implies N Q = 0 for N the norm of h
// in Z[psi], and the greatest common divisor of N and the order of the whole curve is r.

inline bool in_g1(const Affine<Bn254Tower::Fq>&, Bn254Tower) { return true; }  // the curve itself has order r

// phi(P) = -[x^2] P. Scott: A note on group membership tests for G1, G2 and GT on BLS pairing-friendly curves
// (eprint 2021/1130).
inline bool in_g1(const Affine<Bls12381Tower::Fq>& p, Bls12381Tower) {
  using F = Bls12381Tower::Fq;
  XYZZ<F> q = XYZZ<F>::from_affine(p);
  XYZZ<F> phi = q;
  phi.x = q.x * bls12381_beta();
  return same_point(phi, times(times(q, Bls12381Tower::X), Bls12381Tower::X).neg());
}

// psi(Q) = [x] Q. Scott, the same; El Housni, Guillevic, Piellard: Co-factor clearing and subgroup membership testing
// on pairing-friendly curves (eprint 2022/352).
inline bool in_g2(const Affine<Bls12381Tower::Fq2>& p, Bls12381Tower) {
  auto q = XYZZ<Bls12381Tower::Fq2>::from_affine(p);
  return same_point(Psi<Bls12381Tower>::get()(q), times(q, Bls12381Tower::X).neg());
}

// [x + 1] Q + psi([x] Q) + psi^2([x] Q) = psi^3([2x] Q). Dai, Lin, Zhao, Zhou: Fast subgroup membership testings for
// G1, G2 and GT on pairing-friendly curves (eprint 2022/348).
inline bool in_g2(const Affine<Bn254Tower::Fq2>& p, Bn254Tower) {
  using P = XYZZ<Bn254Tower::Fq2>;
  const auto& psi = Psi<Bn254Tower>::get();
  P xq = times(P::from_affine(p), Bn254Tower::X);
  P psi1 = psi(xq), psi2 = psi(psi1), psi3 = psi(psi2);
  return same_point(add(add(add(xq, P::from_affine(p)), psi1), psi2), psi3.dbl());
}

template <class F>
bool on_curve(const Affine<F>& p, const F& b) {
  return p.is_infinity() || p.y.sqr() == p.x.sqr() * p.x + b;
}

}  // namespace dp
