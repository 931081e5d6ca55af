// Poseidon2 over BabyBear for one state, as sponges of transcripts need it. Bound: latency of products one after the other.
//
// With AVX2 a state is two vectors. In a partial round the first element is a number of its own, as only its power waits for
// the round before: the products and the sum of the others are done beside it.
#pragma once
#include "babybear_lanes.h"
#include "hash/poseidon2_babybear_word.h"

namespace dp {
namespace {

#if defined(__AVX2__)

struct OneState : BabyBearVector {
  using V = R;

  // `mul` of signed words of (-p, p), as in hash/poseidon2_babybear_word.h: the result is one, too, not yet an element.
  static V signed_off(V product) {
    const V factor = _mm256_mul_epi32(product, splat(bb::INVERSE));
    return _mm256_sub_epi64(product, _mm256_mul_epi32(factor, splat(bb::P)));
  }
  static V signed_mul(V a, V b) {
    const V even = signed_off(_mm256_mul_epi32(a, b)), odd = signed_off(_mm256_mul_epi32(high(a), high(b)));
    return _mm256_blend_epi32(high(even), odd, 0xAA);
  }
  static V power(V x, V constant) {
    x = _mm256_add_epi32(x, _mm256_sub_epi32(constant, splat(bb::P)));
    const V square = signed_mul(x, x);
    return canonical(signed_mul(signed_mul(square, x), signed_mul(square, square)));
  }
  static V turned(V x) { return _mm256_shuffle_epi32(x, _MM_SHUFFLE(0, 3, 2, 1)); }
  static V halves(V x) { return _mm256_shuffle_epi32(x, _MM_SHUFFLE(1, 0, 3, 2)); }
  static V swapped(V x) { return _mm256_permute2x128_si256(x, x, 1); }

  // circ(2, 3, 1, 1) on each four elements: the sum of all, this one and twice the next one.
  static V fours(V x) {
    const V next = turned(x), pair = add(x, next);
    return add(add(add(pair, halves(pair)), pair), next);
  }
  static void external(V& a, V& b) {
    a = fours(a), b = fours(b);
    V columns = add(a, b);
    columns = add(columns, swapped(columns));
    a = add(a, columns), b = add(b, columns);
  }
  // The sum of 16 elements.
  static u32 sum(V a, V b) {
    V all = add(a, b);
    all = add(all, swapped(all));
    all = add(all, halves(all));
    all = add(all, turned(all));
    return (u32)_mm256_cvtsi256_si32(all);
  }
  static void full(V& a, V& b, const u32* constants) {
    for (int r = 0; r < poseidon2_babybear::HALF_FULL; ++r, constants += poseidon2_babybear::WIDTH) {
      a = power(a, load(constants)), b = power(b, load(constants + 8));
      external(a, b);
    }
  }
};

inline void permute_one(const poseidon2_babybear::Constants& with, u32* state) {
  using namespace poseidon2_babybear;
  using S = OneState;
  __m256i a = S::load(state), b = S::load(state + 8);
  S::external(a, b);
  S::full(a, b, with.round);
  const u32* constants = with.round + HALF_FULL * WIDTH;
  const __m256i zero = _mm256_setzero_si256();
  const __m256i by_a = _mm256_blend_epi32(S::load(with.diagonal), zero, 1), by_b = S::load(with.diagonal + 8);
  u32 first = (u32)_mm256_cvtsi256_si32(a);
  u32 others = S::sum(_mm256_blend_epi32(a, zero, 1), b);
  for (int r = 0; r < PARTIAL; ++r) {
    a = S::mul(a, by_a), b = S::mul(b, by_b);  // a's first element is 0
    const u32 products = S::sum(a, b);
    first = WordSteps::power(first, *constants++);
    const u32 others_before = others, total = bb::add(first, others), twice = bb::add(total, total);
    const u32 four = bb::add(twice, twice), eight = bb::add(four, four);
    others = bb::add(bb::sub(bb::add(eight, eight), total), products);  // 15 times the total
    first = bb::sub(others_before, first);  // the first factor is -2
    a = S::add(a, S::splat(total)), b = S::add(b, S::splat(total));
  }
  a = _mm256_blend_epi32(a, S::splat(first), 1);
  S::full(a, b, constants);
  S::store(a, state), S::store(b, state + 8);
}

#else

inline void permute_one(const poseidon2_babybear::Constants& with, u32* state) {
  poseidon2_babybear::WordPermutation::permute(state, with);
}

#endif

}  // namespace
}  // namespace dp
