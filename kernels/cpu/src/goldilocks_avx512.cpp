// Goldilocks on eight lanes, for CPUs with AVX-512 F. Built with -mavx512f.
#include <immintrin.h>

#include "field/goldilocks.h"
#include "goldilocks_table.h"
#include "goldilocks_two.h"
#include "transpose_avx512.h"

namespace dp {
namespace {

using Vector = __m512i;

// Arithmetic on one vector or two (goldilocks_two.h). Where comparisons give a mask, what it selects is added or subtracted.
template <class T>
struct Avx512Arithmetic {
  static T broadcast(u64 x) { return fill(_mm512_set1_epi64((long long)x), T{}); }
  // x - p where x >= p, which is the lesser of the two else too: x - p wraps to more than x.
  static T canonical(T x) {
    return each([](Vector a, Vector p) { return _mm512_min_epu64(a, _mm512_sub_epi64(a, p)); }, x, broadcast(gl::P));
  }
  // a + b - 2^64 < p where it wraps, as b < p: adding 2^64 = epsilon cannot wrap again.
  static T add(T a, T b) {
    const T s = plus(a, b);
    return each([](Vector x, Vector y) { return _mm512_mask_add_epi64(x, _mm512_cmplt_epu64_mask(x, y), x, epsilon()); }, s, b);
  }
  // a - b + 2^64 > epsilon where it wraps, as b < p.
  static T sub(T a, T b) { return less(a, b); }
  static T second(T x) { return canonical(x); }
  static T ready(T x) { return x; }
  static T plain(T x) { return x; }
  // Four products of 32-bit halves to 128 bits, then gl::reduce128. The result is canonical.
  static T product(T a, T b) {
    const T a1 = high(a), b1 = high(b);
    const T ll = times(a, b), lh = times(a, b1), hl = times(a1, b), hh = times(a1, b1);
    const T m0 = plus(hl, upper(ll)), m1 = plus(lh, lower(m0));
    const T hi = plus(plus(hh, upper(m0)), upper(m1));
    const T lo = each([](Vector x, Vector y) {
      return _mm512_castps_si512(_mm512_mask_moveldup_ps(_mm512_castsi512_ps(x), 0xAAAA, _mm512_castsi512_ps(y)));
    }, ll, m1);
    return plus_epsilons(less(lo, upper(hi)), hi);
  }
  // As gl::mul_pow2.
  template <int S>
  static T shifted(T a) {
    static_assert(S < 32 || (32 < S && S < 64) || (64 < S && S < 96), "other shifts are not used");
    if constexpr (S < 32) return plus_epsilons(left<S>(a), right<64 - S>(a));
    else if constexpr (S < 64) return plus_epsilons(less(left<S>(a), right<96 - S>(a)), right<64 - S>(a));
    else return less(times(left<S - 64>(a), broadcast(gl::EPSILON)), right<96 - S>(a));
  }
  static void butterfly(T& a, T& b) {
    const T t = b;
    b = sub(a, t);
    a = add(a, t);
  }

 private:
  static Vector epsilon() { return _mm512_set1_epi64((long long)gl::EPSILON); }
  static T plus(T a, T b) { return each([](Vector x, Vector y) { return _mm512_add_epi64(x, y); }, a, b); }
  static T minus(T a, T b) { return each([](Vector x, Vector y) { return _mm512_sub_epi64(x, y); }, a, b); }
  static T times(T a, T b) { return each([](Vector x, Vector y) { return _mm512_mul_epu32(x, y); }, a, b); }
  static T upper(T a) { return each([](Vector x) { return _mm512_srli_epi64(x, 32); }, a); }
  static T lower(T a) { return each([](Vector x) { return _mm512_and_si512(x, epsilon()); }, a); }
  template <int N>
  static T left(T a) { return each([](Vector x) { return _mm512_slli_epi64(x, N); }, a); }
  template <int N>
  static T right(T a) { return each([](Vector x) { return _mm512_srli_epi64(x, N); }, a); }
  // The upper halves, where vpmuludq reads: a shuffle leaves the shifts' port free.
  static T high(T a) {
    return each([](Vector x) { return _mm512_castps_si512(_mm512_movehdup_ps(_mm512_castsi512_ps(x))); }, a);
  }
  // a - b, less epsilon where it wraps
  static T less(T a, T b) {
    return each([](Vector d, Vector x, Vector y) { return _mm512_mask_sub_epi64(d, _mm512_cmplt_epu64_mask(x, y), d, epsilon()); },
                minus(a, b), a, b);
  }
  // t + (hi mod 2^32) epsilon, less p where it is not below
  static T plus_epsilons(T t, T hi) {
    const T r = minus(t, minus(broadcast(gl::P), times(hi, broadcast(gl::EPSILON))));
    return each([](Vector x, Vector y) {
      return _mm512_mask_add_epi64(x, _mm512_cmpgt_epu64_mask(x, y), x, _mm512_set1_epi64((long long)gl::P));
    }, r, t);
  }
};

struct Avx512Vector : ProductsInTwos<Avx512Arithmetic, Vector> {
  using T = Vector;
  static constexpr size_t LANES = 8;
  static T load(const u64* p) { return _mm512_loadu_si512(p); }
  static void store(u64* p, T x) { _mm512_storeu_si512(p, x); }
  static void transpose(T (&x)[8]) { transpose_words(x); }
};

}  // namespace

extern const GoldilocksOps GOLDILOCKS_AVX512 = make_goldilocks_ops<Avx512Vector>("avx512", KECCAK_AVX512, POSEIDON2_AVX512);

}  // namespace dp
