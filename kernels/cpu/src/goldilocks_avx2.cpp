// Goldilocks on four lanes, for CPUs with AVX2. Built with -mavx2.
#include <immintrin.h>

#include "field/goldilocks.h"
#include "goldilocks_table.h"
#include "goldilocks_two.h"

namespace dp {
namespace {

using Vector = __m256i;

// Arithmetic on one vector or two (goldilocks_two.h). Comparisons are signed here. What is called flipped has its top bit
// flipped for them; the difference of two flipped ones is not flipped, their sum with one that is not is.
template <class T>
struct Avx2Arithmetic {
  static T broadcast(u64 x) { return fill(_mm256_set1_epi64x((long long)x), T{}); }
  static T canonical(T x) { return flip(canonical_flipped(flip(x))); }
  static T add(T a, T b) { return sum(a, flip(b)); }
  static T sub(T a, T b) { return difference(flip(a), flip(b)); }
  static T second(T x) { return canonical_flipped(flip(x)); }
  static T ready(T x) { return flip(x); }
  static T plain(T x) { return flip(x); }
  // a b mod p, flipped and canonical.
  static T product(T a, T b) {
    const auto high = [](Vector x) { return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(x))); };
    const auto join_halves = [](Vector low, Vector x) {
      return _mm256_blend_epi32(low, _mm256_castps_si256(_mm256_moveldup_ps(_mm256_castsi256_ps(x))), 0xAA);
    };
    const T a1 = each(high, a), b1 = each(high, b);
    const T ll = times(a, b), lh = times(a, b1), hl = times(a1, b), hh = times(a1, b1);
    const T m0 = plus(hl, upper(ll)), m1 = plus(lh, both(m0, broadcast(gl::EPSILON)));
    const T hi = plus(plus(hh, upper(m0)), upper(m1)), lo = flip(each(join_halves, ll, m1));
    return plus_epsilons(less(lo, upper(hi)), hi);
  }
  // As gl::mul_pow2, flipped and canonical.
  template <int S>
  static T shifted(T a) {
    static_assert(S < 32 || (32 < S && S < 64) || (64 < S && S < 96), "other shifts are not used");
    if constexpr (S < 32) return plus_epsilons(flip(left<S>(a)), right<64 - S>(a));
    else if constexpr (S < 64) return plus_epsilons(less(flip(left<S>(a)), right<96 - S>(a)), right<64 - S>(a));
    else return less(flip(times(left<S - 64>(a), broadcast(gl::EPSILON))), right<96 - S>(a));
  }
  static void butterfly(T& a, T& b) {
    const T t = b;
    b = difference(flip(a), t);
    a = sum(a, t);
  }

 private:
  static constexpr u64 TOP = 1ull << 63;
  static T flip(T a) { return each([](Vector x) { return _mm256_xor_si256(x, _mm256_set1_epi64x((long long)TOP)); }, a); }
  static T plus(T a, T b) { return each([](Vector x, Vector y) { return _mm256_add_epi64(x, y); }, a, b); }
  static T minus(T a, T b) { return each([](Vector x, Vector y) { return _mm256_sub_epi64(x, y); }, a, b); }
  static T times(T a, T b) { return each([](Vector x, Vector y) { return _mm256_mul_epu32(x, y); }, a, b); }
  static T both(T a, T b) { return each([](Vector x, Vector y) { return _mm256_and_si256(x, y); }, a, b); }
  static T upper(T a) { return each([](Vector x) { return _mm256_srli_epi64(x, 32); }, a); }
  // All ones where a > b, both flipped; epsilon is the upper half of that.
  static T more(T a, T b) { return each([](Vector x, Vector y) { return _mm256_cmpgt_epi64(x, y); }, a, b); }

  static T canonical_flipped(T x) { return plus(x, upper(more(x, broadcast((gl::P - 1) ^ TOP)))); }
  // `t` is flipped and canonical, as is what `difference` takes from.
  static T sum(T a, T t) {
    const T s = plus(a, t);
    return plus(flip(s), upper(more(t, s)));
  }
  static T difference(T flipped, T t) { return minus(minus(flipped, t), upper(more(t, flipped))); }

  template <int N>
  static T left(T a) { return each([](Vector x) { return _mm256_slli_epi64(x, N); }, a); }
  template <int N>
  static T right(T a) { return each([](Vector x) { return _mm256_srli_epi64(x, N); }, a); }
  // a - b, less epsilon where it wraps; flipped, as `a` is.
  static T less(T a, T b) {
    const T d = minus(a, b);
    return minus(d, upper(more(d, a)));
  }
  // t + (hi mod 2^32) epsilon, less p where it is not below; flipped, as `t` is.
  static T plus_epsilons(T t, T hi) {
    const T p = broadcast(gl::P), r = minus(t, minus(p, times(hi, broadcast(gl::EPSILON))));
    return plus(r, both(more(r, t), p));
  }
};

struct Avx2Vector : ProductsInTwos<Avx2Arithmetic, Vector> {
  using T = Vector;
  static constexpr size_t LANES = 4;
  static T load(const u64* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static void store(u64* p, T x) { _mm256_storeu_si256((__m256i*)p, x); }
  // Both 4 by 4 blocks.
  static void transpose(T (&x)[8]) {
    for (int i = 0; i < 8; i += 4) {
      const T a = _mm256_unpacklo_epi64(x[i], x[i + 1]), b = _mm256_unpackhi_epi64(x[i], x[i + 1]);
      const T c = _mm256_unpacklo_epi64(x[i + 2], x[i + 3]), d = _mm256_unpackhi_epi64(x[i + 2], x[i + 3]);
      x[i] = _mm256_permute2x128_si256(a, c, 0x20);
      x[i + 1] = _mm256_permute2x128_si256(b, d, 0x20);
      x[i + 2] = _mm256_permute2x128_si256(a, c, 0x31);
      x[i + 3] = _mm256_permute2x128_si256(b, d, 0x31);
    }
  }
};

}  // namespace

extern const GoldilocksOps GOLDILOCKS_AVX2 = make_goldilocks_ops<Avx2Vector>("avx2", KECCAK_AVX2, POSEIDON2_AVX2);

}  // namespace dp
