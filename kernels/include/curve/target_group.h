// The target group of the pairing: the subgroup of order r of Fp12. Membership, compression, products of powers. Host only.
#pragma once
#include "curve/linear_combination.h"
#include "curve/pairing.h"

namespace dp {

// The tests below take elements of the cyclotomic subgroup, of order p^4 - p^2 + 1, and accept exactly those of order r.
// That they are exact is computed in tests/kernels/cpu/test_target_group.py, as for points in curve/endomorphism.h.

// f^p = f^x. Scott: A note on group membership tests for G1, G2 and GT on BLS pairing-friendly curves (eprint 2021/1130).
inline bool has_order_r(const Fp12<Bls12381Tower>& f) { return f.frobenius() == power_of_x(f).conjugate(); }

// f^(x + 1) f^(x p) f^(x p^2) = f^(2 x p^3). Dai, Lin, Zhao, Zhou: Fast subgroup membership testings for G1, G2 and GT on
// pairing-friendly curves (eprint 2022/348).
inline bool has_order_r(const Fp12<Bn254Tower>& f) {
  const auto xf = power_of_x(f), xf1 = xf.frobenius(), xf2 = xf1.frobenius();
  return xf * f * xf1 * xf2 == xf2.frobenius().cyclotomic_sqr();
}

template <class Tower>
bool in_target_group(const Fp12<Tower>& f) {
  const auto f2 = f.frobenius().frobenius();
  if (!(f2.frobenius().frobenius() * f == f2)) return false;  // f^(p^4 - p^2 + 1) = 1; zero does not pass has_order_r
  return !(f.c0.is_zero() && f.c1.is_zero()) && has_order_r(f);
}

// Elements of norm 1 over Fp6, but for 1 itself, as one element of Fp6: f = a + b w is (1 + a) / b, and back
// (c + w) / (c - w). Naehrig, Barreto, Schwabe: On compressible pairings and their computation (eprint 2007/429), section
// 4.1; the form in which blstrs writes elements of GT.
template <class Tower>
Fp6<Tower> compress(const Fp12<Tower>& f) {  // f is not 1
  return (Fp6<Tower>::one() + f.c0) * f.c1.inverse();
}

template <class Tower>
Fp12<Tower> decompress(const Fp6<Tower>& c) {  // c - w is never zero
  const Fp6<Tower> one = Fp6<Tower>::one();
  return Fp12<Tower>{c, one} * Fp12<Tower>{c, one.neg()}.inverse();
}

// prod_i f_i^(k_i) by Straus' method, as LinearCombination; the inverse of an element is its conjugate.
template <class Tower, int M>
Fp12<Tower> product_of_powers(const Fp12<Tower>* f, const Words<M>* k, size_t n) {
  using F12 = Fp12<Tower>;
  constexpr int WINDOW = 5;
  std::vector<SignedDigits<M, WINDOW>> terms;
  std::vector<F12> table;
  std::vector<size_t> first;
  int length = 0;
  for (size_t i = 0; i < n; ++i) {
    terms.emplace_back(k[i]);
    first.push_back(table.size());
    length = std::max(length, terms[i].length);
    if (terms[i].largest == 0) continue;
    table.push_back(f[i]);
    if (terms[i].largest == 1) continue;
    const F12 square = f[i].cyclotomic_sqr();
    for (int m = 3; m <= terms[i].largest; m += 2) table.push_back(table.back() * square);
  }
  F12 r = F12::one();
  for (int j = length - 1; j >= 0; --j) {
    if (j < length - 1) r = r.cyclotomic_sqr();
    for (size_t i = 0; i < n; ++i) {
      const int d = j < terms[i].length ? terms[i].digit[j] : 0;
      if (d) r = r * (d > 0 ? table[first[i] + d / 2] : table[first[i] + (-d) / 2].conjugate());
    }
  }
  return r;
}

}  // namespace dp
