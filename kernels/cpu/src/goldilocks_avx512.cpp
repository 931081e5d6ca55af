// Goldilocks and Keccak on eight lanes, for CPUs with AVX-512 F. Built with -mavx512f.
#include <immintrin.h>

#include "field/goldilocks.h"
#include "goldilocks_table.h"

namespace dp {
namespace {

struct Avx512Vector {
  using T = __m512i;
  using Butterflies = PlainButterflies<Avx512Vector>;
  static constexpr size_t LANES = 8;
  static T load(const u64* p) { return _mm512_loadu_si512(p); }
  static void store(u64* p, T x) { _mm512_storeu_si512(p, x); }
  static T broadcast(u64 x) { return _mm512_set1_epi64((long long)x); }
  static T epsilon() { return broadcast(gl::EPSILON); }

  // x - p where x >= p
  static T canonical(T x) {
    const T p = broadcast(gl::P);
    return _mm512_mask_sub_epi64(x, _mm512_cmpge_epu64_mask(x, p), x, p);
  }
  // a + b - 2^64 < p where it wraps, as b < p: adding 2^64 = epsilon cannot wrap again.
  static T add(T a, T b) {
    const T s = _mm512_add_epi64(a, b);
    return _mm512_mask_add_epi64(s, _mm512_cmplt_epu64_mask(s, b), s, epsilon());
  }
  // a - b + 2^64 > epsilon where it wraps, as b < p.
  static T sub(T a, T b) {
    const T d = _mm512_sub_epi64(a, b);
    return _mm512_mask_sub_epi64(d, _mm512_cmplt_epu64_mask(a, b), d, epsilon());
  }
  // Four products of 32-bit halves to 128 bits, then gl::reduce128 but for its last step.
  static T mul(T a, T b) {
    const T a1 = high(a), b1 = high(b);
    const T ll = _mm512_mul_epu32(a, b), lh = _mm512_mul_epu32(a, b1), hl = _mm512_mul_epu32(a1, b);
    const T hh = _mm512_mul_epu32(a1, b1);
    const T m0 = _mm512_add_epi64(hl, _mm512_srli_epi64(ll, 32));
    const T m1 = _mm512_add_epi64(lh, _mm512_and_si512(m0, epsilon()));
    const T hi = _mm512_add_epi64(_mm512_add_epi64(hh, _mm512_srli_epi64(m0, 32)), _mm512_srli_epi64(m1, 32));
    const T lo = _mm512_mask_blend_epi32(0xAAAA, ll, low_to_high(m1));
    const T h1 = _mm512_srli_epi64(hi, 32), d = _mm512_sub_epi64(lo, h1);
    const T t = _mm512_mask_sub_epi64(d, _mm512_cmplt_epu64_mask(lo, h1), d, epsilon());
    const T h0 = _mm512_mul_epu32(hi, epsilon()), r = _mm512_add_epi64(t, h0);
    return _mm512_mask_add_epi64(r, _mm512_cmplt_epu64_mask(r, h0), r, epsilon());
  }
  static void transpose(T (&x)[8]) {
    T a[8], b[8];
    for (int i = 0; i < 8; i += 2) {  // pairs
      a[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
      a[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)  // quarters 0 2, then 1 3, of two vectors
      for (int k = 0; k < 2; ++k) {
        b[i + k] = _mm512_shuffle_i64x2(a[i + k], a[i + k + 2], 0x88);
        b[i + k + 2] = _mm512_shuffle_i64x2(a[i + k], a[i + k + 2], 0xDD);
      }
    for (int k = 0; k < 4; ++k) {
      x[k] = _mm512_shuffle_i64x2(b[k], b[k + 4], 0x88);
      x[k + 4] = _mm512_shuffle_i64x2(b[k], b[k + 4], 0xDD);
    }
  }

 private:
  // The shuffles take the port that the shifts and products leave free.
  static T high(T x) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(x))); }
  static T low_to_high(T x) { return _mm512_castps_si512(_mm512_moveldup_ps(_mm512_castsi512_ps(x))); }
};

struct Avx512Lanes {
  using T = __m512i;
  static constexpr size_t LANES = 8;
  static T load(const u64* p) { return _mm512_loadu_si512(p); }
  static void store(u64* p, T x) { _mm512_storeu_si512(p, x); }
  static T broadcast(u64 x) { return _mm512_set1_epi64((long long)x); }
  static T iota() { return _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0); }
  static T add(T a, T b) { return _mm512_add_epi64(a, b); }
  static T bit_xor(T a, T b) { return _mm512_xor_si512(a, b); }
  // The immediates are truth tables: bit 4a + 2b + c.
  static T xor3(T a, T b, T c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
  static T theta_sum(T, T b) { return b; }
  static T theta(T s, T a, T b) { return xor3(s, a, b); }
  static T chi(T a, T b, T c) { return _mm512_ternarylogic_epi64(a, b, c, 0xD2); }
  template <int N>
  static T rotl(T a) {
    return _mm512_rol_epi64(a, N);
  }
};

}  // namespace

extern const GoldilocksOps GOLDILOCKS_AVX512 = make_goldilocks_ops<Avx512Vector, Avx512Lanes>("avx512");

}  // namespace dp
