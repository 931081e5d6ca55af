// Eight lanes on AVX-512 IFMA, as lanes_vectors.h asks for them. For files built with -mavx512f -mavx512dq -mavx512ifma.
#pragma once
#include <immintrin.h>

#include "lanes_vectors.h"
#include "transpose_avx512.h"

namespace dp {
namespace lanes {
namespace {

struct Ifma {
  using T = __m512i;
  using Mask = __mmask8;

  static T splat(u64 x) { return _mm512_set1_epi64((long long)x); }
  static T add(T a, T b) { return _mm512_add_epi64(a, b); }
  static T sub(T a, T b) { return _mm512_sub_epi64(a, b); }
  static T bit_and(T a, T b) { return _mm512_and_si512(a, b); }
  static T bit_or(T a, T b) { return _mm512_or_si512(a, b); }
  static T bit_xor(T a, T b) { return _mm512_xor_si512(a, b); }
  template <int N> static T srl(T a) { return _mm512_srli_epi64(a, N); }
  template <int N> static T sll(T a) { return _mm512_slli_epi64(a, N); }
  template <int N> static T sra(T a) { return _mm512_srai_epi64(a, N); }
  static Mask negative(T a) { return _mm512_movepi64_mask(a); }
  static Mask zero(T a) { return _mm512_testn_epi64_mask(a, a); }
  static Mask either(Mask a, Mask b) { return a | b; }
  static T select(Mask m, T a, T b) { return _mm512_mask_blend_epi64(m, b, a); }
  static unsigned bits(Mask m) { return m; }
  static T load(const u64* p) { return _mm512_loadu_si512(p); }
  static void store(u64* p, T a) { _mm512_storeu_si512(p, a); }
  template <class P>
  static void load_points(P* const (&from)[8], size_t distance, T (&x)[8]) {
    for (int l = 0; l < 8; ++l) {
      const __m512i low = _mm512_castsi256_si512(half(from[l]));
      x[l] = _mm512_inserti64x4(low, half(from[l] + distance), 1);
    }
    transpose_words(x);
  }
  static void store_points(T (&x)[8], u64* const (&to)[8], size_t distance) {
    transpose_words(x);
    for (int l = 0; l < 8; ++l) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[l]), _mm512_castsi512_si256(x[l]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[l] + distance), _mm512_extracti64x4_epi64(x[l], 1));
    }
  }
  static __m256i half(const u64* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

  struct Product {
    T modulus[5], neg_inverse;
    explicit Product(const Field& f) : neg_inverse(splat(f.neg_inverse)) {
      for (int j = 0; j < 5; ++j) modulus[j] = splat(f.modulus[j]);
    }
    Digits<T> operator()(const Digits<T>& a, const Digits<T>& b) const {
      T t[6] = {splat(0), splat(0), splat(0), splat(0), splat(0), splat(0)};
      for (int i = 0; i < 5; ++i) {
        for (int j = 0; j < 5; ++j) t[j] = _mm512_madd52lo_epu64(t[j], a.d[j], b.d[i]);
        const T m = _mm512_madd52lo_epu64(splat(0), t[0], neg_inverse);
        for (int j = 0; j < 5; ++j) t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], a.d[j], b.d[i]);
        for (int j = 0; j < 5; ++j) t[j] = _mm512_madd52lo_epu64(t[j], m, modulus[j]);
        for (int j = 0; j < 5; ++j) t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], m, modulus[j]);
        t[1] = add(t[1], srl<52>(t[0]));
        for (int j = 0; j < 5; ++j) t[j] = t[j + 1];
        t[5] = splat(0);
      }
      Digits<T> r;
      for (int j = 0; j < 5; ++j) {
        r.d[j] = j < 4 ? bit_and(t[j], splat(DIGIT)) : t[j];
        if (j < 4) t[j + 1] = add(t[j + 1], srl<52>(t[j]));
      }
      return r;
    }
  };
};

}  // namespace
}  // namespace lanes
}  // namespace dp
