// Modular inversion on the host by the binary GCD with approximated operands: Pornin, Optimized Binary GCD for Modular
// Inversion (eprint 2020/972), algorithm 2, ended when the operand is used up. Some five times faster than Fermat's power.
// Not constant time; it is for sums of a public key's points.
#pragma once
#include "field/limbs.h"

namespace dp {

template <class P>
class BinaryGcd {
 public:
  static constexpr int N = P::LIMBS64;

  // scale / x mod p for 0 <= x < p; zero for x = 0
  static Words<N> run(const u64* x, const Words<N>& scale) {
    // a = u x / scale and b = v x / scale mod p throughout; b ends as gcd(x, p) = 1
    Words<N> a{}, b = P::words(), u = scale, v{};
    for (int i = 0; i < N; ++i) a.w[i] = x[i];
    while (!is_zero(a)) {
      const Matrix m = inner_loop(a, b);
      const Matrix signs_fixed = apply(m, a, b);
      const Words<N> new_u = combine(u, signs_fixed.f0, v, signs_fixed.g0);
      v = combine(u, signs_fixed.f1, v, signs_fixed.g1);
      u = new_u;
    }
    return b.w[0] == 1 ? v : Words<N>{};  // b = p only for x = 0; b odd throughout
  }

 private:
  using i64 = long long;
  using i128 = __int128;
  static constexpr int STEPS = 31;  // factors stay within 2^31, so that a word times a factor, twice, fits 128 bits

  struct Matrix {
    i64 f0, g0, f1, g1;
  };

  static bool is_zero(const Words<N>& a) {
    u64 x = 0;
    for (int i = 0; i < N; ++i) x |= a.w[i];
    return x == 0;
  }

  // The low 31 bits exactly, and the 33 bits from `length` down.
  static u64 approximate(const Words<N>& a, int length) {
    const int shift = length - 33, word = shift / 64, bit = shift % 64;
    u64 top = a.w[word] >> bit;
    if (bit > 31 && word + 1 < N) top |= a.w[word + 1] << (64 - bit);
    return (a.w[0] & 0x7fffffff) | (top << 31);
  }

  static Matrix inner_loop(const Words<N>& a, const Words<N>& b) {
    int word = N - 1;
    while (word > 0 && (a.w[word] | b.w[word]) == 0) --word;
    const u64 high = a.w[word] | b.w[word];
    const int length = word * 64 + 64 - __builtin_clzll(high);
    u64 p, q;
    if (length <= 64) {
      p = a.w[0];
      q = b.w[0];
    } else {
      p = approximate(a, length);
      q = approximate(b, length);
    }
    Matrix m{1, 0, 0, 1};
    for (int i = 0; i < STEPS; ++i) {
      const u64 odd = 0 - (p & 1);
      const u64 exchange = odd & (0 - (u64)(p < q));
      const u64 dpq = (p ^ q) & exchange;
      p ^= dpq;
      q ^= dpq;
      const u64 df = ((u64)m.f0 ^ (u64)m.f1) & exchange, dg = ((u64)m.g0 ^ (u64)m.g1) & exchange;
      m.f0 ^= (i64)df;
      m.f1 ^= (i64)df;
      m.g0 ^= (i64)dg;
      m.g1 ^= (i64)dg;
      p = (p - (q & odd)) >> 1;
      m.f0 -= m.f1 & (i64)odd;
      m.g0 -= m.g1 & (i64)odd;
      m.f1 *= 2;
      m.g1 *= 2;
    }
    return m;
  }

  // (a, b) = |m (a, b)| / 2^31, exactly; returns m with the signs that make both positive
  static Matrix apply(Matrix m, Words<N>& a, Words<N>& b) {
    const Words<N> x = a, y = b;
    if (shift_exact(x, m.f0, y, m.g0, a)) {
      m.f0 = -m.f0;
      m.g0 = -m.g0;
    }
    if (shift_exact(x, m.f1, y, m.g1, b)) {
      m.f1 = -m.f1;
      m.g1 = -m.g1;
    }
    return m;
  }
  static bool shift_exact(const Words<N>& x, i64 f, const Words<N>& y, i64 g, Words<N>& out) {
    u64 t[N + 1];
    multiply(x, f, y, g, t);
    const bool negative = (i64)t[N] < 0;
    if (negative) negate(t);
    for (int i = 0; i < N; ++i) out.w[i] = (t[i] >> STEPS) | (t[i + 1] << (64 - STEPS));
    return negative;
  }

  // (x f + y g) / 2^31 mod p
  static Words<N> combine(const Words<N>& x, i64 f, const Words<N>& y, i64 g) {
    constexpr Words<N> p = P::words();
    u64 t[N + 1];
    multiply(x, f, y, g, t);
    const u64 k = (t[0] * P::inv64()) & 0x7fffffff;  // t + k p is a multiple of 2^31
    unsigned __int128 c = 0;
    for (int i = 0; i < N; ++i) {
      c += (unsigned __int128)k * p.w[i] + t[i];
      t[i] = (u64)c;
      c >>= 64;
    }
    t[N] += (u64)c;
    Words<N> r, s;
    for (int i = 0; i < N; ++i) r.w[i] = (t[i] >> STEPS) | (t[i + 1] << (64 - STEPS));
    const i64 top = (i64)t[N] >> STEPS;  // r + 2^(64 N) top lies between -p and 2 p
    if (top < 0) {
      add_n<N>(r.w, r.w, p.w);
    } else if (!sub_n<N>(s.w, r.w, p.w)) {
      r = s;
    }
    return r;
  }

  // x f + y g in two's complement
  static void multiply(const Words<N>& x, i64 f, const Words<N>& y, i64 g, u64* t) {
    i128 carry = 0;
    for (int i = 0; i < N; ++i) {
      // low words unsigned; the products fit, as |f| + |g| <= 2^31
      carry += (i128)((unsigned __int128)x.w[i]) * f + (i128)((unsigned __int128)y.w[i]) * g;
      t[i] = (u64)carry;
      carry >>= 64;
    }
    t[N] = (u64)carry;
  }
  static void negate(u64* t) {
    u64 carry = 1;
    for (int i = 0; i <= N; ++i) {
      t[i] = ~t[i] + carry;
      carry = carry && t[i] == 0;
    }
  }
};

}  // namespace dp
