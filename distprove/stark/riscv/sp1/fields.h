// Fields of 256 bits and the groups of curves over them, by the host call for products. Every constant is in instructions,
// as a store of the guest could change what lies in memory between two calls.
#pragma once
#include "guest.h"

enum { WORDS = 8 };

typedef struct {
  ModularProduct product;
  uint32_t one[WORDS], minus_one[WORDS];
} Field;

typedef enum { SECP256K1, SECP256R1, BN254, ED25519 } Curve;

static void set(uint32_t* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f, uint32_t g, uint32_t h) {
  to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
}

// The field of a curve's coordinates.
static void open_field(Field* f, Curve curve) {
  uint32_t* const m = f->product.modulus;
  if (curve == SECP256K1)
    set(m, 0xfffffc2f, 0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff);
  else if (curve == SECP256R1)
    set(m, 0xffffffff, 0xffffffff, 0xffffffff, 0, 0, 0, 1, 0xffffffff);
  else if (curve == ED25519)
    set(m, 0xffffffed, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x7fffffff);
  else
    set(m, 0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72);
  set(f->one, 1, 0, 0, 0, 0, 0, 0, 0);
  for (int i = 0; i < WORDS; ++i) f->minus_one[i] = m[i] - (i == 0);
}

// x y + added, where 0 adds nothing. x or y is below the modulus.
static void multiply(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y, const uint32_t* added) {
  f->product.result = out;
  f->product.x = x;
  f->product.y = y;
  f->product.addend = added;
  if (added)
    multiply_add_modulo(&f->product);
  else
    multiply_modulo(&f->product);
}

// Any numbers of 256 bits.
static void plus(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, x, f->one, y); }
static void minus(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, y, f->minus_one, x); }

static void times(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  uint32_t reduced[WORDS];
  multiply(f, reduced, x, f->one, 0);
  multiply(f, out, reduced, y, 0);
}

// A product of numbers of which one is below the modulus.
static void mul(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, x, y, 0); }

static int is_zero(const uint32_t* x) {
  uint32_t any = 0;
  for (int i = 0; i < WORDS; ++i) any |= x[i];
  return any == 0;
}

// 1 / x by Fermat, four bits of the exponent at a time. x is below the modulus, whose lowest word is 2 at least.
static void invert(Field* f, uint32_t* out, const uint32_t* x) {
  uint32_t powers[16][WORDS];
  mul(f, powers[0], f->one, f->one);
  for (int i = 1; i < 16; ++i) mul(f, powers[i], powers[i - 1], x);
  uint32_t result[WORDS];
  mul(f, result, f->one, f->one);
  for (int i = 8 * WORDS - 1; i >= 0; --i) {
    for (int k = 0; k < 4; ++k) mul(f, result, result, result);
    const uint32_t word = f->product.modulus[i / 8] - (i < 8 ? 2 : 0);
    mul(f, result, result, powers[word >> 4 * (i % 8) & 15]);
  }
  mul(f, out, result, f->one);
}

// The third point on the line through p with this slope, whose second point has the coordinate x: reflected, to p.
static void follow(Field* f, uint32_t* p, const uint32_t* slope, const uint32_t* x) {
  uint32_t sum[WORDS], third[WORDS];
  plus(f, sum, p, x);
  mul(f, third, slope, slope);
  minus(f, third, third, sum);
  minus(f, sum, p, third);
  mul(f, sum, sum, slope);
  minus(f, p + WORDS, sum, p + WORDS);
  mul(f, p, third, f->one);
}

// p += q, affine. 0 for points with one x, which have no sum by this formula.
static int add_points(Field* f, uint32_t* p, const uint32_t* q) {
  uint32_t slope[WORDS], run[WORDS], x[WORDS];
  minus(f, run, q, p);
  if (is_zero(run)) return 0;
  minus(f, slope, q + WORDS, p + WORDS);
  invert(f, run, run);
  mul(f, slope, slope, run);
  mul(f, x, q, f->one);
  follow(f, p, slope, x);
  return 1;
}

// p += p. 0 for a point of order 2.
static int double_point(Field* f, uint32_t* p, Curve curve) {
  uint32_t slope[WORDS], run[WORDS], x[WORDS], three[WORDS];
  set(three, 3, 0, 0, 0, 0, 0, 0, 0);
  plus(f, run, p + WORDS, p + WORDS);
  if (is_zero(run)) return 0;
  invert(f, run, run);
  mul(f, x, p, f->one);
  multiply(f, slope, x, x, curve == SECP256R1 ? f->minus_one : 0);  // of P-256, a is -3
  mul(f, slope, slope, three);
  mul(f, slope, slope, run);
  follow(f, p, slope, x);
  return 1;
}

// p += q on the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2, affine. 0 for points that are not on the curve, and have no
// sum by this formula.
static int add_edwards(Field* f, uint32_t* p, const uint32_t* q) {
  uint32_t d[WORDS], cross[WORDS], part[WORDS], x[WORDS], y[WORDS], both[WORDS], under[WORDS];
  set(d, 0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d, 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee);
  times(f, cross, p, q + WORDS);
  times(f, part, q, p + WORDS);
  plus(f, x, cross, part);
  mul(f, d, d, cross);
  mul(f, d, d, part);
  times(f, y, p + WORDS, q + WORDS);
  times(f, part, p, q);
  plus(f, y, y, part);
  plus(f, part, d, f->one);
  minus(f, under, f->one, d);
  mul(f, both, part, under);
  if (is_zero(both)) return 0;
  invert(f, both, both);
  mul(f, x, x, under);
  mul(f, y, y, part);
  mul(f, p, x, both);
  mul(f, p + WORDS, y, both);
  return 1;
}

// (x0 + x1 u) (y0 + y1 u) with u^2 = -1, to x.
static void multiply_pairs(Field* f, uint32_t* x, const uint32_t* y) {
  uint32_t low[WORDS], high[WORDS], part[WORDS];
  times(f, low, x, y);
  times(f, part, x + WORDS, y + WORDS);
  minus(f, low, low, part);
  times(f, high, x, y + WORDS);
  times(f, part, x + WORDS, y);
  plus(f, x + WORDS, high, part);
  mul(f, x, low, f->one);
}
