// The BabyBear field F_p, p = 2^31 - 2^27 + 1, and its extension F_p[x]/(x^4 - 11). The same numbers stand in
// maths/babybear.py.
//
// Elements in memory are canonical. Products inside of a kernel may be in Montgomery form with the radix 2^32: a factor
// that is stored as x 2^32 gives a canonical product with a canonical one.
#pragma once
#include "platform.h"

namespace dp {
namespace bb {

constexpr u32 P = 0x78000001u;
constexpr u32 INVERSE = 0x88000001u;  // of p, mod 2^32
constexpr u32 NON_RESIDUE = 11;
constexpr int TWO_ADICITY = 27;

constexpr u32 montgomery_constant(u64 x) { return (u32)((x << 32) % P); }
constexpr u32 R2 = montgomery_constant(montgomery_constant(1));

DP_HD u32 least(u32 a, u32 b) { return a < b ? a : b; }

// Canonical operands and results. A sum below p wraps to a larger number when p is taken off.
DP_HD u32 add(u32 a, u32 b) { return least(a + b, a + b - P); }
DP_HD u32 sub(u32 a, u32 b) { return least(a - b, a - b + P); }

// x / 2^32 for x < 2^32 p.
DP_HD u32 reduce(u64 x) {
  const u32 high = (u32)(((u64)((u32)x * INVERSE) * P) >> 32);
  return sub((u32)(x >> 32), high);
}

// a b / 2^32
DP_HD u32 mul(u32 a, u32 b) { return reduce((u64)a * b); }
DP_HD u32 to_montgomery(u32 a) { return mul(a, R2); }
DP_HD u32 from_montgomery(u32 a) { return reduce(a); }

// The product of elements of the extension, c = a b, all canonical. Two products of canonical elements are below 2^32 p.
DP_HD void ext_mul(const u32* a, const u32* b, u32* c) {
  const u64 a0 = to_montgomery(a[0]), a1 = to_montgomery(a[1]), a2 = to_montgomery(a[2]), a3 = to_montgomery(a[3]);
  const u64 b0 = b[0], b1 = b[1], b2 = b[2], b3 = b[3];
  constexpr u32 W = montgomery_constant(NON_RESIDUE);
  const u32 h0 = add(reduce(a1 * b3 + a2 * b2), reduce(a3 * b1)), h1 = reduce(a2 * b3 + a3 * b2), h2 = reduce(a3 * b3);
  c[0] = add(reduce(a0 * b0), mul(h0, W));
  c[1] = add(reduce(a0 * b1 + a1 * b0), mul(h1, W));
  c[2] = add(add(reduce(a0 * b2 + a1 * b1), reduce(a2 * b0)), mul(h2, W));
  c[3] = add(reduce(a0 * b3 + a1 * b2), reduce(a2 * b1 + a3 * b0));
}

}  // namespace bb
}  // namespace dp
