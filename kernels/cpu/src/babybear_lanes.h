// Eight elements of BabyBear beside each other, in Montgomery form: AVX2 where the build has it, loops elsewhere.
#pragma once
#include <cstddef>

#include "field/babybear.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace dp {
namespace {

#if defined(__AVX2__)

// The arithmetic of eight elements in a vector.
struct BabyBearVector {
  using R = __m256i;

  static R add(R a, R b) {
    const R sum = _mm256_add_epi32(a, b);
    return _mm256_min_epu32(sum, _mm256_sub_epi32(sum, splat(bb::P)));
  }
  // The two halves of a 64-bit lane hold an element each. The low words of a product and of the multiple of p that is taken
  // off are equal, so the difference has the quotient by 2^32 in its high word, between -p and p.
  static R mul(R a, R b) {
    const R even = off(_mm256_mul_epu32(a, b)), odd = off(_mm256_mul_epu32(high(a), high(b)));
    return canonical(_mm256_blend_epi32(high(even), odd, 0xAA));
  }
  // Words of (-p, p) as elements.
  static R canonical(R x) { return _mm256_min_epu32(x, _mm256_add_epi32(x, splat(bb::P))); }
  static R splat(u32 x) { return _mm256_set1_epi32((int)x); }
  static R load(const u32* words) { return _mm256_loadu_si256((const R*)words); }
  static void store(R a, u32* words) { _mm256_storeu_si256((R*)words, a); }
  static R high(R x) { return _mm256_srli_epi64(x, 32); }

 private:
  static R off(R product) {
    const R factor = _mm256_mul_epu32(product, splat(bb::INVERSE));
    return _mm256_sub_epi64(product, _mm256_mul_epu32(factor, splat(bb::P)));
  }
};

#endif

struct BabyBearLanes {
  static constexpr size_t LANES = 8;

#if defined(__AVX2__)
  struct V {
    __m256i v;
  };

  static V add(V a, V b) { return {BabyBearVector::add(a.v, b.v)}; }
  static V mul(V a, V b) { return {BabyBearVector::mul(a.v, b.v)}; }
  static V constant(u32 x) { return {BabyBearVector::splat(x)}; }
  static V of(const u32* words) { return {BabyBearVector::load(words)}; }
  static void to(V a, u32* words) { BabyBearVector::store(a.v, words); }
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
