// Keccak on four states at once, for CPUs with AVX2. Built with -mavx2. The field stays with the 64-bit multiplier:
// AVX2 has neither its product nor an unsigned comparison.
#include <immintrin.h>

#include "goldilocks_scalar.h"
#include "goldilocks_table.h"

namespace dp {
namespace {

struct Avx2Lanes {
  using T = __m256i;
  static constexpr size_t LANES = 4;
  static T load(const u64* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static void store(u64* p, T x) { _mm256_storeu_si256((__m256i*)p, x); }
  static T broadcast(u64 x) { return _mm256_set1_epi64x((long long)x); }
  static T iota() { return _mm256_set_epi64x(3, 2, 1, 0); }
  static T add(T a, T b) { return _mm256_add_epi64(a, b); }
  static T bit_xor(T a, T b) { return _mm256_xor_si256(a, b); }
  static T xor3(T a, T b, T c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
  static T chi(T a, T b, T c) { return _mm256_xor_si256(a, _mm256_andnot_si256(b, c)); }
  template <int N>
  static T rotl(T a) {
    return _mm256_or_si256(_mm256_slli_epi64(a, N), _mm256_srli_epi64(a, 64 - N));
  }
};

}  // namespace

extern const GoldilocksOps GOLDILOCKS_AVX2 = make_goldilocks_ops<ScalarVector, Avx2Lanes>("avx2");

}  // namespace dp
