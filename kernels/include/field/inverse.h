// Modular inversion by the binary GCD with approximated operands: Pornin, Optimized Binary GCD for Modular Inversion
// (eprint 2020/972), algorithm 2, ended when the operand is used up. Some five times faster than Fermat's power on the
// host; on an H200 it takes a fraction of that power's cycles, few of them of the multiplier.
//
// No limb is addressed by a variable, so that all stay in registers. Not constant time; it is for points of public keys
// and their sums.
#pragma once
#include "field/limbs.h"

namespace dp {

template <class P>
class BinaryGcd {
 public:
  static constexpr int N = P::LIMBS64 * 64 / LIMB_BITS;

  // r = scale / x mod p for 0 <= x < p; zero for x = 0
  DP_HD static void run(limb_t* r, const limb_t* x, const limb_t* scale) {
    // a = u x / scale and b = v x / scale mod p throughout; b ends as gcd(x, p) = 1
    limb_t a[N], b[N], u[N], v[N], s[N];
    limb_t any = 0;
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) {
      any |= a[i] = x[i];
      b[i] = prime(i);
      u[i] = scale[i];
      v[i] = 0;
    }
    DP_PRAGMA(unroll 1)
    while (any) {
      Matrix m = inner_loop(a, b);
      m = apply(m, a, b);
      combine(s, u, m.f0, v, m.g0);
      combine(v, u, m.f1, v, m.g1);
      any = 0;
      DP_PRAGMA(unroll)
      for (int i = 0; i < N; ++i) {
        u[i] = s[i];
        any |= a[i];
      }
    }
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) r[i] = v[i];  // untouched for x = 0
  }

 private:
  // |f| + |g| <= 2^STEPS for the factors of a matrix: a limb times a factor, twice, and a carry fit a wide word.
#if DP_DEVICE
  using wide = u64;
  using signed_wide = long long;
  using factor = int;
  static constexpr int STEPS = 30;
#else
  using wide = unsigned __int128;
  using signed_wide = __int128;
  using factor = long long;
  static constexpr int STEPS = 31;
