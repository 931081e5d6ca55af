// Keccak on four lanes, or on 32 messages in slices, for CPUs with AVX2. Built with -mavx2, and so that values are computed
// where they are written (kernels/CMakeLists.txt).
#include <immintrin.h>

#include "keccak_hash.h"
#include "keccak_lanes.h"
#include "keccak_sliced.h"

namespace dp {
namespace {

struct Avx2Lanes {
  using T = __m256i;
  static constexpr size_t LANES = 4;
  static constexpr int REGISTERS = 16;
  static T load(const u64* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static void store(u64* p, T x) { _mm256_storeu_si256((__m256i*)p, x); }
  static T broadcast(u64 x) { return _mm256_set1_epi64x((long long)x); }
  static T bit_xor(T a, T b) { return _mm256_xor_si256(a, b); }
  static T xor3(T a, T b, T c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
  static T theta_sum(T a, T b) { return bit_xor(a, b); }
  static T theta(T s, T, T sum) { return bit_xor(s, sum); }
  static T chi(T a, T b, T c) { return _mm256_xor_si256(a, _mm256_andnot_si256(b, c)); }
  template <int N>
  static T rotl(T a) {
    if constexpr (N % 8 == 0) {  // whole bytes: a shuffle in place of two shifts
      constexpr auto from = [](int i) { return (char)(i / 8 * 8 + (i + 8 - N / 8) % 8); };
      const __m128i bytes = _mm_setr_epi8(from(0), from(1), from(2), from(3), from(4), from(5), from(6), from(7), from(8),
                                          from(9), from(10), from(11), from(12), from(13), from(14), from(15));
      return _mm256_shuffle_epi8(a, _mm256_broadcastsi128_si256(bytes));
    }
    // The two units that shift have less to do where a sum doubles.
    const T left = N == 1 ? _mm256_add_epi64(a, a) : _mm256_slli_epi64(a, N);
    return _mm256_or_si256(left, _mm256_srli_epi64(a, 64 - N));
  }
};

struct Avx2Slices : Avx2Lanes {
  static T bit_and(T a, T b) { return _mm256_and_si256(a, b); }
  template <int N>
  static T left(T a) { return _mm256_slli_epi64(a, N); }
  template <int N>
  static T right(T a) { return _mm256_srli_epi64(a, N); }
  template <int N>
  static T turned(T a) {
    if constexpr (N == 0) return a;
    else return _mm256_alignr_epi8(a, a, 16 - N);
  }
  static T low_bytes(T a, T b) { return _mm256_unpacklo_epi8(a, b); }
  static T high_bytes(T a, T b) { return _mm256_unpackhi_epi8(a, b); }
  static void split_bytes(T low, T high, T& a, T& b) {
    const T even = _mm256_set1_epi16(255);
    a = _mm256_packus_epi16(_mm256_and_si256(low, even), _mm256_and_si256(high, even));
    b = _mm256_packus_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8));
  }
};

constexpr HashOps FOUR = KeccakHash<KeccakLanes<Avx2Lanes>>::ops(&KECCAK_PORTABLE);

}  // namespace

extern const HashOps KECCAK_AVX2 = KeccakHash<KeccakSliced<Avx2Slices>>::ops(&FOUR);

}  // namespace dp
