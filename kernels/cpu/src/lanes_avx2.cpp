// lanes_vectors.h on AVX2 and FMA. Built with -mavx2 -mfma -frounding-math.
#include "lanes_avx2.h"

namespace dp {
namespace lanes {
namespace {

[[gnu::noinline]] void products(const Field& f, const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* words) {
  Lanes<Avx2>(f).products(slots, pairs, n, suffix, words);
}
[[gnu::noinline]] void sums(const Field& f, u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* words) {
  Lanes<Avx2>(f).sums(slots, pairs, n, suffix, words);
}

}  // namespace

const Batch AVX2 = {
    [](const Field& f, const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* words) {
      const TowardsZero rounding;
      products(f, slots, pairs, n, suffix, words);
    },
    [](const Field& f, u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* words) {
      const TowardsZero rounding;
      sums(f, slots, pairs, n, suffix, words);
    },
    nullptr,  // a butterfly brings two results below the modulus, which costs here what the product saves
};

}  // namespace lanes
}  // namespace dp
