// Poseidon2 over BN254 on AVX2 and FMA, eight messages at once. Built with -mavx2 -mfma -frounding-math.
#include "lanes_avx2.h"
#include "poseidon2_bn254_lanes.h"

namespace dp {
namespace {

class Avx2Arithmetic {
 public:
  using V = lanes::Avx2;
  using T = V::T;
  using One = lanes::Digits<T>;
  using Rounding = lanes::TowardsZero;
  static constexpr size_t VECTORS = 1;  // of two halves each

  explicit Avx2Arithmetic(const poseidon2_bn254::DigitConstants& c) : product_(field(c)) {}

  One product(const One& a, const One& b) const { return product_(a, b); }
  One square(const One& a) const { return product_(a, a); }
  static T quotient(const T& a, u64 c) { return V::srl<52>(times(a, c)); }
  static void add_multiple(One& a, const T& q, const u64* c) {
    for (int j = 0; j < poseidon2_bn254::DIGITS; ++j) a.d[j] = V::add(a.d[j], times(q, c[j]));
  }

 private:
  static lanes::Field field(const poseidon2_bn254::DigitConstants& c) {
    lanes::Field f{};
    for (int j = 0; j < poseidon2_bn254::DIGITS; ++j) f.modulus[j] = c.modulus[j];
    f.neg_inverse = c.neg_inverse;
    return f;
  }
  // A product below 2^64, of factors of which one is below 2^32.
  static T times(const T& a, u64 b) {
    const T low = V::splat(b), a_high = V::srl<32>(a), b_high = V::splat(b >> 32);
    return V::each([&](int k) {
      const __m256i mixed = _mm256_add_epi64(_mm256_mul_epu32(a_high.h[k], low.h[k]), _mm256_mul_epu32(a.h[k], b_high.h[k]));
      return _mm256_add_epi64(_mm256_mul_epu32(a.h[k], low.h[k]), _mm256_slli_epi64(mixed, 32));
    });
  }

  const V::Product product_;
};

}  // namespace

extern const HashOps POSEIDON2_BN254_AVX2 = Poseidon2Bn254Lanes<Avx2Arithmetic>::ops(&POSEIDON2_BN254);

}  // namespace dp
