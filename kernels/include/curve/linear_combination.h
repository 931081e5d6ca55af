// sum_i k_i P_i for few points (the public inputs of a proof, the coefficients of a batch), host only. Large sums, over
// whole keys, are the backend's msm.
//
// Straus' method with shared doublings and signed windows (width-w non-adjacent form; Moller: Algorithms for
// multi-exponentiation, SAC 2001). Not constant time: its scalars are public.
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
      total = add(total, chunk.run(points + i, scalars + i, std::min(CHUNK, n - i)));
    }
    return total;
  }

 private:
  struct Term {
    SignedDigits<M, WINDOW> digits;
    size_t first;  // of its odd multiples P, 3P, 5P, ... in table_
  };

  [[gnu::noinline]] static XYZZ<F> add(const XYZZ<F>& a, const XYZZ<F>& b) { return a.add(b); }

  XYZZ<F> run(const Affine<F>* points, const Words<M>* scalars, size_t n) {
    terms_.clear();
    multiples_.clear();
    int length = 0;
    for (size_t i = 0; i < n; ++i) {
      terms_.push_back({SignedDigits<M, WINDOW>(scalars[i]), multiples_.size()});
      const int largest = terms_.back().digits.largest;
      length = std::max(length, terms_.back().digits.length);
      if (largest == 0) continue;
      XYZZ<F> p = XYZZ<F>::from_affine(points[i]);
      multiples_.push_back(p);
      if (largest == 1) continue;  // usual: public inputs of 0 and 1
      XYZZ<F> twice = p.dbl();
      for (int k = 3; k <= largest; k += 2) multiples_.push_back(add(multiples_.back(), twice));
    }
    normalize(multiples_, table_);
    XYZZ<F> r = XYZZ<F>::infinity();
    for (int j = length - 1; j >= 0; --j) {
      r = r.dbl();
      for (const Term& term : terms_) {
        int d = j < term.digits.length ? term.digits.digit[j] : 0;
        if (d) r = d > 0 ? r.add(table_[term.first + d / 2]) : r.add(table_[term.first + (-d) / 2].neg());
      }
    }
    return r;
  }

  std::vector<Term> terms_;
  std::vector<XYZZ<F>> multiples_;
  std::vector<Affine<F>> table_;
};

}  // namespace dp
