// The optimal ate pairing on BN254 and BLS12-381: products of pairings by one shared Miller loop and one final
// exponentiation.
//
// Miller loop: Vercauteren, Optimal pairings (eprint 2008/096); its steps are in miller.h.
#pragma once
#include <vector>

#include "curve/endomorphism.h"
#include "curve/miller.h"

namespace dp {

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
  static constexpr LoopDigits DIGITS =
      loop_digits(Tower::M_TWIST ? (unsigned __int128)Tower::X : 6 * (unsigned __int128)Tower::X + 2);
  // Three times the twist's constant
  static const F2& b3() {
    static const F2 b = Tower::b2().dbl() + Tower::b2();
    return b;
  }

  // Adds a pair; one with a point at infinity contributes a factor of one.
  void push(const Affine<F>& p, const Affine<F2>& q) {
    if (p.is_infinity() || q.is_infinity()) return;
    pairs_.push_back(MillerPair<Tower>::of(p, q));
  }

  // The product of the Miller functions of all pairs, before the final exponentiation. Uses the pairs up.
  F12 run() {
    F12 f = F12::one();
    for (int i = 0; i < DIGITS.count; ++i) {
      if (i) f = f.sqr();
      for (auto& pair : pairs_) pair.double_step(f, b3());
      if (DIGITS.digit[i]) {
        for (auto& pair : pairs_) pair.add_step(f, DIGITS.digit[i] > 0 ? pair.q : pair.q.neg());
      }
    }
    if constexpr (Tower::M_TWIST) {
      f = f.conjugate();  // x < 0; inversion up to what the final exponentiation kills
    } else {
      const auto& psi = Psi<Tower>::get();
      for (auto& pair : pairs_) {
        Affine<F2> q1 = psi(pair.q);
        pair.add_step(f, q1);
        pair.add_step(f, psi(q1).neg());
      }
    }
    pairs_.clear();
    return f;
  }

 private:
  std::vector<MillerPair<Tower>> pairs_;
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
