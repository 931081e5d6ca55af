// Four Goldilocks elements in an AVX2 register. Only for files compiled for such CPUs; all of it is in an unnamed
// namespace, so that no other file is ever linked with code from here. The arithmetic is that of goldilocks_avx512.h,
// which explains it; comparisons are signed here, so both sides have their top bit flipped first.
#pragma once
#include <immintrin.h>

#include "field/goldilocks.h"

namespace dp {
namespace gl {
namespace avx2 {
namespace {

struct V {
  __m256i v;
};

inline __m256i splat(u64 x) { return _mm256_set1_epi64x((long long)x); }
inline V load(const u64* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
inline void store(u64* p, V a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline V set1(u64 x) { return {splat(x)}; }
// a where v is zero, else b
inline V select_zero(V v, V a, V b) {
  return {_mm256_blendv_epi8(b.v, a.v, _mm256_cmpeq_epi64(v.v, _mm256_setzero_si256()))};
}

inline __m256i flip(__m256i a) { return _mm256_xor_si256(a, splat(1ull << 63)); }
// All ones where a < b
inline __m256i less(__m256i a, __m256i b) { return _mm256_cmpgt_epi64(flip(b), flip(a)); }
inline __m256i upper(__m256i a) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(a))); }

inline V add(V a, V b) {
  const __m256i t = _mm256_sub_epi64(splat(P), b.v);
  return {_mm256_add_epi64(_mm256_sub_epi64(a.v, t), _mm256_and_si256(less(a.v, t), splat(P)))};
}

inline V sub(V a, V b) {
  return {_mm256_add_epi64(_mm256_sub_epi64(a.v, b.v), _mm256_and_si256(less(a.v, b.v), splat(P)))};
}

// hi 2^64 + lo mod p, canonical, for any hi and lo. With lo's top bit flipped, the differences are flipped too, and are
// above what they are taken from exactly when they borrow.
inline V reduce128(__m256i hi, __m256i lo) {
  const __m256i epsilon = splat(EPSILON), p = splat(P), flipped = flip(lo);
  const __m256i d = _mm256_sub_epi64(flipped, _mm256_srli_epi64(hi, 32));
  const __m256i t = _mm256_sub_epi64(d, _mm256_and_si256(_mm256_cmpgt_epi64(d, flipped), epsilon));
  // t + h0, h0 = (hi mod 2^32) epsilon; less p where it is not below
  const __m256i r = _mm256_sub_epi64(t, _mm256_sub_epi64(p, _mm256_mul_epu32(hi, epsilon)));
  return {flip(_mm256_add_epi64(r, _mm256_and_si256(_mm256_cmpgt_epi64(r, t), p)))};
}

// What a factor of several products is prepared to.
struct Halves {
  __m256i low, high;  // low: with anything above bit 32
};
inline Halves halves(V a) { return {a.v, upper(a.v)}; }

// a b as hi 2^64 + lo
inline void product(const Halves& a, const Halves& b, __m256i& hi, __m256i& lo) {
  const __m256i ll = _mm256_mul_epu32(a.low, b.low), lh = _mm256_mul_epu32(a.low, b.high);
  const __m256i hl = _mm256_mul_epu32(a.high, b.low), hh = _mm256_mul_epu32(a.high, b.high);
  const __m256i m = _mm256_add_epi64(hl, _mm256_srli_epi64(ll, 32));
  const __m256i k = _mm256_add_epi64(lh, _mm256_and_si256(m, splat(EPSILON)));
  hi = _mm256_add_epi64(_mm256_add_epi64(hh, _mm256_srli_epi64(m, 32)), _mm256_srli_epi64(k, 32));
  lo = _mm256_blend_epi32(ll, _mm256_slli_epi64(k, 32), 0xAA);
}

inline V mul(V a, V b) {
  __m256i hi, lo;
  product(halves(a), halves(b), hi, lo);
  return reduce128(hi, lo);
}

// A sum of a few products. Each is reduced: carries cost more here than reductions save.
class Lazy {
 public:
  Lazy(const Halves& a, const Halves& b) : sum_(reduced(a, b)) {}
  void add(const Halves& a, const Halves& b) { sum_ = avx2::add(sum_, reduced(a, b)); }
  V reduce() const { return sum_; }

 private:
  static V reduced(const Halves& a, const Halves& b) {
    __m256i hi, lo;
    product(a, b, hi, lo);
    return reduce128(hi, lo);
  }

  V sum_;
};

// The other factor of a long sum's products: 22, 22 and 20 bits. Products with a half are below 2^54, so that 1024 of them
// can be added in 64 bits.
struct Pieces {
  __m256i part[3];
};
inline Pieces pieces(V a) {
  const __m256i mask = splat((1 << 22) - 1);
  return {{_mm256_and_si256(a.v, mask), _mm256_and_si256(_mm256_srli_epi64(a.v, 22), mask), _mm256_srli_epi64(a.v, 44)}};
}

// A sum of up to 1024 products: six multiplications and additions each.
class Dot {
 public:
  void add(const Halves& a, const Pieces& b) {
    for (int i = 0; i < 3; ++i) {
      low_[i] = _mm256_add_epi64(low_[i], _mm256_mul_epu32(a.low, b.part[i]));
      high_[i] = _mm256_add_epi64(high_[i], _mm256_mul_epu32(a.high, b.part[i]));
    }
  }

  // L + 2^32 H, where H = hh 2^64 + hl: 2^96 = -1.
  V reduce() const {
    __m256i lh, ll, hh, hl;
    join(low_, lh, ll);
    join(high_, hh, hl);
    const __m256i shifted = _mm256_slli_epi64(hl, 32);
    const __m256i lo = _mm256_add_epi64(ll, shifted);
    const __m256i hi = _mm256_add_epi64(lh, _mm256_srli_epi64(hl, 32));
    return sub(reduce128(carry(hi, lo, shifted), lo), V{hh});  // hh < 2^44
  }

 private:
  // hi + 1 where lo, a sum with `term`, wrapped
  static __m256i carry(__m256i hi, __m256i lo, __m256i term) { return _mm256_sub_epi64(hi, less(lo, term)); }

  // parts[0] + 2^22 parts[1] + 2^44 parts[2]
  static void join(const __m256i* parts, __m256i& hi, __m256i& lo) {
    const __m256i a = _mm256_slli_epi64(parts[1], 22), b = _mm256_slli_epi64(parts[2], 44);
    const __m256i sum = _mm256_add_epi64(parts[0], a);
    lo = _mm256_add_epi64(sum, b);
    hi = _mm256_add_epi64(_mm256_srli_epi64(parts[1], 42), _mm256_srli_epi64(parts[2], 20));
    hi = carry(carry(hi, sum, a), lo, b);
  }

  __m256i low_[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  __m256i high_[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
};

}  // namespace
}  // namespace avx2
}  // namespace gl
}  // namespace dp
