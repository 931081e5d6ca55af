// The target group of the pairing: the subgroup of order r of Fp12. Membership, compression, products of powers. Host only.
//
// Elements of norm 1 over Fp6 are those of the quotient Fp12* / Fp6*: g there stands for f = g / g^(p^6). All but 1 have a form
// c + w, and f = (c + w) / (c - w) is written as c = (1 + a) / b for f = a + b w. Naehrig, Barreto, Schwabe: On compressible
// pairings and their computation (eprint 2007/429), section 4.1; the form in which blstrs writes elements of GT.
#pragma once
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "curve/pairing.h"

namespace dp {

// The inverses of n elements, none of which is zero, with one inversion. Montgomery's trick.
template <class F>
void invert_all(F* values, size_t n) {
  if (n == 0) return;
  std::vector<F> prefix(values, values + n);
  for (size_t i = 1; i < n; ++i) prefix[i] = prefix[i - 1] * values[i];
  F inverse = prefix[n - 1].inverse();
  for (size_t i = n - 1; i > 0; --i) {
    const F own = inverse * prefix[i - 1];
    inverse = inverse * values[i];
    values[i] = own;
  }
  values[0] = inverse;
}

// ---- Membership. The tests below take elements of the cyclotomic subgroup, of order p^4 - p^2 + 1, and accept exactly those of
// order r. That they are exact is computed in tests/kernels/cpu/test_target_group.py, as for points in curve/endomorphism.h.

// An element of the cyclotomic subgroup without its coefficients of 1 and w^3, which the others determine. Karabina: Squaring in
// cyclotomic subgroups (eprint 2010/542).
template <class Tower>
struct CompressedSquares {
  using F2 = typename Tower::Fq2;
  F2 f1, f2, f4, f5;  // coefficients of w, w^2, w^4, w^5

  static CompressedSquares of(const Fp12<Tower>& f) { return {f.c1.c0, f.c0.c1, f.c0.c2, f.c1.c2}; }
  CompressedSquares sqr() const {
    F2 b0, b1, d0, d1;
    Fp12<Tower>::sqr4(b0, b1, f1, f4);
    Fp12<Tower>::sqr4(d0, d1, f2, f5);
    using F12 = Fp12<Tower>;
    return {F12::three_plus_two(Tower::mul_xi(d1), f1), F12::three_minus_two(b0, f2), F12::three_minus_two(d0, f4),
            F12::three_plus_two(b1, f5)};
  }
  // What `whole` divides by; zero where the element is to be had otherwise.
  F2 divisor() const { return f1.dbl().dbl(); }
  Fp12<Tower> whole(const F2& inverse_of_divisor) const {
    const F2 a = f2.sqr(), b = f4 * f2;
    const F2 f3 = (Tower::mul_xi(f5.sqr()) + a.dbl() + a - f4.dbl()) * inverse_of_divisor;
    const F2 f0 = Tower::mul_xi(f3.sqr().dbl() + f1 * f5 - b.dbl() - b) + F2::one();
    return {{f0, f2, f4}, {f1, f3, f5}};
  }
};

// f^X for X of few digits: squarings of four coefficients, and the whole elements at its digits with one inversion.
template <class Tower>
Fp12<Tower> sparse_power_of_x(const Fp12<Tower>& f) {
  using F2 = typename Tower::Fq2;
  static constexpr LoopDigits digits = loop_digits(Tower::X);
  std::vector<CompressedSquares<Tower>> at;
  std::vector<signed char> signs;
  std::vector<F2> divisors;
  auto square = CompressedSquares<Tower>::of(f);
  for (int i = 0; i <= digits.count; ++i) {
    const signed char digit = i < digits.count ? digits.digit[digits.count - 1 - i] : 1;
    if (digit) {
      at.push_back(square);
      signs.push_back(digit);
      divisors.push_back(square.divisor());
      if (divisors.back().is_zero()) return power_of_x(f);
    }
    if (i < digits.count) square = square.sqr();
  }
  invert_all(divisors.data(), divisors.size());
  Fp12<Tower> r;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto whole = at[i].whole(divisors[i]);
    const auto factor = signs[i] > 0 ? whole : whole.conjugate();
    r = i == 0 ? factor : r * factor;
  }
  return r;
}

