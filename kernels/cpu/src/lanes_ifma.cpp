// lanes_vectors.h on AVX-512 IFMA. Built with -mavx512f -mavx512dq -mavx512ifma.
#include "lanes_ifma.h"

namespace dp {
namespace lanes {

const Batch IFMA = {
    [](const Field& f, const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* words) {
      Lanes<Ifma>(f).products(slots, pairs, n, suffix, words);
    },
    [](const Field& f, u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* words) {
      Lanes<Ifma>(f).sums(slots, pairs, n, suffix, words);
    },
    [](const Field& f, bool joining, u64* a, int log_half, const void* factors, size_t begin, size_t end) {
      Lanes<Ifma>(f).butterflies(joining, a, log_half, factors, begin, end);
    },
};

}  // namespace lanes
}  // namespace dp
