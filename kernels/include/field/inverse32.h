// Modular inversion on the device: the algorithm of inverse64.h on 32-bit limbs, 30 steps at a time. On an H200 it takes a
// fraction of the cycles of Fermat's power, few of them of the multiplier. No limb is addressed by a variable, so that
// all stay in registers. Not constant time; it is for points of public keys and their sums.
#pragma once
#include "field/carry.h"

namespace dp {

template <class P>
class BinaryGcd {
 public:
  static constexpr int N = 2 * P::LIMBS64;

  // r = scale / x mod p for 0 <= x < p; zero for x = 0
  DP_HD static void run(u32* r, const u32* x, const u32* scale) {
    // a = u x / scale and b = v x / scale mod p throughout; b ends as gcd(x, p) = 1
    u32 a[N], b[N], u[N], v[N], s[N];
    u32 any = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      any |= a[i] = x[i];
      b[i] = prime(i);
      u[i] = scale[i];
      v[i] = 0;
    }
#pragma unroll 1
    while (any) {
      Matrix m = inner_loop(a, b);
      m = apply(m, a, b);
      combine(s, u, m.f0, v, m.g0);
      combine(v, u, m.f1, v, m.g1);
      any = 0;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        u[i] = s[i];
        any |= a[i];
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = v[i];  // untouched for x = 0
  }

 private:
  using i64 = long long;
  static constexpr int STEPS = 30;  // |f| + |g| <= 2^30: a limb times a factor, twice, and a carry fit 64 bits

  struct Matrix {
    int f0, g0, f1, g1;
  };

  DP_HD static u32 prime(int i) {
    constexpr Words<P::LIMBS64> p = P::words();
    return (u32)(p.w[i >> 1] >> (32 * (i & 1)));
  }

  // STEPS steps of the binary GCD on approximations: the low 31 bits exactly, and the 33 bits from the longer one's top.
  DP_HD static Matrix inner_loop(const u32* a, const u32* b) {
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
    u64 p = (u64)a1 << 32 | a0, q = (u64)b1 << 32 | b0;  // all of them, if they have two limbs
    if (a2 | b2) {
      const u32 shift = (u32)__clz((int)(a2 | b2)), low = 0x7fffffff;
      p = (u64)__funnelshift_l(a1, a2, shift) << 32 | (__funnelshift_l(a0, a1, shift) & ~low) | (a[0] & low);
      q = (u64)__funnelshift_l(b1, b2, shift) << 32 | (__funnelshift_l(b0, b1, shift) & ~low) | (b[0] & low);
    }
    int f0 = 1, g0 = 0, f1 = 0, g1 = 1;
#pragma unroll 2
    for (int i = 0; i < STEPS; ++i) {
      const bool odd = p & 1, exchange = odd && p < q;
      const u64 larger = exchange ? q : p, smaller = exchange ? p : q;
      const int f = exchange ? f1 : f0, g = exchange ? g1 : g0;
      f1 = exchange ? f0 : f1;
      g1 = exchange ? g0 : g1;
      q = smaller;
      p = (larger - (odd ? smaller : 0)) >> 1;
      f0 = f - (odd ? f1 : 0);
      g0 = g - (odd ? g1 : 0);
      f1 *= 2;
      g1 *= 2;
    }
    return {f0, g0, f1, g1};
  }

  // (a, b) = |m (a, b)| / 2^STEPS, exactly; returns m with the signs that make both positive
  DP_HD static Matrix apply(Matrix m, u32* a, u32* b) {
    u32 s[N + 1], t[N + 1];
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
  DP_HD static bool shift_positive(u32* out, u32* t) {
    const bool negative = (int)t[N] < 0;
    const u32 flip = negative ? 0xffffffffu : 0;
    u64 carry = negative;
#pragma unroll
    for (int i = 0; i <= N; ++i) {
      carry += t[i] ^ flip;
      t[i] = (u32)carry;
      carry >>= 32;
    }
    shift(out, t);
    return negative;
  }

  // r = (x f + y g) / 2^STEPS mod p; r may be x or y
  DP_HD static void combine(u32* r, const u32* x, int f, const u32* y, int g) {
    u32 t[N + 1], s[N];
    multiply(t, x, f, y, g);
    const u32 k = (t[0] * (u32)P::inv64()) & ((1u << STEPS) - 1);  // t + k p is a multiple of 2^STEPS
    u64 carry = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      carry += (u64)k * prime(i) + t[i];
      t[i] = (u32)carry;
      carry >>= 32;
    }
    t[N] += (u32)carry;
    shift(r, t);
    const int top = (int)t[N] >> STEPS;  // r + 2^(32 N) top lies between -p and 2 p
    u64 sum = 0;
    i64 difference = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      difference += (i64)r[i] - prime(i);
      s[i] = (u32)difference;
      difference >>= 32;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sum += (u64)r[i] + prime(i);
      r[i] = top < 0 ? (u32)sum : difference < 0 ? r[i] : s[i];
      sum >>= 32;
    }
  }

  DP_HD static void shift(u32* out, const u32* t) {
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = __funnelshift_r(t[i], t[i + 1], STEPS);
  }

  // x f + y g in two's complement
  DP_HD static void multiply(u32* t, const u32* x, int f, const u32* y, int g) {
    i64 carry = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      carry += (i64)x[i] * f + (i64)y[i] * g;
      t[i] = (u32)carry;
      carry >>= 32;
    }
    t[N] = (u32)carry;
  }
};

}  // namespace dp
