// Eight Goldilocks elements in an AVX-512 register: F and DQ are needed. Only for files compiled for such CPUs; all of
// it is in an unnamed namespace, so that no other file is ever linked with code from here.
//
// AVX-512 has no 64 by 64 bit product and no carries: products come from four 32 by 32 bit ones, carries from comparisons.
#pragma once
#include <immintrin.h>

#include "field/goldilocks.h"
#include "transpose_avx512.h"

namespace dp {
namespace gl {
namespace avx512 {
namespace {

using R = __m512i;
struct V {
  R v;
};

inline R splat(u64 x) { return _mm512_set1_epi64((long long)x); }
inline V load(const u64* p) { return {_mm512_loadu_si512(p)}; }
inline void store(u64* p, V a) { _mm512_storeu_si512(p, a.v); }
inline V set1(u64 x) { return {splat(x)}; }
// a where v is zero, else b
inline V select_zero(V v, V a, V b) { return {_mm512_mask_blend_epi64(_mm512_testn_epi64_mask(v.v, v.v), b.v, a.v)}; }

// The upper halves, where vpmuludq reads. A shuffle: the shifts' port is the multipliers'.
inline R upper(R a) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(a))); }

inline R zero() { return _mm512_setzero_si512(); }
inline R minus(R a, R b) { return _mm512_sub_epi64(a, b); }
inline R plus(R a, R b) { return _mm512_add_epi64(a, b); }
inline R times(R a, R b) { return _mm512_mul_epu32(a, b); }
inline R both(R a, R b) { return _mm512_and_si512(a, b); }
template <int N>
R left(R a) { return _mm512_slli_epi64(a, N); }
template <int N>
R right(R a) { return _mm512_srli_epi64(a, N); }
// The lower halves of `low`, and those of `high` above them
inline R joined(R low, R high) {
  return _mm512_castps_si512(_mm512_mask_moveldup_ps(_mm512_castsi512_ps(low), 0xAAAA, _mm512_castsi512_ps(high)));
}
// hi + 1 where lo, a sum with `term`, wrapped
inline R carried(R hi, R lo, R term) { return _mm512_mask_add_epi64(hi, _mm512_cmplt_epu64_mask(lo, term), hi, splat(1)); }

inline V add(V a, V b) {
  const R t = _mm512_sub_epi64(splat(P), b.v);
  const R d = _mm512_sub_epi64(a.v, t);
  return {_mm512_mask_add_epi64(d, _mm512_cmplt_epu64_mask(a.v, t), d, splat(P))};
}

inline V sub(V a, V b) {
  const R d = _mm512_sub_epi64(a.v, b.v);
  return {_mm512_mask_add_epi64(d, _mm512_cmplt_epu64_mask(a.v, b.v), d, splat(P))};
}

// hi 2^64 + lo mod p, canonical, for any hi and lo
inline V reduce128(R hi, R lo) {
  const R epsilon = splat(EPSILON);
  const R h1 = _mm512_srli_epi64(hi, 32);
  R t = _mm512_sub_epi64(lo, h1);
  t = _mm512_mask_sub_epi64(t, _mm512_cmplt_epu64_mask(lo, h1), t, epsilon);
  // t + h0, h0 = (hi mod 2^32) epsilon; less p where it is not below
  const R r = _mm512_sub_epi64(t, _mm512_sub_epi64(splat(P), _mm512_mul_epu32(hi, epsilon)));
  return {_mm512_mask_add_epi64(r, _mm512_cmpgt_epu64_mask(r, t), r, splat(P))};
}

#include "goldilocks_sums.h"

// A sum of a few products, reduced once.
class Lazy {
 public:
  Lazy(const Halves& a, const Halves& b) { product(a, b, hi_, lo_); }
  void add(const Halves& a, const Halves& b) {
    R hi, lo;
    product(a, b, hi, lo);
    lo_ = plus(lo_, lo);
    hi = carried(hi, lo_, lo);
    hi_ = _mm512_add_epi64(hi_, hi);
    // 2^128 = epsilon 2^64. hi was at most 2^64 - 2^33 + 2, so this cannot carry again.
    hi_ = _mm512_mask_add_epi64(hi_, _mm512_cmplt_epu64_mask(hi_, hi), hi_, splat(EPSILON));
  }
  V reduce() const { return reduce128(hi_, lo_); }

 private:
  R hi_, lo_;
};

// Of 16 words the even ones and the odd ones.
inline void zipped(const u64* p, V& even, V& odd) {
  const R a = load(p).v, b = load(p + 8).v, at = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
  even.v = _mm512_permutex2var_epi64(a, at, b);
  odd.v = _mm512_permutex2var_epi64(a, plus(at, splat(1)), b);
}

// Of 24 words those at 3 i, 3 i + 1, 3 i + 2.
inline void threes(const u64* p, V& a, V& b, V& c) {
  const R x = load(p).v, y = load(p + 8).v, z = load(p + 16).v;
  const auto chosen = [&](R of_both, R of_all) {
    return _mm512_permutex2var_epi64(_mm512_permutex2var_epi64(x, of_both, y), of_all, z);
  };
  a.v = chosen(_mm512_setr_epi64(0, 3, 6, 9, 12, 15, 0, 0), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 10, 13));
  b.v = chosen(_mm512_setr_epi64(1, 4, 7, 10, 13, 0, 0, 0), _mm512_setr_epi64(0, 1, 2, 3, 4, 8, 11, 14));
  c.v = chosen(_mm512_setr_epi64(2, 5, 8, 11, 14, 0, 0, 0), _mm512_setr_epi64(0, 1, 2, 3, 4, 9, 12, 15));
}

// out[i] holds word i of 8 runs, `stride` apart.
inline void transposed(const u64* p, size_t stride, V (&out)[8]) {
  R x[8];
  for (size_t i = 0; i < 8; ++i) x[i] = load(p + i * stride).v;
  transpose_words(x);
  for (size_t i = 0; i < 8; ++i) out[i].v = x[i];
}

}  // namespace
}  // namespace avx512
}  // namespace gl
}  // namespace dp