// f^p = f^x. Scott: A note on group membership tests for G1, G2 and GT on BLS pairing-friendly curves (eprint 2021/1130).
inline bool has_order_r(const Fp12<Bls12381Tower>& f) { return f.frobenius() == sparse_power_of_x(f).conjugate(); }

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

// ---- Compression

template <class Tower>
void compress(const Fp12<Tower>* f, Fp6<Tower>* out, size_t n) {  // none is 1 or -1
  for (size_t i = 0; i < n; ++i) out[i] = f[i].c1;
  invert_all(out, n);
  for (size_t i = 0; i < n; ++i) out[i] = (Fp6<Tower>::one() + f[i].c0) * out[i];
}

// (c + w)^2 / (c^2 - v) = 1 + 2 (v + c w) / (c^2 - v), whose divisor is never zero: v is no square of Fp6
template <class Tower>
void decompress(const Fp6<Tower>* c, Fp12<Tower>* out, size_t n) {
  using F6 = Fp6<Tower>;
  const F6 one = F6::one();
  std::vector<F6> inverses(n);
  for (size_t i = 0; i < n; ++i) inverses[i] = c[i] * c[i] - one.mul_v();
  invert_all(inverses.data(), n);
  for (size_t i = 0; i < n; ++i) {
    const F6 twice = inverses[i] + inverses[i];
    out[i] = {one + twice.mul_v(), c[i] * twice};
  }
}

// ---- Products of powers

// p is congruent to a power of r's size / PARTS modulo r, so that f^(k_0 + k_1 b + ...) is a product of powers of f, f^b, ...
// that the Frobenius map makes. Galbraith, Scott: Exponentiation in pairing-friendly groups using Frobenius (Pairing 2008).
template <class Tower>
struct FrobeniusBase {  // b = p mod r, if INVERSE its negative
  static constexpr int PARTS = Tower::M_TWIST ? 4 : 2;
  static constexpr bool INVERSE = Tower::M_TWIST;  // BLS12: p = x mod r, and x = -X is negative
  static constexpr unsigned __int128 BASE =
      Tower::M_TWIST ? (unsigned __int128)Tower::X : 6 * (unsigned __int128)Tower::X * (unsigned __int128)Tower::X;

  // Divides k by BASE, and returns the remainder
  static unsigned __int128 divide(Words<4>& k) {
    unsigned __int128 rest = 0;  // below BASE, which is below 2^127
    for (int i = 255; i >= 0; --i) {
      const u64 bit = (u64)1 << (i & 63);
      rest = rest << 1 | ((k.w[i >> 6] & bit) != 0);
      k.w[i >> 6] &= ~bit;
      if (rest >= BASE) {
        rest -= BASE;
        k.w[i >> 6] |= bit;
      }
    }
    return rest;
  }
};

// prod_i f_i^(k_i), by buckets of elements c + w of Fp12* / Fp6* (Pippenger), to which one is multiplied by two products in Fp6
// in place of three. Windows are added up one by one, so that several threads can share them.
template <class Tower>
class ProductOfPowers {
  using F6 = Fp6<Tower>;
  using F12 = Fp12<Tower>;
  using Base = FrobeniusBase<Tower>;

 public:
  static constexpr int WINDOW = 6;

