// Eight lanes on AVX2 and FMA, as lanes_vectors.h asks for them. For files built with -mavx2 -mfma -frounding-math.
//
// A product of two digits is a fused multiply-add of doubles away from each of its halves (Emmart, Zheng, Weems: Faster modular
// exponentiation using double precision floating point arithmetic on the GPU, ARITH 2018). Rounded towards zero, a b + 2^104 is
// 2^104 + 2^52 h, whose word is that of 2^104 plus h; and a b + (2^104 + 2^52 - (2^104 + 2^52 h)) is exact, and its word that of
// 2^52 plus l, where a b = 2^52 h + l. The words are summed with those of 2^104 and 2^52 in them, which are taken off at the end
// of each column.
#pragma once
#include <immintrin.h>

#include "lanes_vectors.h"

// Of code in loops as short as these the compiler keeps no array in registers unless it unrolls them, which -O3 does too late.
#define DP_UNROLLED _Pragma("GCC unroll 8") for
#define DP_BOTH DP_UNROLLED(int k = 0; k < 2; ++k)

namespace dp {
namespace lanes {
namespace {

struct Avx2 {
  // Two vectors of four lanes, so that each has the other's instructions to fill its waits.
  struct T {
    __m256i h[2];
  };
  using Mask = T;

  template <class Op>
  static T each(const Op& op) {
    return {{op(0), op(1)}};
  }
  static T splat(u64 x) {
    return each([&](int) { return _mm256_set1_epi64x((long long)x); });
  }
  static T add(const T& a, const T& b) {
    return each([&](int k) { return _mm256_add_epi64(a.h[k], b.h[k]); });
  }
  static T sub(const T& a, const T& b) {
    return each([&](int k) { return _mm256_sub_epi64(a.h[k], b.h[k]); });
  }
  static T bit_and(const T& a, const T& b) {
    return each([&](int k) { return _mm256_and_si256(a.h[k], b.h[k]); });
  }
  static T bit_or(const T& a, const T& b) {
    return each([&](int k) { return _mm256_or_si256(a.h[k], b.h[k]); });
  }
  static T bit_xor(const T& a, const T& b) {
    return each([&](int k) { return _mm256_xor_si256(a.h[k], b.h[k]); });
  }
  template <int N>
  static T srl(const T& a) {
    return each([&](int k) { return _mm256_srli_epi64(a.h[k], N); });
  }
  template <int N>
  static T sll(const T& a) {
    return each([&](int k) { return _mm256_slli_epi64(a.h[k], N); });
  }
  template <int N>
  static T sra(const T& a) {  // AVX2 has none of 64 bits
    return sub(srl<N>(bit_xor(a, splat((u64)1 << 63))), splat((u64)1 << (63 - N)));
  }
  static Mask negative(const T& a) {
    return each([&](int k) { return _mm256_cmpgt_epi64(_mm256_setzero_si256(), a.h[k]); });
  }
  static Mask zero(const T& a) {
    return each([&](int k) { return _mm256_cmpeq_epi64(a.h[k], _mm256_setzero_si256()); });
  }
  static Mask either(const Mask& a, const Mask& b) { return bit_or(a, b); }
  static T select(const Mask& m, const T& a, const T& b) {
    return each([&](int k) { return _mm256_blendv_epi8(b.h[k], a.h[k], m.h[k]); });
  }
  static unsigned bits(const Mask& m) {
    const auto half = [&](int k) { return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(m.h[k])); };
    return half(0) | half(1) << 4;
  }
  static __m256i load_half(const u64* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_half(u64* p, __m256i a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a); }
  static T load(const u64* p) {
    return each([&](int k) { return load_half(p + 4 * k); });
  }
  static void store(u64* p, const T& a) {
    DP_BOTH store_half(p + 4 * k, a.h[k]);
  }
  template <class P>
  static void load_points(P* const (&from)[8], size_t distance, T (&x)[8]) {
    DP_BOTH DP_UNROLLED(int c = 0; c < 8; c += 4) {
      __m256i v[4];
      for (int l = 0; l < 4; ++l) v[l] = load_half(from[4 * k + l] + (c ? distance : 0));
      transpose(v);
      for (int l = 0; l < 4; ++l) x[c + l].h[k] = v[l];
    }
  }
  static void store_points(const T (&x)[8], u64* const (&to)[8], size_t distance) {
    DP_BOTH DP_UNROLLED(int c = 0; c < 8; c += 4) {
      __m256i v[4];
      for (int l = 0; l < 4; ++l) v[l] = x[c + l].h[k];
      transpose(v);
      for (int l = 0; l < 4; ++l) store_half(to[4 * k + l] + (c ? distance : 0), v[l]);
    }
  }
  static void transpose(__m256i (&x)[4]) {
    const __m256i a = _mm256_unpacklo_epi64(x[0], x[1]), b = _mm256_unpackhi_epi64(x[0], x[1]);
    const __m256i c = _mm256_unpacklo_epi64(x[2], x[3]), d = _mm256_unpackhi_epi64(x[2], x[3]);
    x[0] = _mm256_permute2x128_si256(a, c, 0x20);
    x[1] = _mm256_permute2x128_si256(b, d, 0x20);
    x[2] = _mm256_permute2x128_si256(a, c, 0x31);
    x[3] = _mm256_permute2x128_si256(b, d, 0x31);
  }

