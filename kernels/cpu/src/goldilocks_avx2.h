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

using R = __m256i;
struct V {
  R v;
};

inline R splat(u64 x) { return _mm256_set1_epi64x((long long)x); }
inline V load(const u64* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
inline void store(u64* p, V a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
inline V set1(u64 x) { return {splat(x)}; }
// a where v is zero, else b
inline V select_zero(V v, V a, V b) {
  return {_mm256_blendv_epi8(b.v, a.v, _mm256_cmpeq_epi64(v.v, _mm256_setzero_si256()))};
}

inline R flip(R a) { return _mm256_xor_si256(a, splat(1ull << 63)); }
// All ones where a < b
inline R less(R a, R b) { return _mm256_cmpgt_epi64(flip(b), flip(a)); }
inline R upper(R a) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(a))); }

inline R zero() { return _mm256_setzero_si256(); }
inline R minus(R a, R b) { return _mm256_sub_epi64(a, b); }
inline R plus(R a, R b) { return _mm256_add_epi64(a, b); }
inline R times(R a, R b) { return _mm256_mul_epu32(a, b); }
inline R both(R a, R b) { return _mm256_and_si256(a, b); }
template <int N>
R left(R a) { return _mm256_slli_epi64(a, N); }
template <int N>
R right(R a) { return _mm256_srli_epi64(a, N); }
// The lower halves of `low`, and those of `high` above them
inline R joined(R low, R high) { return _mm256_blend_epi32(low, left<32>(high), 0xAA); }
// hi + 1 where lo, a sum with `term`, wrapped
inline R carried(R hi, R lo, R term) { return _mm256_sub_epi64(hi, less(lo, term)); }

inline V add(V a, V b) {
  const R t = _mm256_sub_epi64(splat(P), b.v);
  return {_mm256_add_epi64(_mm256_sub_epi64(a.v, t), _mm256_and_si256(less(a.v, t), splat(P)))};
}

inline V sub(V a, V b) {
  return {_mm256_add_epi64(_mm256_sub_epi64(a.v, b.v), _mm256_and_si256(less(a.v, b.v), splat(P)))};
}

// hi 2^64 + lo mod p, canonical, for any hi and lo. With lo's top bit flipped, the differences are flipped too, and are
// above what they are taken from exactly when they borrow.
inline V reduce128(R hi, R lo) {
  const R epsilon = splat(EPSILON), p = splat(P), flipped = flip(lo);
  const R d = _mm256_sub_epi64(flipped, _mm256_srli_epi64(hi, 32));
  const R t = _mm256_sub_epi64(d, _mm256_and_si256(_mm256_cmpgt_epi64(d, flipped), epsilon));
  // t + h0, h0 = (hi mod 2^32) epsilon; less p where it is not below
  const R r = _mm256_sub_epi64(t, _mm256_sub_epi64(p, _mm256_mul_epu32(hi, epsilon)));
  return {flip(_mm256_add_epi64(r, _mm256_and_si256(_mm256_cmpgt_epi64(r, t), p)))};
}

#include "goldilocks_sums.h"

// A sum of a few products. Each is reduced: carries cost more here than reductions save.
class Lazy {
 public:
  Lazy(const Halves& a, const Halves& b) : sum_(reduced(a, b)) {}
  void add(const Halves& a, const Halves& b) { sum_ = avx2::add(sum_, reduced(a, b)); }
  V reduce() const { return sum_; }

 private:
  static V reduced(const Halves& a, const Halves& b) {
    R hi, lo;
    product(a, b, hi, lo);
    return reduce128(hi, lo);
  }

  V sum_;
};

// Of 8 words the even ones and the odd ones.
inline void zipped(const u64* p, V& even, V& odd) {
  const R a = load(p).v, b = load(p + 4).v;
  even.v = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b), 0xD8);
  odd.v = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(a, b), 0xD8);
}

// Of 12 words those at 3 i, 3 i + 1, 3 i + 2.
inline void threes(const u64* p, V& a, V& b, V& c) {
  const R x = load(p).v, y = load(p + 4).v, z = load(p + 8).v;
  // 0 3 6 9 of x 0 1 2 3, y 4 5 6 7, z 8 9 10 11, and so on
  const R xy = _mm256_permute2x128_si256(x, y, 0x30);  // 0 1 6 7
  const R xz = _mm256_permute2x128_si256(x, z, 0x21);  // 2 3 8 9
  const R yz = _mm256_permute2x128_si256(y, z, 0x30);  // 4 5 10 11
  a.v = _mm256_blend_epi32(xy, xz, 0xCC);              // 0 3 6 9
  b.v = _mm256_castpd_si256(_mm256_shuffle_pd(_mm256_castsi256_pd(xy), _mm256_castsi256_pd(yz), 0b0101));  // 1 4 7 10
  c.v = _mm256_blend_epi32(xz, yz, 0xCC);              // 2 5 8 11
}

// out[i] holds word i of 4 runs, `stride` apart.
inline void transposed(const u64* p, size_t stride, V (&out)[4]) {
  const R a = load(p).v, b = load(p + stride).v, c = load(p + 2 * stride).v, d = load(p + 3 * stride).v;
  const R ab = _mm256_unpacklo_epi64(a, b), ba = _mm256_unpackhi_epi64(a, b);
  const R cd = _mm256_unpacklo_epi64(c, d), dc = _mm256_unpackhi_epi64(c, d);
  out[0].v = _mm256_permute2x128_si256(ab, cd, 0x20);
  out[1].v = _mm256_permute2x128_si256(ba, dc, 0x20);
  out[2].v = _mm256_permute2x128_si256(ab, cd, 0x31);
  out[3].v = _mm256_permute2x128_si256(ba, dc, 0x31);
}

}  // namespace
}  // namespace avx2
}  // namespace gl
}  // namespace dp
