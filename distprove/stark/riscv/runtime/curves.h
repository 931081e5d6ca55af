// Fields of 256 or 384 bits and the groups of curves over them, for guests in C, by the host calls for products and points: numbers
// have 8 words, or 12 over BLS12-381, the lowest first. A point is x and then y. Every constant is in instructions: the handler of
// SP1's calls uses this, and a store of its guest could change what lies in memory between two calls.
#pragma once
#include "guest.h"

enum { FIELD_WORDS = 12 };

typedef uint32_t FieldNumber[FIELD_WORDS];

typedef enum { SECP256K1, SECP256R1, BN254, ED25519, BLS12_381 } Curve;

typedef struct {
  ModularProduct384 product;  // for numbers of 8 words its beginning
  int words;                  // of a number, 8 or 12
  Curve curve;
  FieldNumber one, minus_one;
} Field;

static inline void field_set(uint32_t* to, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f, uint32_t g,
                             uint32_t h) {
  to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
}

// The field of a curve's coordinates.
static inline void field_open(Field* f, Curve curve) {
  uint32_t* const m = f->product.modulus;
  if (curve == SECP256K1)
    field_set(m, 0xfffffc2f, 0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff);
  else if (curve == SECP256R1)
    field_set(m, 0xffffffff, 0xffffffff, 0xffffffff, 0, 0, 0, 1, 0xffffffff);
  else if (curve == ED25519)
    field_set(m, 0xffffffed, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x7fffffff);
  else if (curve == BN254)
    field_set(m, 0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72);
  else {
    field_set(m, 0xffffaaab, 0xb9feffff, 0xb153ffff, 0x1eabfffe, 0xf6b0f624, 0x6730d2a0, 0xf38512bf, 0x64774b84);
    field_set(m + 4, 0xf6b0f624, 0x6730d2a0, 0xf38512bf, 0x64774b84, 0x434bacd7, 0x4b1ba7b6, 0x397fe69a, 0x1a0111ea);
  }
  f->curve = curve;
  f->words = curve == BLS12_381 ? 12 : 8;
  for (int i = 0; i < f->words; ++i) f->one[i] = i == 0, f->minus_one[i] = m[i] - (i == 0);
}

