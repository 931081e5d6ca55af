// A prime field in Montgomery form, any number of limbs. Values are always canonical (< p).
#pragma once
#include "field/inverse.h"

// Products are inlined, or with DP_OUTLINE_PRODUCTS calls, for device code that uses many and is not the innermost loop: a
// call costs some 5 % of a product, and saves kilobytes of code and most of the compilation.
#if defined(DP_OUTLINE_PRODUCTS)
#define DP_PRODUCT DP_COLD
#else
#define DP_PRODUCT DP_HD
#endif

namespace dp {

template <class P>
struct DP_ALIGN Fp {
  using Params = P;
  static constexpr int LIMBS64 = P::LIMBS64;
  static constexpr int N = LIMBS64 * 64 / LIMB_BITS;
  static constexpr int BYTES = LIMBS64 * 8;

  limb_t v[N];

  DP_HD static Fp zero() {
    Fp r;
    for (int i = 0; i < N; ++i) r.v[i] = 0;
    return r;
  }
  DP_HD static Fp one() {
    constexpr Words<LIMBS64> c = P::r();
    return from_words(c);
  }
  DP_HD static Fp from_words(const Words<LIMBS64>& c) {
    Fp r;
    for (int i = 0; i < N; ++i) r.v[i] = limb_of<LIMBS64>(c, i);
    return r;
  }
  DP_HD static Fp modulus() {
    constexpr Words<LIMBS64> c = P::words();
    return from_words(c);
  }
  DP_HD static Fp from_u64(u64 x) {
    Words<LIMBS64> c{};
    c.w[0] = x;
    return from_words(c).to_montgomery();
  }

  DP_HD bool is_zero() const {
    limb_t x = 0;
    for (int i = 0; i < N; ++i) x |= v[i];
    return x == 0;
  }
  DP_HD bool operator==(const Fp& o) const {
    limb_t x = 0;
    for (int i = 0; i < N; ++i) x |= v[i] ^ o.v[i];
    return x == 0;
  }
  DP_HD bool operator!=(const Fp& o) const { return !(*this == o); }

  // x < p, for values that come from outside
  DP_HD bool is_canonical() const {
    Fp p = modulus(), t;
    return sub_n<N>(t.v, v, p.v) != 0;
  }

  DP_HD Fp operator+(const Fp& o) const {
    Fp r;
    mod_add<P, N>(r.v, v, o.v);
    return r;
  }
  DP_HD Fp operator-(const Fp& o) const {
    Fp r;
    mod_sub<P, N>(r.v, v, o.v);
    return r;
  }
  DP_HD Fp neg() const { return zero() - *this; }
  DP_HD Fp dbl() const { return *this + *this; }
#if defined(DP_OUTLINE_PRODUCTS)
  DP_COLD static Fp product(Fp a, Fp b) {
    Fp r;
    mont_mul<P, N>(r.v, a.v, b.v);
    return r;
  }
  DP_COLD static Fp square(Fp a) {
    Fp r;
    mont_sqr<P, N>(r.v, a.v);
    return r;
  }
  DP_HD Fp operator*(const Fp& o) const { return product(*this, o); }
  DP_HD Fp sqr() const { return square(*this); }
#else
  DP_HD Fp operator*(const Fp& o) const {
    Fp r;
    mont_mul<P, N>(r.v, v, o.v);
    return r;
  }
  DP_HD Fp sqr() const {
    Fp r;
    mont_sqr<P, N>(r.v, v);
    return r;
  }
#endif

  DP_HD Fp to_montgomery() const {
    constexpr Words<LIMBS64> c = P::r2();
    return *this * from_words(c);
  }
  DP_HD Fp from_montgomery() const {
    Words<LIMBS64> c{};
    c.w[0] = 1;
    return *this * from_words(c);
  }

  // this^e, e given as little-endian 64-bit words
  template <int M>
  DP_HD Fp pow(const Words<M>& e) const {
    Fp r = one();
    bool any = false;
    for (int i = M * 64 - 1; i >= 0; --i) {
      if (any) r = r.sqr();
      if ((e.w[i >> 6] >> (i & 63)) & 1) {
        r = any ? r * *this : *this;
        any = true;
      }
    }
    return r;
  }
  // 0 maps to 0. Hot paths share one inversion between many elements instead.
  DP_HD Fp inverse() const {
    constexpr Words<LIMBS64> c = P::r2();  // R^2 / (x R) = x^-1 R
    Fp r;
    BinaryGcd<P>::run(r.v, v, from_words(c).v);
    return r;
  }
};

// a b - c d. On the device with one reduction, for elements of prime fields that leave two bits of their limbs free.
template <class F>
DP_HD F difference_of_products(const F& a, const F& b, const F& c, const F& d) {
  return a * b - c * d;
}

#if DP_DEVICE
template <class P>
#if defined(DP_OUTLINE_PRODUCTS)
DP_COLD Fp<P> difference_of_products(Fp<P> a, Fp<P> b, Fp<P> c, Fp<P> d) {
#else
DP_HD Fp<P> difference_of_products(const Fp<P>& a, const Fp<P>& b, const Fp<P>& c, const Fp<P>& d) {
#endif
  Fp<P> r, n = c.neg();
  mont_sum<P, Fp<P>::N, 2>(r.v, {a.v, n.v}, {b.v, d.v});
  return r;
}
#endif

}  // namespace dp
