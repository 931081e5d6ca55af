// Goldilocks and Keccak on four lanes, for CPUs with AVX2. Built with -mavx2.
#include <immintrin.h>

#include "field/goldilocks.h"
#include "goldilocks_table.h"

namespace dp {
namespace {

// The arithmetic of Avx512Vector. Comparisons are signed here: both sides have their top bit flipped, and what is flipped
// twice the compiler leaves alone.
struct Avx2Vector {
  using T = __m256i;
  static constexpr size_t LANES = 4;
  static T load(const u64* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static void store(u64* p, T x) { _mm256_storeu_si256((__m256i*)p, x); }
  static T broadcast(u64 x) { return _mm256_set1_epi64x((long long)x); }

  static T canonical(T x) { return _mm256_add_epi64(x, epsilon_where(less(broadcast(gl::P - 1), x))); }
  static T add(T a, T b) {
    const T s = _mm256_add_epi64(a, b);
    return _mm256_add_epi64(s, epsilon_where(less(s, b)));
  }
  static T sub(T a, T b) { return _mm256_sub_epi64(_mm256_sub_epi64(a, b), epsilon_where(less(a, b))); }
  static T mul(T a, T b) {
    const T a1 = high(a), b1 = high(b);
    const T ll = _mm256_mul_epu32(a, b), lh = _mm256_mul_epu32(a, b1), hl = _mm256_mul_epu32(a1, b);
    const T hh = _mm256_mul_epu32(a1, b1);
    const T m0 = _mm256_add_epi64(hl, _mm256_srli_epi64(ll, 32));
    const T m1 = _mm256_add_epi64(lh, _mm256_and_si256(m0, broadcast(gl::EPSILON)));
    const T hi = _mm256_add_epi64(_mm256_add_epi64(hh, _mm256_srli_epi64(m0, 32)), _mm256_srli_epi64(m1, 32));
    const T lo = _mm256_blend_epi32(ll, low_to_high(m1), 0xAA);
    const T h1 = _mm256_srli_epi64(hi, 32), d = _mm256_sub_epi64(lo, h1);
    const T t = _mm256_sub_epi64(d, epsilon_where(less(lo, h1)));
    const T h0 = _mm256_mul_epu32(hi, broadcast(gl::EPSILON)), r = _mm256_add_epi64(t, h0);
    return _mm256_add_epi64(r, epsilon_where(less(r, t)));
  }
  // Both 4 by 4 blocks.
  static void transpose(T (&x)[8]) {
    for (int i = 0; i < 8; i += 4) {
      const T a = _mm256_unpacklo_epi64(x[i], x[i + 1]), b = _mm256_unpackhi_epi64(x[i], x[i + 1]);
      const T c = _mm256_unpacklo_epi64(x[i + 2], x[i + 3]), d = _mm256_unpackhi_epi64(x[i + 2], x[i + 3]);
      x[i] = _mm256_permute2x128_si256(a, c, 0x20);
      x[i + 1] = _mm256_permute2x128_si256(b, d, 0x20);
      x[i + 2] = _mm256_permute2x128_si256(a, c, 0x31);
      x[i + 3] = _mm256_permute2x128_si256(b, d, 0x31);
    }
  }

 private:
  static T flip(T x) { return _mm256_xor_si256(x, broadcast(1ull << 63)); }
  static T less(T a, T b) { return _mm256_cmpgt_epi64(flip(b), flip(a)); }
  static T epsilon_where(T all) { return _mm256_srli_epi64(all, 32); }
  static T high(T x) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(x))); }
  static T low_to_high(T x) { return _mm256_castps_si256(_mm256_moveldup_ps(_mm256_castsi256_ps(x))); }
};

struct Avx2Lanes {
  using T = __m256i;
  static constexpr size_t LANES = 4;
  static T load(const u64* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static void store(u64* p, T x) { _mm256_storeu_si256((__m256i*)p, x); }
  static T broadcast(u64 x) { return _mm256_set1_epi64x((long long)x); }
  static T iota() { return _mm256_set_epi64x(3, 2, 1, 0); }
  static T add(T a, T b) { return _mm256_add_epi64(a, b); }
  static T bit_xor(T a, T b) { return _mm256_xor_si256(a, b); }
  static T xor3(T a, T b, T c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
  static T chi(T a, T b, T c) { return _mm256_xor_si256(a, _mm256_andnot_si256(b, c)); }
  template <int N>
  static T rotl(T a) {
    return _mm256_or_si256(_mm256_slli_epi64(a, N), _mm256_srli_epi64(a, 64 - N));
  }
};

}  // namespace

extern const GoldilocksOps GOLDILOCKS_AVX2 = make_goldilocks_ops<Avx2Vector, Avx2Lanes>("avx2");

}  // namespace dp