  class Product {
   public:
    explicit Product(const Field& f) : neg_inverse_(f.neg_inverse) {
      for (int j = 0; j < 5; ++j) modulus_[j] = Factor(f.modulus[j]);
    }
    // A function of its own: five of them are more code than the instruction cache holds.
    [[gnu::noinline]] Digits<T> operator()(const Digits<T>& a, const Digits<T>& b) const {
      const __m256d p52 = _mm256_set1_pd(P52), p104 = _mm256_set1_pd(P104), both = _mm256_set1_pd(P104 + P52);
      __m256d x[5][2];
      DP_UNROLLED(int j = 0; j < 5; ++j) DP_BOTH x[j][k] = _mm256_sub_pd(shifted(a.d[j].h[k]), p52);
      T t[6];
      DP_UNROLLED(int j = 0; j < 6; ++j) t[j] = splat(0);
      DP_UNROLLED(int i = 0; i < 5; ++i) {
        DP_BOTH {
          const __m256d y = _mm256_sub_pd(shifted(b.d[i].h[k]), p52);
          DP_UNROLLED(int j = 0; j < 5; ++j) {
            const __m256d high = _mm256_fmadd_pd(x[j][k], y, p104);
            accumulate(t[j].h[k], _mm256_fmadd_pd(x[j][k], y, _mm256_sub_pd(both, high)));
            accumulate(t[j + 1].h[k], high);
          }
          const __m256d m = neg_inverse_.low(shifted(_mm256_and_si256(t[0].h[k], _mm256_set1_epi64x(DIGIT))));
          accumulate(t[1].h[k], modulus_[0].high(m));
          DP_UNROLLED(int j = 1; j < 5; ++j) {
            const __m256d high = modulus_[j].high(m);
            accumulate(t[j].h[k], modulus_[j].low(m, high));
            accumulate(t[j + 1].h[k], high);
          }
        }
        // With the low half of m times the modulus's first digit, which was left out, the digit here becomes zero and carries.
        t[1] = add(t[1], srl<52>(add(t[0], splat(DIGIT - bias(2 * i + 1, 2 * i)))));
        DP_UNROLLED(int j = 0; j < 5; ++j) t[j] = t[j + 1];
        t[5] = splat(0);
      }
      Digits<T> r;
      DP_UNROLLED(int j = 0; j < 5; ++j) {
        r.d[j] = sub(t[j], splat(bias(2 * (4 - j), 2 * (5 - j))));
        if (j > 0) r.d[j] = add(r.d[j], t[j - 1]);
        t[j] = srl<52>(r.d[j]);
        if (j < 4) r.d[j] = bit_and(r.d[j], splat(DIGIT));
      }
      return r;
    }

   private:
    static constexpr double P52 = (double)((u64)1 << 52), P104 = P52 * P52;
    static constexpr u64 WORD_OF_P52 = (u64)0x433 << 52, WORD_OF_P104 = (u64)0x467 << 52;

    // What is in the word of a column after this many low and high halves.
    static constexpr u64 bias(u64 low, u64 high) { return low * WORD_OF_P52 + high * WORD_OF_P104; }
    // 2^52 + digit
    static __m256d shifted(__m256i digit) {
      return _mm256_castsi256_pd(_mm256_or_si256(digit, _mm256_set1_epi64x((long long)WORD_OF_P52)));
    }
    static void accumulate(__m256i& t, __m256d half) { t = _mm256_add_epi64(t, _mm256_castpd_si256(half)); }

    // A constant digit, to be multiplied by 2^52 + m: what that is too much is in the summands.
    struct Factor {
      __m256d digit, for_high, for_low;
      Factor() = default;
      explicit Factor(u64 x)
          : digit(_mm256_set1_pd((double)x)),
            for_high(_mm256_set1_pd(P52 * (P52 - (double)x))),
            for_low(_mm256_set1_pd(P52 * (P52 + 1 - (double)x))) {}
      __m256d high(__m256d m) const { return _mm256_fmadd_pd(m, digit, for_high); }
      __m256d low(__m256d m, __m256d high) const { return _mm256_fmadd_pd(m, digit, _mm256_sub_pd(for_low, high)); }
      __m256d low(__m256d m) const { return low(m, high(m)); }
    };
    Factor modulus_[5], neg_inverse_;
  };
};

// The rounding that Product needs, and what it was before. What computes under it must not be inlined where it is made.
class TowardsZero {
 public:
  TowardsZero() { _mm_setcsr(before_ | _MM_ROUND_TOWARD_ZERO); }
  ~TowardsZero() { _mm_setcsr(before_); }
  TowardsZero(const TowardsZero&) = delete;
  TowardsZero& operator=(const TowardsZero&) = delete;

 private:
  const unsigned before_ = _mm_getcsr();
};

}  // namespace
}  // namespace lanes
}  // namespace dp
