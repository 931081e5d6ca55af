// Eight elements of BabyBear beside each other, in Montgomery form: AVX2 where the build has it, loops elsewhere.
#pragma once
#include <cstddef>

#include "field/babybear.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace dp {
namespace {

struct BabyBearLanes {
  static constexpr size_t LANES = 8;

#if defined(__AVX2__)
  struct V {
    __m256i v;
  };

  static V add(V a, V b) {
    const __m256i sum = _mm256_add_epi32(a.v, b.v);
    return {_mm256_min_epu32(sum, _mm256_sub_epi32(sum, splat(bb::P)))};
  }
  // The two halves of a 64-bit lane hold an element each. The low words of a product and of the multiple of p that is taken
  // off are equal, so the difference has the quotient by 2^32 in its high word, between -p and p.
  static V mul(V a, V b) {
    const __m256i even = off(_mm256_mul_epu32(a.v, b.v)), odd = off(_mm256_mul_epu32(high(a.v), high(b.v)));
    const __m256i found = _mm256_blend_epi32(high(even), odd, 0xAA);
    return {_mm256_min_epu32(found, _mm256_add_epi32(found, splat(bb::P)))};
  }
  static V constant(u32 x) { return {splat(x)}; }
  static V of(const u32* words) { return {_mm256_loadu_si256((const __m256i*)words)}; }
  static void to(V a, u32* words) { _mm256_storeu_si256((__m256i*)words, a.v); }

 private:
  static __m256i splat(u32 x) { return _mm256_set1_epi32((int)x); }
  static __m256i high(__m256i x) { return _mm256_srli_epi64(x, 32); }
  static __m256i off(__m256i product) {
    const __m256i factor = _mm256_mul_epu32(product, splat(bb::INVERSE));
    return _mm256_sub_epi64(product, _mm256_mul_epu32(factor, splat(bb::P)));
  }
#else
  struct V {
    u32 v[LANES];
  };

  static V add(const V& a, const V& b) {
    V c;
    for (size_t l = 0; l < LANES; ++l) c.v[l] = bb::add(a.v[l], b.v[l]);
    return c;
  }
  static V mul(const V& a, const V& b) {
    V c;
    for (size_t l = 0; l < LANES; ++l) c.v[l] = bb::mul(a.v[l], b.v[l]);
    return c;
  }
  static V constant(u32 x) {
    V c;
    for (size_t l = 0; l < LANES; ++l) c.v[l] = x;
    return c;
  }
  static V of(const u32* words) {
    V c;
    for (size_t l = 0; l < LANES; ++l) c.v[l] = words[l];
    return c;
  }
  static void to(const V& a, u32* words) {
    for (size_t l = 0; l < LANES; ++l) words[l] = a.v[l];
  }
#endif
};

}  // namespace
}  // namespace dp
