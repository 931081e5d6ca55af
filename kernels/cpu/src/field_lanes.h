// Additions of neighbours in an array of affine points, and butterflies, on eight lanes where the CPU and the field allow it
// (lanes.h).
#pragma once
#include <algorithm>
#include <vector>

#include "batch_add.h"
#include "cpu_features.h"
#include "field/fp.h"
#include "lanes.h"

namespace dp {

template <class F>
class FieldLanes {
 public:
  static bool usable() { return false; }
  static bool usable_for_butterflies() { return false; }
  static void add(Affine<F>*, const std::vector<lanes::Pair>&, std::vector<u64>&) {}
  static void butterflies(bool, F*, int, const void*, size_t, size_t) {}
};

#if DP_X86_VECTORS
template <class P>
class FieldLanes<Fp<P>> {
  using F = Fp<P>;
  static constexpr bool FITS = P::LIMBS64 == 4 && P::BITS <= 254;

 public:
  static bool usable() { return batch() != nullptr; }
  static bool usable_for_butterflies() { return usable() && batch()->butterflies != nullptr; }

  // slots[out] = slots[left] + slots[left + 1] for all pairs, of which there is at least one. `scratch` grows as needed.
  static void add(Affine<F>* slots, const std::vector<lanes::Pair>& pairs, std::vector<u64>& scratch) {
    if constexpr (FITS) {
      constexpr size_t LANES = lanes::LANES;
      const size_t vectors = (pairs.size() + LANES - 1) / LANES;
      if (scratch.size() < vectors * lanes::SUFFIX_WORDS) scratch.resize(vectors * lanes::SUFFIX_WORDS);
      u64* const words = reinterpret_cast<u64*>(slots);
      u64 lanes[4 * LANES];
      batch()->products(field(), words, pairs.data(), pairs.size(), scratch.data(), lanes);
      invert(lanes);
      batch()->sums(field(), words, pairs.data(), pairs.size(), scratch.data(), lanes);
    }
  }

  // As lanes::Batch has them.
  static void butterflies(bool joining, F* a, int log_half, const void* factors, size_t begin, size_t end) {
    batch()->butterflies(field(), joining, reinterpret_cast<u64*>(a), log_half, factors, begin, end);
  }

 private:
  static const lanes::Batch* batch() {
    static const lanes::Batch* const found = []() -> const lanes::Batch* {
      const std::vector<std::string> features = cpu_features();
      const auto has = [&](const char* name) { return std::count(features.begin(), features.end(), name) > 0; };
      if (!FITS) return nullptr;
      return has("avx512ifma") ? &lanes::IFMA : has("avx2") && has("fma") ? &lanes::AVX2 : nullptr;
    }();
    return found;
  }
  static F element(const u64* words, size_t stride) {
    F x;
    for (size_t k = 0; k < 4; ++k) x.v[k] = words[k * stride];
    return x;
  }

  // 2^518 over each lane's words, of which none is zero.
  static void invert(u64* lanes) {
    F before[lanes::LANES], product = F::one();
    for (size_t l = 0; l < lanes::LANES; ++l) {
      before[l] = product;
      product = product * element(lanes + l, lanes::LANES);
    }
    F inverse = product.inverse();  // words of 2^512 over the product's
    for (int i = 0; i < LOG_SURPLUS; ++i) inverse = inverse.dbl();
    for (size_t l = lanes::LANES; l-- > 0;) {
      const F one = inverse * before[l];
      inverse = inverse * element(lanes + l, lanes::LANES);
      for (size_t k = 0; k < 4; ++k) lanes[k * lanes::LANES + l] = one.v[k];
    }
  }

  static Affine<F> point(const u64* words) { return {element(words, 1), element(words + 4, 1)}; }
  static const lanes::Field& field() {
    static const lanes::Field found = [] {
      constexpr u64 DIGIT = ((u64)1 << 52) - 1;
      lanes::Field f{};
      for (int k = 0; k < 5; ++k) {
        const int word = 52 * k / 64, shift = 52 * k % 64;
        f.modulus[k] = P::modulus(word) >> shift;
        if (shift > 12 && word < 3) f.modulus[k] |= P::modulus(word + 1) << (64 - shift);
        f.modulus[k] &= DIGIT;
      }
      f.neg_inverse = P::inv64() & DIGIT;
      f.scalar.denominator = [](const u64* a, const u64* b, u64* d) {
        const F found = equal_x_denominator(point(a), point(b));
        std::copy(found.v, found.v + 4, d);
      };
      f.scalar.sum = [](const u64* a, const u64* b, const u64* inverse, u64* out) {
        static const F surplus = F::from_u64((u64)1 << LOG_SURPLUS).inverse();
        const Affine<F> sum = sum_with_inverse(point(a), point(b), element(inverse, 1) * surplus);
        std::copy(sum.x.v, sum.x.v + 4, out);
        std::copy(sum.y.v, sum.y.v + 4, out + 4);
      };
      return f;
    }();
    return found;
  }

  static constexpr int LOG_SURPLUS = 6;  // 518 - 512
};
#endif

}  // namespace dp