// x y + added, where 0 adds nothing. x or y is below the modulus.
static inline void field_product(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y, const uint32_t* added) {
  f->product.result = guest_address(out);
  f->product.x = guest_address(x);
  f->product.y = guest_address(y);
  f->product.addend = guest_address(added);
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

// Sum, difference and product of any numbers of so many words. The result may be in the place of an operand.
static inline void field_add(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  field_product(f, out, x, f->one, y);
}

static inline void field_subtract(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  field_product(f, out, y, f->minus_one, x);
}

static inline void field_multiply(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  FieldNumber reduced;
  field_product(f, reduced, x, f->one, 0);
  field_product(f, out, reduced, y, 0);
}

// A product of numbers of which one is below the modulus.
static inline void field_multiply_reduced(Field* f, uint32_t* out, const uint32_t* x, const uint32_t* y) {
  field_product(f, out, x, y, 0);
}

static inline int field_is_zero(const Field* f, const uint32_t* x) {
  uint32_t any = 0;
  for (int i = 0; i < f->words; ++i) any |= x[i];
  return any == 0;
}

static inline int field_is_reduced(const Field* f, const uint32_t* x) {
  for (int i = f->words - 1; i >= 0; --i)
    if (x[i] != f->product.modulus[i]) return x[i] < f->product.modulus[i];
  return 0;
}

// 1 / x by Fermat, four bits of the exponent at a time. x is below the modulus, whose lowest word is 2 at least.
static inline void field_invert(Field* f, uint32_t* out, const uint32_t* x) {
  FieldNumber powers[16];
  field_multiply_reduced(f, powers[0], f->one, f->one);
  for (int i = 1; i < 16; ++i) field_multiply_reduced(f, powers[i], powers[i - 1], x);
  FieldNumber result;
  field_multiply_reduced(f, result, f->one, f->one);
  for (int i = 8 * f->words - 1; i >= 0; --i) {
    for (int k = 0; k < 4; ++k) field_multiply_reduced(f, result, result, result);
    const uint32_t word = f->product.modulus[i / 8] - (i < 8 ? 2 : 0);
    field_multiply_reduced(f, result, result, powers[word >> 4 * (i % 8) & 15]);
  }
  field_multiply_reduced(f, out, result, f->one);
}

// p += q, affine. But for Ed25519, points with one x are a trap, and coordinates that are not reduced.
static inline void point_add(Curve curve, uint32_t* p, const uint32_t* q) {
  if (curve == SECP256K1)
    secp256k1_add(p, q);
  else if (curve == SECP256R1)
    secp256r1_add(p, q);
  else if (curve == BN254)
    bn254_add(p, q);
  else if (curve == ED25519)
    ed25519_add(p, q);
  else
    bls12_381_add(p, q);
}

// p += p. But for Ed25519, a point of order 2 is a trap.
static inline void point_double(Curve curve, uint32_t* p) {
  if (curve == SECP256K1)
    secp256k1_double(p);
  else if (curve == SECP256R1)
    secp256r1_double(p);
  else if (curve == BN254)
    bn254_double(p);
  else if (curve == ED25519)
    ed25519_add(p, p);
  else
    bls12_381_double(p);
}

// The x of the point of Ed25519 with this y, and with `sign` as the lowest bit of x (RFC 8032, 5.1.3), but x = 0 has both signs. 0 for
// a y of no point, or one that is not reduced.
static inline int edwards_decompress(Field* f, uint32_t* x, const uint32_t* y, uint32_t sign) {
  FieldNumber u, v, d, third, power, root, square;
  field_set(d, 0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d, 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee);
  if (!field_is_reduced(f, y)) return 0;
  field_multiply_reduced(f, u, y, y);
  field_multiply_reduced(f, v, u, d);
  field_add(f, v, v, f->one);
  field_subtract(f, u, u, f->one);
  // x = u v^3 (u v^7)^((q - 5) / 8), where the exponent is 2^252 - 3
  field_multiply_reduced(f, third, v, v);
  field_multiply_reduced(f, third, third, v);
  field_multiply_reduced(f, power, third, third);
  field_multiply_reduced(f, power, power, v);
  field_multiply_reduced(f, power, power, u);
  for (int i = 0; i < 8; ++i) root[i] = power[i];
  for (int i = 250; i >= 0; --i) {
    field_multiply_reduced(f, root, root, root);
    if (i != 1) field_multiply_reduced(f, root, root, power);
  }
  field_multiply_reduced(f, root, root, third);
  field_multiply_reduced(f, root, root, u);
  field_multiply_reduced(f, square, root, root);
  field_multiply_reduced(f, square, square, v);
  field_subtract(f, third, square, u);
  if (!field_is_zero(f, third)) {
    field_add(f, third, square, u);
    if (!field_is_zero(f, third)) return 0;
    field_set(d, 0x4a0ea0b0, 0xc4ee1b27, 0xad2fe478, 0x2f431806, 0x3dfbd7a7, 0x2b4d0099, 0x4fc1df0b, 0x2b832480);
    field_multiply_reduced(f, root, root, d);
  }
  if ((root[0] & 1) != sign) field_multiply_reduced(f, root, root, f->minus_one);
  for (int i = 0; i < 8; ++i) x[i] = root[i];
  return 1;
}

// (x0 + x1 u) (y0 + y1 u) with u^2 = -1, to x.
static inline void pair_multiply(Field* f, uint32_t* x, const uint32_t* y) {
  FieldNumber low, high, part;
  field_multiply(f, low, x, y);
  field_multiply(f, part, x + f->words, y + f->words);
  field_subtract(f, low, low, part);
  field_multiply(f, high, x, y + f->words);
  field_multiply(f, part, x + f->words, y);
  field_add(f, x + f->words, high, part);
  field_multiply_reduced(f, x, low, f->one);
}