#endif

  struct Matrix {
    factor f0, g0, f1, g1;
  };

  DP_HD static limb_t prime(int i) {
    constexpr Words<P::LIMBS64> p = P::words();
    return limb_of<P::LIMBS64>(p, i);
  }

  // Approximations of a and b: the low 31 bits exactly, and the 33 bits from the longer one's top; all of them, if they
  // fit 64 bits.
  DP_HD static void approximate(const limb_t* a, const limb_t* b, u64& p, u64& q) {
    constexpr u32 low = 0x7fffffff;
#if DP_DEVICE
    u32 a2 = 0, a1 = a[1], a0 = a[0], b2 = 0, b1 = b[1], b0 = b[0];
#pragma unroll
    for (int i = 2; i < N; ++i) {
      const bool higher = (a[i] | b[i]) != 0;
      a2 = higher ? a[i] : a2;
      a1 = higher ? a[i - 1] : a1;
      a0 = higher ? a[i - 2] : a0;
      b2 = higher ? b[i] : b2;
      b1 = higher ? b[i - 1] : b1;
      b0 = higher ? b[i - 2] : b0;
    }
    p = (u64)a1 << 32 | a0, q = (u64)b1 << 32 | b0;
    if (a2 | b2) {
      const u32 shift = (u32)__clz((int)(a2 | b2));
      p = (u64)__funnelshift_l(a1, a2, shift) << 32 | (__funnelshift_l(a0, a1, shift) & ~low) | (a[0] & low);
      q = (u64)__funnelshift_l(b1, b2, shift) << 32 | (__funnelshift_l(b0, b1, shift) & ~low) | (b[0] & low);
    }
#else
    u64 a1 = 0, a0 = a[0], b1 = 0, b0 = b[0];
    for (int i = 1; i < N; ++i) {
      const bool higher = (a[i] | b[i]) != 0;
      a1 = higher ? a[i] : a1;
      a0 = higher ? a[i - 1] : a0;
      b1 = higher ? b[i] : b1;
      b0 = higher ? b[i - 1] : b0;
    }
    p = a0, q = b0;
    if (a1 | b1) {
      const int shift = __builtin_clzll(a1 | b1);
      p = ((a1 << shift | a0 >> 1 >> (63 - shift)) & ~(u64)low) | (a[0] & low);
      q = ((b1 << shift | b0 >> 1 >> (63 - shift)) & ~(u64)low) | (b[0] & low);
    }
#endif
  }

  // STEPS steps of the binary GCD on the approximations.
  DP_HD static Matrix inner_loop(const limb_t* a, const limb_t* b) {
    u64 p, q;
    approximate(a, b, p, q);
    factor f0 = 1, g0 = 0, f1 = 0, g1 = 1;
#if DP_DEVICE
#pragma unroll 2
    for (int i = 0; i < STEPS; ++i) {
      const bool odd = p & 1, exchange = odd && p < q;
      const u64 larger = exchange ? q : p, smaller = exchange ? p : q;
      const factor f = exchange ? f1 : f0, g = exchange ? g1 : g0;
      f1 = exchange ? f0 : f1;
      g1 = exchange ? g0 : g1;
      q = smaller;
      p = (larger - (odd ? smaller : 0)) >> 1;
      f0 = f - (odd ? f1 : 0);
      g0 = g - (odd ? g1 : 0);
      f1 *= 2;
      g1 *= 2;
    }
#else
    for (int i = 0; i < STEPS; ++i) {  // with masks, which compilers do not turn into branches
      const u64 odd = 0 - (p & 1), exchange = odd & (0 - (u64)(p < q));
      const u64 pq = (p ^ q) & exchange;
      const factor f = (f0 ^ f1) & (factor)exchange, g = (g0 ^ g1) & (factor)exchange;
      p ^= pq;
      q ^= pq;
      f0 ^= f;
      f1 ^= f;
      g0 ^= g;
      g1 ^= g;
      p = (p - (q & odd)) >> 1;
      f0 -= f1 & (factor)odd;
      g0 -= g1 & (factor)odd;
      f1 *= 2;
      g1 *= 2;
    }
#endif
    return {f0, g0, f1, g1};
  }

  // (a, b) = |m (a, b)| / 2^STEPS, exactly; returns m with the signs that make both positive
  DP_HD static Matrix apply(Matrix m, limb_t* a, limb_t* b) {
    limb_t s[N + 1], t[N + 1];
    multiply(s, a, m.f0, b, m.g0);
    multiply(t, a, m.f1, b, m.g1);
    if (shift_positive(a, s)) {
      m.f0 = -m.f0;
      m.g0 = -m.g0;
    }
    if (shift_positive(b, t)) {
      m.f1 = -m.f1;
      m.g1 = -m.g1;
    }
    return m;
  }
  DP_HD static bool shift_positive(limb_t* out, limb_t* t) {
    const bool negative = (factor)t[N] < 0;
    const limb_t flip = negative ? ~(limb_t)0 : 0;
    wide carry = negative;
    DP_PRAGMA(unroll)
    for (int i = 0; i <= N; ++i) {
      carry += t[i] ^ flip;
      t[i] = (limb_t)carry;
      carry >>= LIMB_BITS;
    }
    shift(out, t);
    return negative;
  }

  // r = (x f + y g) / 2^STEPS mod p; r may be x or y
  DP_HD static void combine(limb_t* r, const limb_t* x, factor f, const limb_t* y, factor g) {
    limb_t t[N + 1], s[N];
    multiply(t, x, f, y, g);
    const limb_t k = (t[0] * (limb_t)P::inv64()) & (((limb_t)1 << STEPS) - 1);  // t + k p is a multiple of 2^STEPS
    wide carry = 0;
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) {
      carry += (wide)k * prime(i) + t[i];
      t[i] = (limb_t)carry;
      carry >>= LIMB_BITS;
    }
    t[N] += (limb_t)carry;
    shift(r, t);
    const factor top = (factor)t[N] >> STEPS;  // r + 2^(LIMB_BITS N) top lies between -p and 2 p
    wide sum = 0;
    signed_wide difference = 0;
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) {
      difference += (signed_wide)r[i] - prime(i);
      s[i] = (limb_t)difference;
      difference >>= LIMB_BITS;
    }
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) {
      sum += (wide)r[i] + prime(i);
      r[i] = top < 0 ? (limb_t)sum : difference < 0 ? r[i] : s[i];
      sum >>= LIMB_BITS;
    }
  }

  DP_HD static void shift(limb_t* out, const limb_t* t) {
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) out[i] = t[i] >> STEPS | t[i + 1] << (LIMB_BITS - STEPS);
  }

  // x f + y g in two's complement
  DP_HD static void multiply(limb_t* t, const limb_t* x, factor f, const limb_t* y, factor g) {
    signed_wide carry = 0;
    DP_PRAGMA(unroll)
    for (int i = 0; i < N; ++i) {
      carry += (signed_wide)x[i] * f + (signed_wide)y[i] * g;
      t[i] = (limb_t)carry;
      carry >>= LIMB_BITS;
    }
    t[N] = (limb_t)carry;
  }
};

}  // namespace dp