  // Canonical scalars
  ProductOfPowers(const F12* f, const Words<4>* k, size_t n) {
    std::vector<F12> others;
    for (size_t i = 0; i < n; ++i)
      if (!f[i].is_one()) others.push_back(f[i]);
    std::vector<F6> forms(others.size());
    compress(others.data(), forms.data(), forms.size());
    unsigned __int128 all = 0;
    for (size_t i = 0, at = 0; i < n; ++i) {
      if (f[i].is_one()) continue;
      F6 c = forms[at++];
      Words<4> rest = k[i];
      for (int part = 1; part < Base::PARTS; ++part) {
        terms_.push_back({c, Base::divide(rest)});
        all |= terms_.back().power;
        c = Base::INVERSE ? frobenius(c).neg() : frobenius(c);
      }
      // The last digit is what is left: of BN254 it may be above the base.
      if (rest.w[2] | rest.w[3]) throw std::invalid_argument("a scalar is not below the order");
      terms_.push_back({c, (unsigned __int128)rest.w[1] << 64 | rest.w[0]});
      all |= terms_.back().power;
    }
    int bits = 0;
    while (bits < 128 && all >> bits) ++bits;
    windows_ = bits / WINDOW + 1;  // signed digits carry
    sums_.resize(windows_);
  }

  size_t windows() const { return windows_; }

  void sum(size_t window) {
    std::vector<F12> buckets((size_t)1 << (WINDOW - 1));
    std::vector<signed char> held(buckets.size());  // 0 for none, 1 for c + w, 2 for a + b w
    for (const Term& term : terms_) {
      const int d = digit(term.power, (int)window);
      if (d == 0) continue;
      F12& bucket = buckets[std::abs(d) - 1];
      signed char& state = held[std::abs(d) - 1];
      const F6 c = d > 0 ? term.c : term.c.neg();
      if (state == 0) bucket = {c, F6::one()};
      if (state == 1) bucket = {bucket.c0 * c + F6::one().mul_v(), bucket.c0 + c};
      if (state == 2) bucket = {bucket.c0 * c + bucket.c1.mul_v(), bucket.c0 + bucket.c1 * c};
      if (state < 2) ++state;
    }
    F12 run = F12::one(), total = F12::one();
    bool any = false, counted = false;
    for (size_t b = buckets.size(); b-- > 0;) {
      if (held[b]) {
        run = any ? run * buckets[b] : buckets[b];
        any = true;
      }
      if (any) {
        total = counted ? total * run : run;
        counted = true;
      }
    }
    sums_[window] = total;
  }

  // When all windows are summed up
  F12 product() const {
    F12 g = F12::one();
    for (size_t i = windows_; i-- > 0;) {
      if (i + 1 < windows_)
        for (int j = 0; j < WINDOW; ++j) g = g.sqr();
      g = g * sums_[i];
    }
    return g * g.conjugate().inverse();
  }

 private:
  struct Term {
    F6 c;
    unsigned __int128 power;
  };

  // (c + w)^p as an element c + w
  static F6 frobenius(const F6& c) {
    static const Constants constants;
    return {c.c0.conjugate() * constants.of[0], c.c1.conjugate() * constants.of[1], c.c2.conjugate() * constants.of[2]};
  }
  struct Constants {
    typename Tower::Fq2 of[3];
    Constants() {
      const auto& g = F12::FrobeniusConstants::get();
      of[0] = g.power[1].inverse();
      of[1] = g.power[1];
      of[2] = g.power[3];
    }
  };

  // Digits from -2^(WINDOW - 1) + 1 to 2^(WINDOW - 1): a window above the half takes its complement, and carries
  static int digit(unsigned __int128 power, int window) {
    const auto at = [&](int i) { return i < 0 || i * WINDOW > 127 ? 0 : (int)(power >> (i * WINDOW)) & ((1 << WINDOW) - 1); };
    const int half = 1 << (WINDOW - 1);
    int carry = 0;
    for (int i = window - 1; i >= 0; --i) {  // decided by the next lower window that is not the half itself
      if (at(i) == half) continue;
      carry = at(i) > half;
      break;
    }
    const int d = at(window) + carry;
    return d > half ? d - (1 << WINDOW) : d;
  }

  std::vector<Term> terms_;
  std::vector<F12> sums_;
  size_t windows_ = 0;
};

}  // namespace dp
