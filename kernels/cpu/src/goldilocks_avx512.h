// Eight Goldilocks elements in an AVX-512 register: F and DQ are needed. Only for files compiled for such CPUs; all of
// it is in an unnamed namespace, so that no other file is ever linked with code from here.
//
// AVX-512 has no 64 by 64 bit product and no carries: products come from four 32 by 32 bit ones, carries from comparisons.
#pragma once
#include <immintrin.h>

#include "field/goldilocks.h"

namespace dp {
namespace gl {
namespace avx512 {
namespace {

struct V {
  __m512i v;
};

inline __m512i splat(u64 x) { return _mm512_set1_epi64((long long)x); }
inline V load(const u64* p) { return {_mm512_loadu_si512(p)}; }
inline void store(u64* p, V a) { _mm512_storeu_si512(p, a.v); }
inline V set1(u64 x) { return {splat(x)}; }
// a where v is zero, else b
inline V select_zero(V v, V a, V b) { return {_mm512_mask_blend_epi64(_mm512_testn_epi64_mask(v.v, v.v), b.v, a.v)}; }

// The upper halves, where vpmuludq reads. A shuffle: the shifts' port is the multipliers'.
inline __m512i upper(__m512i a) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(a))); }

inline V add(V a, V b) {
  const __m512i t = _mm512_sub_epi64(splat(P), b.v);
  const __m512i d = _mm512_sub_epi64(a.v, t);
  return {_mm512_mask_add_epi64(d, _mm512_cmplt_epu64_mask(a.v, t), d, splat(P))};
}

inline V sub(V a, V b) {
  const __m512i d = _mm512_sub_epi64(a.v, b.v);
  return {_mm512_mask_add_epi64(d, _mm512_cmplt_epu64_mask(a.v, b.v), d, splat(P))};
}

// hi 2^64 + lo mod p, canonical, for any hi and lo
inline V reduce128(__m512i hi, __m512i lo) {
  const __m512i epsilon = splat(EPSILON);
  const __m512i h1 = _mm512_srli_epi64(hi, 32);
  __m512i t = _mm512_sub_epi64(lo, h1);
  t = _mm512_mask_sub_epi64(t, _mm512_cmplt_epu64_mask(lo, h1), t, epsilon);
  // t + h0, h0 = (hi mod 2^32) epsilon; less p where it is not below
  const __m512i r = _mm512_sub_epi64(t, _mm512_sub_epi64(splat(P), _mm512_mul_epu32(hi, epsilon)));
  return {_mm512_mask_add_epi64(r, _mm512_cmpgt_epu64_mask(r, t), r, splat(P))};
}

// What a factor of several products is prepared to.
struct Halves {
  __m512i low, high;  // low: with anything above bit 32
};
inline Halves halves(V a) { return {a.v, upper(a.v)}; }

// a b as hi 2^64 + lo
inline void product(const Halves& a, const Halves& b, __m512i& hi, __m512i& lo) {
  const __m512i ll = _mm512_mul_epu32(a.low, b.low), lh = _mm512_mul_epu32(a.low, b.high);
  const __m512i hl = _mm512_mul_epu32(a.high, b.low), hh = _mm512_mul_epu32(a.high, b.high);
  const __m512i m = _mm512_add_epi64(hl, _mm512_srli_epi64(ll, 32));
  const __m512i k = _mm512_add_epi64(lh, _mm512_and_si512(m, splat(EPSILON)));
  hi = _mm512_add_epi64(_mm512_add_epi64(hh, _mm512_srli_epi64(m, 32)), _mm512_srli_epi64(k, 32));
  lo = _mm512_castps_si512(_mm512_mask_moveldup_ps(_mm512_castsi512_ps(ll), 0xAAAA, _mm512_castsi512_ps(k)));
}

inline V mul(V a, V b) {
  __m512i hi, lo;
  product(halves(a), halves(b), hi, lo);
  return reduce128(hi, lo);
}

// A sum of a few products, reduced once.
class Lazy {
 public:
  Lazy(const Halves& a, const Halves& b) { product(a, b, hi_, lo_); }
  void add(const Halves& a, const Halves& b) {
    __m512i hi, lo;
    product(a, b, hi, lo);
    lo_ = _mm512_add_epi64(lo_, lo);
    hi = _mm512_mask_add_epi64(hi, _mm512_cmplt_epu64_mask(lo_, lo), hi, splat(1));
    hi_ = _mm512_add_epi64(hi_, hi);
    // 2^128 = epsilon 2^64. hi was at most 2^64 - 2^33 + 2, so this cannot carry again.
    hi_ = _mm512_mask_add_epi64(hi_, _mm512_cmplt_epu64_mask(hi_, hi), hi_, splat(EPSILON));
  }
  V reduce() const { return reduce128(hi_, lo_); }

 private:
  __m512i hi_, lo_;
};

// The other factor of a long sum's products: 22, 22 and 20 bits. Products with a half are below 2^54, so that 1024 of them
// can be added in 64 bits.
struct Pieces {
  __m512i part[3];
};
inline Pieces pieces(V a) {
  const __m512i mask = splat((1 << 22) - 1);
  return {{_mm512_and_si512(a.v, mask), _mm512_and_si512(_mm512_srli_epi64(a.v, 22), mask), _mm512_srli_epi64(a.v, 44)}};
}

// A sum of up to 1024 products: six multiplications and additions each.
class Dot {
 public:
  void add(const Halves& a, const Pieces& b) {
    for (int i = 0; i < 3; ++i) {
      low_[i] = _mm512_add_epi64(low_[i], _mm512_mul_epu32(a.low, b.part[i]));
      high_[i] = _mm512_add_epi64(high_[i], _mm512_mul_epu32(a.high, b.part[i]));
    }
  }

  // L + 2^32 H, where H = hh 2^64 + hl: 2^96 = -1.
  V reduce() const {
    __m512i lh, ll, hh, hl;
    join(low_, lh, ll);
    join(high_, hh, hl);
    const __m512i shifted = _mm512_slli_epi64(hl, 32);
    const __m512i lo = _mm512_add_epi64(ll, shifted);
    __m512i hi = _mm512_add_epi64(lh, _mm512_srli_epi64(hl, 32));
    hi = _mm512_mask_add_epi64(hi, _mm512_cmplt_epu64_mask(lo, shifted), hi, splat(1));
    return sub(reduce128(hi, lo), V{hh});  // hh < 2^44
  }

 private:
  // parts[0] + 2^22 parts[1] + 2^44 parts[2]
  static void join(const __m512i* parts, __m512i& hi, __m512i& lo) {
    const __m512i one = splat(1), a = _mm512_slli_epi64(parts[1], 22), b = _mm512_slli_epi64(parts[2], 44);
    lo = _mm512_add_epi64(parts[0], a);
    hi = _mm512_add_epi64(_mm512_srli_epi64(parts[1], 42), _mm512_srli_epi64(parts[2], 20));
    hi = _mm512_mask_add_epi64(hi, _mm512_cmplt_epu64_mask(lo, a), hi, one);
    lo = _mm512_add_epi64(lo, b);
    hi = _mm512_mask_add_epi64(hi, _mm512_cmplt_epu64_mask(lo, b), hi, one);
  }

  __m512i low_[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i high_[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
};

}  // namespace
}  // namespace avx512
}  // namespace gl
}  // namespace dp
