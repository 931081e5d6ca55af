// sum_i k_i P_i for few points (the public inputs of a proof, the coefficients of a batch), host only. Large sums, over
// whole keys, are the backend's msm.
//
// Straus' method with shared doublings and signed windows (width-w non-adjacent form; Moller: Algorithms for
// multi-exponentiation, SAC 2001). Not constant time: its scalars are public, but for the blinding of a proof, which only
// the machine that makes the proof computes with (glv.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "curve/xyzz.h"

namespace dp {

// Affine form of many points with one inversion.
template <class F>
void normalize(const std::vector<XYZZ<F>>& in, std::vector<Affine<F>>& out) {
  out.resize(in.size());
  std::vector<F> prefix(in.size());
  F run = F::one();
  for (size_t i = 0; i < in.size(); ++i) {
    prefix[i] = run;
    if (!in[i].is_infinity()) run = run * (in[i].zz * in[i].zzz);
  }
  F inverse = run.inverse();
  for (size_t i = in.size(); i-- > 0;) {
    const XYZZ<F>& p = in[i];
    if (p.is_infinity()) {
      out[i] = Affine<F>::infinity();
      continue;
    }
    F own = inverse * prefix[i];
    inverse = inverse * (p.zz * p.zzz);
    out[i] = {p.x * (own * p.zzz), p.y * (own * p.zz)};
  }
}

template <class F>
[[gnu::noinline]] XYZZ<F> called_add(const XYZZ<F>& a, const XYZZ<F>& b) {
  return a.add(b);
}

// A non-negative integer of M words in width-w non-adjacent form: digits are zero or odd, and below 2^(w-1) in absolute value.
template <int M, int WINDOW>
struct SignedDigits {
  static constexpr int DIGITS = 64 * M + 1;
  std::int8_t digit[DIGITS];
  int length = 0;   // digits in use
  int largest = 0;  // absolute value of a digit

  explicit SignedDigits(const Words<M>& scalar) {
    u64 k[M + 1] = {};  // one word more: rounding up may carry out of the scalar's own
    for (int w = 0; w < M; ++w) k[w] = scalar.w[w];
    for (int i = 0; i < DIGITS; ++i) {
      int d = 0;
      if (k[0] & 1) {
        d = (int)(k[0] & ((1 << WINDOW) - 1));
        k[0] -= (u64)d;
        if (d >= 1 << (WINDOW - 1)) {
          d -= 1 << WINDOW;
          u64 carry = 1 << WINDOW;
          for (int w = 0; w <= M && carry; ++w) {
            k[w] += carry;
            carry = k[w] < carry;
          }
        }
        largest = std::max(largest, d < 0 ? -d : d);
        length = i + 1;
      }
      digit[i] = (std::int8_t)d;
      for (int w = 0; w <= M; ++w) k[w] = (k[w] >> 1) | (w < M ? k[w + 1] << 63 : 0);
    }
  }
};

// A multiple of a point P, negated if so.
template <int M, int WINDOW>
struct SignedTerm {
  SignedDigits<M, WINDOW> digits;
  size_t first;  // of P, 3P, 5P, ... in a table
  bool negative = false;
};

// The sum of the terms, whose doublings are shared.
template <class F, int M, int WINDOW>
XYZZ<F> straus(const std::vector<SignedTerm<M, WINDOW>>& terms, const std::vector<Affine<F>>& table) {
  int length = 0;
  for (const auto& term : terms) length = std::max(length, term.digits.length);
  XYZZ<F> r = XYZZ<F>::infinity();
  for (int j = length - 1; j >= 0; --j) {
    r = r.dbl();
    for (const auto& term : terms) {
      const int d = j < term.digits.length ? term.digits.digit[j] : 0;
      if (d == 0) continue;
      Affine<F> q = table[term.first + (d < 0 ? -d : d) / 2];
      if ((d < 0) != term.negative) q = q.neg();
      r = r.add(q);
    }
  }
  return r;
}

// Append the odd multiples P, 3P, 5P, ... up to `largest` P.
template <class F>
void append_odd_multiples(const Affine<F>& point, int largest, std::vector<XYZZ<F>>& multiples) {
  if (largest == 0) return;
  XYZZ<F> p = XYZZ<F>::from_affine(point);
  multiples.push_back(p);
  if (largest == 1) return;  // usual: public inputs of 0 and 1
  XYZZ<F> twice = p.dbl();
  for (int k = 3; k <= largest; k += 2) multiples.push_back(called_add(multiples.back(), twice));
}

// Scalars are non-negative integers of M words.
template <class F, int M>
class LinearCombination {
  static constexpr int WINDOW = 5;
  static constexpr size_t CHUNK = 256;  // points whose tables are held at once

 public:
  static XYZZ<F> sum(const Affine<F>* points, const Words<M>* scalars, size_t n) {
    XYZZ<F> total = XYZZ<F>::infinity();
    LinearCombination chunk;
    for (size_t i = 0; i < n; i += CHUNK) {
      total = called_add(total, chunk.run(points + i, scalars + i, std::min(CHUNK, n - i)));
    }
    return total;
  }

 private:
  XYZZ<F> run(const Affine<F>* points, const Words<M>* scalars, size_t n) {
    terms_.clear();
    multiples_.clear();
    for (size_t i = 0; i < n; ++i) {
      terms_.push_back({SignedDigits<M, WINDOW>(scalars[i]), multiples_.size()});
      append_odd_multiples(points[i], terms_.back().digits.largest, multiples_);
    }
    normalize(multiples_, table_);
    return straus(terms_, table_);
  }

  std::vector<SignedTerm<M, WINDOW>> terms_;
  std::vector<XYZZ<F>> multiples_;
  std::vector<Affine<F>> table_;
};

}  // namespace dp
