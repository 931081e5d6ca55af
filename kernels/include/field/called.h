// A field whose operations are function calls. Fp and Fp2 are inlined, as the hot loops of the GPU and of the MSM want
// it; one level of curve or tower formulas above them, that makes more code than an instruction cache holds, and more
// than a compiler digests in reasonable time. Host only.
#pragma once
#include "field/fp2.h"

namespace dp {

template <class F>
struct Called {
  using Inner = F;
  F e;

  static Called zero() { return {F::zero()}; }
  [[gnu::noinline]] static Called one() { return {F::one()}; }
  [[gnu::noinline]] bool is_zero() const { return e.is_zero(); }
  [[gnu::noinline]] bool operator==(const Called& o) const { return e == o.e; }
  bool operator!=(const Called& o) const { return !(*this == o); }
  [[gnu::noinline]] bool is_canonical() const { return e.is_canonical(); }

  [[gnu::noinline]] Called operator+(const Called& o) const { return {e + o.e}; }
  [[gnu::noinline]] Called operator-(const Called& o) const { return {e - o.e}; }
  [[gnu::noinline]] Called neg() const { return {e.neg()}; }
  [[gnu::noinline]] Called dbl() const { return {e.dbl()}; }
  [[gnu::noinline]] Called operator*(const Called& o) const { return {e * o.e}; }
  [[gnu::noinline]] Called sqr() const { return {e.sqr()}; }
  [[gnu::noinline]] Called inverse() const { return {e.inverse()}; }

  // of a quadratic extension only
  [[gnu::noinline]] Called conjugate() const { return {e.conjugate()}; }
  template <class B>
  [[gnu::noinline]] Called scale(const Called<B>& k) const {
    return {e.scale(k.e)};
  }
};

}  // namespace dp
