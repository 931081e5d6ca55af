// The BabyBear field F_p, p = 2^31 - 2^27 + 1, and its extension F_p[x]/(x^4 - 11). The same numbers stand in
// maths/babybear.py.
//
// Elements of the host are canonical. Products inside of a kernel may be in Montgomery form with the radix 2^32: a factor
// that is stored as x 2^32 gives a canonical product with a canonical one. `bb::m` has the arithmetic where all elements
// are in Montgomery form, as tables that stay on a device hold them.
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

// All operands and results in Montgomery form, x 2^32 mod p below p. Sums and differences are `bb::add`, `bb::sub`.
namespace m {

constexpr u32 ONE = montgomery_constant(1);
constexpr u32 W = montgomery_constant(NON_RESIDUE);
constexpr u32 HALF = montgomery_constant((P + 1) / 2);

DP_HD u64 wide(u32 a, u32 b) { return (u64)a * b; }

// x less 2^32 p if it is at least that, for x < 2^33 p: below 2^32 p again.
DP_HD u64 settle(u64 x) { return (u64)least((u32)(x >> 32), (u32)(x >> 32) - P) << 32 | (u32)x; }

// x / 2^32 for a sum x of at most 4 products of elements.
DP_HD u32 reduce4(u64 x) { return reduce(settle(x)); }

DP_HD u32 mul(u32 a, u32 b) { return reduce(wide(a, b)); }

// A sum of products of base elements. It is below 2^32 p between two calls, so any number of products fits.
struct Sum {
  u64 value;

  static DP_HD Sum zero() { return {0}; }
  DP_HD void add(u32 a, u32 b) { value = settle(value + wide(a, b)); }
  // a b + c d: for the price of one `add`, but for the product
  DP_HD void add(u32 a, u32 b, u32 c, u32 d) { value = settle(value + wide(a, b) + wide(c, d)); }
  DP_HD u32 result() const { return reduce(value); }
};

struct Ext {
  u32 c[4];

  static DP_HD Ext zero() { return {{0, 0, 0, 0}}; }
  static DP_HD Ext one() { return {{ONE, 0, 0, 0}}; }
  static DP_HD Ext base(u32 a) { return {{a, 0, 0, 0}}; }
  DP_HD u32 operator[](int i) const { return c[i]; }
  DP_HD u32& operator[](int i) { return c[i]; }
};

DP_HD Ext add(const Ext& a, const Ext& b) {
  return {{bb::add(a[0], b[0]), bb::add(a[1], b[1]), bb::add(a[2], b[2]), bb::add(a[3], b[3])}};
}

DP_HD Ext sub(const Ext& a, const Ext& b) {
  return {{bb::sub(a[0], b[0]), bb::sub(a[1], b[1]), bb::sub(a[2], b[2]), bb::sub(a[3], b[3])}};
}

DP_HD Ext add(const Ext& a, u32 b) { return {{bb::add(a[0], b), a[1], a[2], a[3]}}; }
DP_HD Ext sub(const Ext& a, u32 b) { return {{bb::sub(a[0], b), a[1], a[2], a[3]}}; }
DP_HD Ext mul(const Ext& a, u32 b) { return {{mul(a[0], b), mul(a[1], b), mul(a[2], b), mul(a[3], b)}}; }

// x^4 = 11: a coefficient is a sum of 4 products.
DP_HD Ext mul(const Ext& a, const Ext& b) {
  const u32 w1 = mul(b[1], W), w2 = mul(b[2], W), w3 = mul(b[3], W);
  return {{reduce4(wide(a[0], b[0]) + wide(a[1], w3) + wide(a[2], w2) + wide(a[3], w1)),
           reduce4(wide(a[0], b[1]) + wide(a[1], b[0]) + wide(a[2], w3) + wide(a[3], w2)),
           reduce4(wide(a[0], b[2]) + wide(a[1], b[1]) + wide(a[2], b[0]) + wide(a[3], w3)),
           reduce4(wide(a[0], b[3]) + wide(a[1], b[2]) + wide(a[2], b[1]) + wide(a[3], b[0]))}};
}

DP_HD Ext square(const Ext& a) {
  const u32 d0 = bb::add(a[0], a[0]), d1 = bb::add(a[1], a[1]), w2 = mul(a[2], W), w3 = mul(a[3], W);
  return {{reduce4(wide(a[0], a[0]) + wide(d1, w3) + wide(a[2], w2)),
           reduce4(wide(d0, a[1]) + wide(bb::add(a[2], a[2]), w3)),
           reduce4(wide(d0, a[2]) + wide(a[1], a[1]) + wide(a[3], w3)),
           reduce4(wide(d0, a[3]) + wide(d1, a[2]))}};
}

// a + (b - a) x
DP_HD Ext between(const Ext& a, const Ext& b, const Ext& x) { return add(a, mul(sub(b, a), x)); }

// A sum of products of extension elements with base elements.
struct ExtSum {
  Sum c[4];

  static DP_HD ExtSum zero() { return {{{0}, {0}, {0}, {0}}}; }
  DP_HD void add(const Ext& a, u32 b) {
    DP_PRAGMA(unroll)
    for (int i = 0; i < 4; ++i) c[i].add(a[i], b);
  }
  // a b + d e: for the price of one `add`, but for the products
  DP_HD void add(const Ext& a, u32 b, const Ext& d, u32 e) {
    DP_PRAGMA(unroll)
    for (int i = 0; i < 4; ++i) c[i].add(a[i], b, d[i], e);
  }
  DP_HD Ext result() const { return {{c[0].result(), c[1].result(), c[2].result(), c[3].result()}}; }
};

// A sum of products of extension elements, by powers of x up to x^6.
struct ExtProducts {
  Sum c[7];

  static DP_HD ExtProducts zero() { return {{{0}, {0}, {0}, {0}, {0}, {0}, {0}}}; }
  DP_HD void add(const Ext& a, const Ext& b) {
    c[0].add(a[0], b[0]);
    c[1].add(a[0], b[1], a[1], b[0]);
    c[2].add(a[0], b[2], a[1], b[1]), c[2].add(a[2], b[0]);
    c[3].add(a[0], b[3], a[1], b[2]), c[3].add(a[2], b[1], a[3], b[0]);
    c[4].add(a[1], b[3], a[2], b[2]), c[4].add(a[3], b[1]);
    c[5].add(a[2], b[3], a[3], b[2]);
    c[6].add(a[3], b[3]);
  }
  DP_HD void add(const Ext& a, u32 b) {
    DP_PRAGMA(unroll)
    for (int i = 0; i < 4; ++i) c[i].add(a[i], b);
  }
  DP_HD Ext result() const {
    return {{bb::add(c[0].result(), mul(c[4].result(), W)), bb::add(c[1].result(), mul(c[5].result(), W)),
             bb::add(c[2].result(), mul(c[6].result(), W)), c[3].result()}};
  }
};

#if DP_DEVICE
DP_HD Ext load(const uint4& a) { return {{a.x, a.y, a.z, a.w}}; }
DP_HD uint4 store(const Ext& a) { return make_uint4(a[0], a[1], a[2], a[3]); }
#endif

}  // namespace m
}  // namespace bb
}  // namespace dp
