// The Goldilocks field F_p, p = 2^64 - 2^32 + 1, and its extension F_p[x]/(x^3 - x - 1), elements canonical everywhere.
// The same numbers stand in maths/goldilocks.py.
//
// 2^64 = 2^32 - 1 and 2^96 = -1 (mod p) turn a 128-bit product into three 64-bit terms.
#pragma once
#include "platform.h"

namespace dp {
namespace gl {

constexpr u64 P = 0xFFFFFFFF00000001ull;
constexpr u64 EPSILON = 0xFFFFFFFFull;  // 2^64 mod p
constexpr u64 GENERATOR = 7;
constexpr int TWO_ADICITY = 32;

// All functions take canonical operands and return canonical results.
//
// The device's versions keep the borrow of a 64-bit difference as a mask in a register: all ones is 2^64 mod p, so that a
// difference is brought back into range by subtracting the mask (a - b + 2^64 - (2^64 mod p) = a - b + p).
DP_HD u64 sub(u64 a, u64 b) {
#if DP_PTX
  u64 r;
  asm("{\n\t"
      ".reg .u32 a0, a1, b0, b1, m;\n\t"
      "mov.b64 {a0, a1}, %1;\n\t"
      "mov.b64 {b0, b1}, %2;\n\t"
      "sub.cc.u32 a0, a0, b0;\n\t"
      "subc.cc.u32 a1, a1, b1;\n\t"
      "subc.u32 m, 0, 0;\n\t"
      "sub.cc.u32 a0, a0, m;\n\t"
      "subc.u32 a1, a1, 0;\n\t"
      "mov.b64 %0, {a0, a1};\n\t"
      "}"
      : "=l"(r)
      : "l"(a), "l"(b));
  return r;
#else
  u64 d = a - b;
  return a < b ? d + P : d;
#endif
}

DP_HD u64 add(u64 a, u64 b) { return sub(a, P - b); }  // b = 0 too: a - p borrows

DP_HD u64 neg(u64 a) { return a ? P - a : 0; }

DP_HD u64 canonical(u64 a) { return a >= P ? a - P : a; }

// h 2^64 + lo mod p, for any lo: h 2^64 = h (2^32 - 1), which is at most p - 2^32, and so lo + h (2^32 - 1) - p is below p.
DP_HD u64 reduce96(u32 h, u64 lo) { return sub(lo, P - (((u64)h << 32) - h)); }

// hi 2^64 + lo mod p, for any hi and lo
DP_HD u64 reduce128(u64 hi, u64 lo) {
#if DP_PTX
  u64 r;
  asm("{\n\t"
      ".reg .u32 l0, l1, h0, h1, f0, f1, m;\n\t"
      "mov.b64 {l0, l1}, %1;\n\t"
      "mov.b64 {h0, h1}, %2;\n\t"
      "sub.cc.u32 l0, l0, h1;\n\t"
      "subc.cc.u32 l1, l1, 0;\n\t"
      "subc.u32 m, 0, 0;\n\t"
      "sub.cc.u32 l0, l0, m;\n\t"
      "subc.u32 l1, l1, 0;\n\t"
      "not.b32 f1, h0;\n\t"
      "add.cc.u32 f0, h0, 1;\n\t"
      "addc.u32 f1, f1, 0;\n\t"
      "sub.cc.u32 l0, l0, f0;\n\t"
      "subc.cc.u32 l1, l1, f1;\n\t"
      "subc.u32 m, 0, 0;\n\t"
      "sub.cc.u32 l0, l0, m;\n\t"
      "subc.u32 l1, l1, 0;\n\t"
      "mov.b64 %0, {l0, l1};\n\t"
      "}"
      : "=l"(r)
      : "l"(lo), "l"(hi));
  return r;
#else
  u64 h1 = hi >> 32;
  u64 t = lo - h1;
  if (lo < h1) t -= EPSILON;  // borrowed 2^64
  return reduce96((u32)hi, t);
#endif
}

DP_HD u64 mul(u64 a, u64 b) {
#if DP_DEVICE
  return reduce128(__umul64hi(a, b), a * b);
#else
  unsigned __int128 t = (unsigned __int128)a * b;
  return reduce128((u64)(t >> 64), (u64)t);
#endif
}

// a 2^S, 0 <= S < 96
template <int S>
DP_HD u64 mul_pow2(u64 a) {
  static_assert(0 <= S && S < 96, "2^96 = -1: the caller negates");
  if constexpr (S == 0) return a;
  else if constexpr (S <= 32) return reduce96((u32)(a >> (64 - S)), a << S);
  else if constexpr (S < 64) return reduce128(a >> (64 - S), a << S);
  else if constexpr (S == 64) return sub(((a & EPSILON) << 32) - (a & EPSILON), a >> 32);
  else {
    // words z0, z1, z2 from 2^64 upwards: z0 (2^32 - 1) - z1 - z2 2^32
    u64 z0 = (u32)(a << (S - 64));
    return sub((z0 << 32) - z0, a >> (96 - S));
  }
}

DP_HD u64 sqr(u64 a) { return mul(a, a); }

DP_HD u64 pow(u64 a, u64 e) {
  u64 r = 1;
  for (; e; e >>= 1, a = sqr(a))
    if (e & 1) r = mul(r, a);
  return r;
}

// a / 2
DP_HD u64 half(u64 a) { return (a & 1) ? (a >> 1) + (P >> 1) + 1 : a >> 1; }

// 1 / a, zero for zero: a^(p - 2), by the chain 2^32 - 1 ones, a zero, ... of p - 2 = 2^64 - 2^32 - 1
DP_HD u64 inverse(u64 a) {
  u64 t2 = mul(sqr(a), a);  // a^(2^2 - 1)
  u64 t3 = mul(sqr(t2), a);
  u64 x = t3;  // a^(2^3 - 1)
  for (int i = 0; i < 3; ++i) x = sqr(x);
  u64 t6 = mul(x, t3);
  x = t6;
  for (int i = 0; i < 6; ++i) x = sqr(x);
  u64 t12 = mul(x, t6);
  x = t12;
  for (int i = 0; i < 12; ++i) x = sqr(x);
  u64 t24 = mul(x, t12);
  x = t24;
  for (int i = 0; i < 6; ++i) x = sqr(x);
  u64 t30 = mul(x, t6);
  u64 t31 = mul(sqr(t30), a);
  u64 t32 = mul(sqr(t31), a);
  x = t31;  // 31 ones, a zero, 32 ones
  for (int i = 0; i < 33; ++i) x = sqr(x);
  return mul(x, t32);
}

struct Ext {
  u64 c[3];
};

DP_HD Ext embed(u64 a) { return {{a, 0, 0}}; }
DP_HD Ext add(const Ext& a, const Ext& b) { return {{add(a.c[0], b.c[0]), add(a.c[1], b.c[1]), add(a.c[2], b.c[2])}}; }
DP_HD Ext sub(const Ext& a, const Ext& b) { return {{sub(a.c[0], b.c[0]), sub(a.c[1], b.c[1]), sub(a.c[2], b.c[2])}}; }
DP_HD Ext mul(const Ext& a, u64 b) { return {{mul(a.c[0], b), mul(a.c[1], b), mul(a.c[2], b)}}; }

#if DP_PTX
// hi:lo += high:low, with what is carried out
DP_HD void add_wide(u64& lo, u64& hi, u32& carried, u64 low, u64 high) {
  asm("{\n\t"
      "add.cc.u64 %0, %0, %3;\n\t"
      "addc.cc.u64 %1, %1, %4;\n\t"
      "addc.u32 %2, %2, 0;\n\t"
      "}"
      : "+l"(lo), "+l"(hi), "+r"(carried)
      : "l"(low), "l"(high));
}
DP_HD void add_product(u64& lo, u64& hi, u32& carried, u64 a, u64 b) { add_wide(lo, hi, carried, a * b, __umul64hi(a, b)); }

// carried 2^128 + hi 2^64 + lo, and 2^128 = -2^32
DP_HD u64 reduce160(u64 lo, u64 hi, u32 carried) { return sub(reduce128(hi, lo), (u64)carried << 32); }
#endif

// x^3 = x + 1, x^4 = x^2 + x. The device adds the products up first: three reductions in place of nine.
DP_HD Ext inline_mul(const Ext& a, const Ext& b) {
#if DP_PTX
  u64 lo3 = a.c[1] * b.c[2], hi3 = __umul64hi(a.c[1], b.c[2]), lo4 = a.c[2] * b.c[2], hi4 = __umul64hi(a.c[2], b.c[2]);
  u32 carried3 = 0;
  add_product(lo3, hi3, carried3, a.c[2], b.c[1]);
  u64 lo = lo3, hi = hi3;
  u32 carried = carried3;
  add_product(lo, hi, carried, a.c[0], b.c[0]);
  Ext r;
  r.c[0] = reduce160(lo, hi, carried);
  add_wide(lo3, hi3, carried3, lo4, hi4);
  add_product(lo3, hi3, carried3, a.c[0], b.c[1]);
  add_product(lo3, hi3, carried3, a.c[1], b.c[0]);
  r.c[1] = reduce160(lo3, hi3, carried3);
  carried = 0;
  add_product(lo4, hi4, carried, a.c[0], b.c[2]);
  add_product(lo4, hi4, carried, a.c[2], b.c[0]);
  add_product(lo4, hi4, carried, a.c[1], b.c[1]);
  r.c[2] = reduce160(lo4, hi4, carried);
  return r;
#else
  u64 c3 = add(mul(a.c[1], b.c[2]), mul(a.c[2], b.c[1]));
  u64 c4 = mul(a.c[2], b.c[2]);
  u64 c34 = add(c3, c4);
  u64 m1 = add(mul(a.c[0], b.c[1]), mul(a.c[1], b.c[0]));
  u64 m2 = add(add(mul(a.c[0], b.c[2]), mul(a.c[2], b.c[0])), mul(a.c[1], b.c[1]));
  return {{add(mul(a.c[0], b.c[0]), c3), add(m1, c34), add(m2, c4)}};
#endif
}

#ifdef DP_ONE_BLOCK  // a block that is alone waits for its instructions: they are few enough to be kept near
DP_COLD Ext called_mul(Ext a, Ext b) { return inline_mul(a, b); }
DP_HD Ext mul(const Ext& a, const Ext& b) { return called_mul(a, b); }
#else
DP_HD Ext mul(const Ext& a, const Ext& b) { return inline_mul(a, b); }
#endif

// 1 / a = adjugate(a) / norm(a): the first row of the adjugate of the matrix of multiplication by a, and its determinant,
// which is in the base field and zero for zero only.
DP_HD Ext adjugate(const Ext& a) {
  u64 s = add(a.c[0], a.c[2]), t = add(a.c[1], a.c[2]);
  return {{sub(sqr(s), mul(t, a.c[1])), sub(mul(t, a.c[2]), mul(a.c[1], s)), sub(sqr(a.c[1]), mul(s, a.c[2]))}};
}

DP_HD u64 norm(const Ext& a, const Ext& adjugate) {
  return add(add(mul(a.c[0], adjugate.c[0]), mul(a.c[2], adjugate.c[1])), mul(a.c[1], adjugate.c[2]));
}

// 1 / a, zero for zero
DP_HD Ext inverse(const Ext& a) {
  const Ext m = adjugate(a);
  return mul(m, inverse(norm(a, m)));
}

}  // namespace gl
}  // namespace dp
