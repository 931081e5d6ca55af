// Poseidon2 over BN254 on AVX-512 IFMA, sixteen messages at once. Built with -mavx512f -mavx512dq -mavx512ifma.
#include "lanes_ifma.h"
#include "poseidon2_bn254_lanes.h"

#define DP_DIGITS(j) _Pragma("GCC unroll 5") for (int j = 0; j < DIGITS; ++j)

namespace dp {
namespace {

class IfmaArithmetic {
 public:
  using V = lanes::Ifma;
  using T = V::T;
  using One = lanes::Digits<T>;
  struct Rounding {
    Rounding() {}
  };
  static constexpr size_t VECTORS = 2;

  explicit IfmaArithmetic(const poseidon2_bn254::DigitConstants& c) : neg_inverse_(V::splat(c.neg_inverse)) {
    DP_DIGITS(j) modulus_[j] = V::splat(c.modulus[j]);
  }

  One product(const One& a, const One& b) const {
    T t[2 * DIGITS];
    for (T& x : t) x = V::splat(0);
    DP_DIGITS(i) {
      DP_DIGITS(j) t[i + j] = low(t[i + j], a.d[i], b.d[j]);
      DP_DIGITS(j) t[i + j + 1] = high(t[i + j + 1], a.d[i], b.d[j]);
    }
    return reduced(t);
  }
  One square(const One& a) const {
    T t[2 * DIGITS];
    for (T& x : t) x = V::splat(0);
    DP_DIGITS(i) _Pragma("GCC unroll 5") for (int j = i + 1; j < DIGITS; ++j) {
      t[i + j] = low(t[i + j], a.d[i], a.d[j]);
      t[i + j + 1] = high(t[i + j + 1], a.d[i], a.d[j]);
    }
    for (T& x : t) x = V::add(x, x);
    DP_DIGITS(i) {
      t[2 * i] = low(t[2 * i], a.d[i], a.d[i]);
      t[2 * i + 1] = high(t[2 * i + 1], a.d[i], a.d[i]);
    }
    return reduced(t);
  }
  static T quotient(T a, u64 c) { return high(V::splat(0), a, V::splat(c)); }
  static void add_multiple(One& a, T q, const u64* c) {
    DP_DIGITS(j) a.d[j] = low(a.d[j], q, V::splat(c[j]));
    _Pragma("GCC unroll 4") for (int j = 0; j + 1 < DIGITS; ++j) a.d[j + 1] = high(a.d[j + 1], q, V::splat(c[j]));
  }

 private:
  static constexpr int DIGITS = poseidon2_bn254::DIGITS;

  static T low(T sum, T a, T b) { return _mm512_madd52lo_epu64(sum, a, b); }
  static T high(T sum, T a, T b) { return _mm512_madd52hi_epu64(sum, a, b); }

  // Columns of products, divided by 2^260.
  One reduced(T (&t)[2 * DIGITS]) const {
    DP_DIGITS(i) {
      const T m = low(V::splat(0), t[i], neg_inverse_);
      DP_DIGITS(j) t[i + j] = low(t[i + j], m, modulus_[j]);
      DP_DIGITS(j) t[i + j + 1] = high(t[i + j + 1], m, modulus_[j]);
      t[i + 1] = V::add(t[i + 1], V::srl<52>(t[i]));
    }
    One r;
    DP_DIGITS(j) r.d[j] = t[DIGITS + j];
    return r;
  }

  const T neg_inverse_;
  T modulus_[DIGITS];
};

}  // namespace

extern const HashOps POSEIDON2_BN254_IFMA = Poseidon2Bn254Lanes<IfmaArithmetic>::ops(&POSEIDON2_BN254);

}  // namespace dp
