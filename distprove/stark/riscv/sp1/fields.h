// Fields of 256 or 384 bits and the groups of curves over them, by the host calls for products. Every constant is in instructions,
// as a store of the guest could change what lies in memory between two calls.
#pragma once
#include "guest.h"

enum { MOST_WORDS = 12 };

typedef uint32_t Number[MOST_WORDS];

typedef struct {
  ModularProduct384 product;  // for numbers of 8 words its beginning
  int words;                  // of a number, 8 or 12
  Number one, minus_one;
} Field;

typedef enum { SECP256K1, SECP256R1, BN254, ED25519, BLS12_381 } Curve;

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
  else if (curve == BN254)
    set(m, 0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72);
  else
    set(m, 0xffffaaab, 0xb9feffff, 0xb153ffff, 0x1eabfffe, 0xf6b0f624, 0x6730d2a0, 0xf38512bf, 0x64774b84),
        set(m + 4, 0xf6b0f624, 0x6730d2a0, 0xf38512bf, 0x64774b84, 0x434bacd7, 0x4b1ba7b6, 0x397fe69a, 0x1a0111ea);
  f->words = curve == BLS12_381 ? 12 : 8;
  for (int i = 0; i < f->words; ++i) f->one[i] = i == 0, f->minus_one[i] = m[i] - (i == 0);
}

// x y + added, where 0 adds nothing. x or y is below the modulus.
static void multiply(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y, const uint32_t* added) {
  f->product.result = out;
  f->product.x = x;
  f->product.y = y;
  f->product.addend = added;
  if (f->words == 12) {
    if (added)
      multiply_add_modulo_384(&f->product);
    else
      multiply_modulo_384(&f->product);
  } else if (added) {
    multiply_add_modulo((ModularProduct*)&f->product);
  } else {
    multiply_modulo((ModularProduct*)&f->product);
  }
}

// Any numbers of so many words.
static void plus(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, x, f->one, y); }
static void minus(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, y, f->minus_one, x); }

static void times(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  Number reduced;
  multiply(f, reduced, x, f->one, 0);
  multiply(f, out, reduced, y, 0);
}

// A product of numbers of which one is below the modulus.
static void mul(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) { multiply(f, out, x, y, 0); }

static int is_zero(const Field* f, const uint32_t* x) {
  uint32_t any = 0;
  for (int i = 0; i < f->words; ++i) any |= x[i];
  return any == 0;
}

// 1 / x by Fermat, four bits of the exponent at a time. x is below the modulus, whose lowest word is 2 at least.
static void invert(Field* f, uint32_t* out, const uint32_t* x) {
  Number powers[16];
  mul(f, powers[0], f->one, f->one);
  for (int i = 1; i < 16; ++i) mul(f, powers[i], powers[i - 1], x);
  Number result;
  mul(f, result, f->one, f->one);
  for (int i = 8 * f->words - 1; i >= 0; --i) {
    for (int k = 0; k < 4; ++k) mul(f, result, result, result);
    const uint32_t word = f->product.modulus[i / 8] - (i < 8 ? 2 : 0);
    mul(f, result, result, powers[word >> 4 * (i % 8) & 15]);
  }
  mul(f, out, result, f->one);
}

// The third point on the line through p with this slope, whose second point has the coordinate x: reflected, to p.
static void follow(Field* f, uint32_t* p, const uint32_t* slope, const uint32_t* x) {
  Number sum, third;
  plus(f, sum, p, x);
  mul(f, third, slope, slope);
  minus(f, third, third, sum);
  minus(f, sum, p, third);
  mul(f, sum, sum, slope);
  minus(f, p + f->words, sum, p + f->words);
  mul(f, p, third, f->one);
}

// p += q, affine. 0 for points with one x, which have no sum by this formula.
static int add_points(Field* f, uint32_t* p, const uint32_t* q) {
  Number slope, run, x;
  minus(f, run, q, p);
  if (is_zero(f, run)) return 0;
  minus(f, slope, q + f->words, p + f->words);
  invert(f, run, run);
  mul(f, slope, slope, run);
  mul(f, x, q, f->one);
  follow(f, p, slope, x);
  return 1;
}

// p += p. 0 for a point of order 2.
static int double_point(Field* f, uint32_t* p, Curve curve) {
  Number slope, run, x, three;
  for (int i = 0; i < f->words; ++i) three[i] = i == 0 ? 3 : 0;
  plus(f, run, p + f->words, p + f->words);
  if (is_zero(f, run)) return 0;
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
  Number d, cross, part, x, y, both, under;
  set(d, 0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d, 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee);
  times(f, cross, p, q + f->words);
  times(f, part, q, p + f->words);
  plus(f, x, cross, part);
  mul(f, d, d, cross);
  mul(f, d, d, part);
  times(f, y, p + f->words, q + f->words);
  times(f, part, p, q);
  plus(f, y, y, part);
  plus(f, part, d, f->one);
  minus(f, under, f->one, d);
  mul(f, both, part, under);
  if (is_zero(f, both)) return 0;
  invert(f, both, both);
  mul(f, x, x, under);
  mul(f, y, y, part);
  mul(f, p, x, both);
  mul(f, p + f->words, y, both);
  return 1;
}

// (x0 + x1 u) (y0 + y1 u) with u^2 = -1, to x.
static void multiply_pairs(Field* f, uint32_t* x, const uint32_t* y) {
  Number low, high, part;
  times(f, low, x, y);
  times(f, part, x + f->words, y + f->words);
  minus(f, low, low, part);
  times(f, high, x, y + f->words);
  times(f, part, x + f->words, y);
  plus(f, x + f->words, high, part);
  mul(f, x, low, f->one);
}
