// ECDSA over secp256k1 (SEC 1, section 4.1.4; SEC 2, section 2.4.1). Public input, big-endian numbers of 32 bytes: the hash
// of the message, the public key's x and y, the signature's r and s. Public output: 1 if it is valid, else 0. Exit code 0.
#include "guest.h"

enum { LIMBS = 8 };

typedef struct {
  uint32_t v[LIMBS];  // least significant first
} Number;

typedef struct {
  Number m, one, square;  // modulus; R and R^2 modulo it, R = 2^256
#ifdef PRECOMPILE
  Number minus_one;
#else
  uint32_t inverse;  // -1 / m modulo 2^32
#endif
} Modulus;

static Modulus P = {.m = {{0xfffffc2f, 0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}};
static Modulus N = {.m = {{0xd0364141, 0xbfd25e8c, 0xaf48a03b, 0xbaaedce6, 0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff}}};
#ifdef PRECOMPILE
static ModularProduct of_p, of_n;
#endif
static const Number GX = {{0x16f81798, 0x59f2815b, 0x2dce28d9, 0x029bfcdb, 0xce870b07, 0x55a06295, 0xf9dcbbac, 0x79be667e}};
static const Number GY = {{0xfb10d4b8, 0x9c47d08f, 0xa6855419, 0xfd17b448, 0x0e1108a8, 0x5da4fbfc, 0x26a3c465, 0x483ada77}};

static uint32_t sub(Number* out, const Number* a, const Number* b) {
  uint32_t borrow = 0;
  for (int i = 0; i < LIMBS; ++i) {
    const uint64_t d = (uint64_t)a->v[i] - b->v[i] - borrow;
    out->v[i] = (uint32_t)d;
    borrow = (uint32_t)(d >> 63);
  }
  return borrow;
}

static int less(const Number* a, const Number* b) {
  Number ignored;
  return (int)sub(&ignored, a, b);
}

static int is_zero(const Number* a) {
  uint32_t any = 0;
  for (int i = 0; i < LIMBS; ++i) any |= a->v[i];
  return any == 0;
}

static int equal(const Number* a, const Number* b) {
  uint32_t any = 0;
  for (int i = 0; i < LIMBS; ++i) any |= a->v[i] ^ b->v[i];
  return any == 0;
}

#ifdef PRECOMPILE
// Products and sums by the host calls: numbers are not in Montgomery form, whose factors are 1.
static const Number ONE = {{1}};

static void product(Number* out, const Number* a, const Number* b, const Number* addend, Modulus* m) {
  ModularProduct* const call = m == &P ? &of_p : &of_n;
  call->result = guest_address(out->v);
  call->x = guest_address(a->v);
  call->y = guest_address(b->v);
  if (addend) {
    call->addend = guest_address(addend->v);
    multiply_add_modulo(call);
  } else {
    multiply_modulo(call);
  }
}

static void mod_add(Number* out, const Number* a, const Number* b, Modulus* m) { product(out, a, &ONE, b, m); }
__attribute__((unused)) static void mod_sub(Number* out, const Number* a, const Number* b, Modulus* m) {
  product(out, b, &m->minus_one, a, m);
}
static void mul(Number* out, const Number* a, const Number* b, Modulus* m) { product(out, a, b, 0, m); }

static void prepare(Modulus* m) {
  ModularProduct* const call = m == &P ? &of_p : &of_n;
  for (int i = 0; i < LIMBS; ++i) call->modulus[i] = m->m.v[i];
  sub(&m->minus_one, &m->m, &ONE);
  m->one = m->square = ONE;
}
#else
static uint32_t add(Number* out, const Number* a, const Number* b) {
  uint64_t carry = 0;
  for (int i = 0; i < LIMBS; ++i) {
    carry += (uint64_t)a->v[i] + b->v[i];
    out->v[i] = (uint32_t)carry;
    carry >>= 32;
  }
  return (uint32_t)carry;
}

static void mod_add(Number* out, const Number* a, const Number* b, const Modulus* m) {
  const uint32_t carry = add(out, a, b);
  if (carry || !less(out, &m->m)) sub(out, out, &m->m);
}

static void mod_sub(Number* out, const Number* a, const Number* b, const Modulus* m) {
  if (sub(out, a, b)) add(out, out, &m->m);
}

// a * b / R modulo m (Montgomery, coarsely integrated operand scanning).
static void mul(Number* out, const Number* a, const Number* b, const Modulus* m) {
  uint32_t t[LIMBS + 2] = {0};
  for (int i = 0; i < LIMBS; ++i) {
    uint64_t carry = 0;
    for (int k = 0; k < LIMBS; ++k) {
      carry += (uint64_t)a->v[k] * b->v[i] + t[k];
      t[k] = (uint32_t)carry;
      carry >>= 32;
    }
    carry += t[LIMBS];
    t[LIMBS] = (uint32_t)carry;
    t[LIMBS + 1] = (uint32_t)(carry >> 32);
    const uint32_t q = t[0] * m->inverse;
    carry = ((uint64_t)q * m->m.v[0] + t[0]) >> 32;
    for (int k = 1; k < LIMBS; ++k) {
      carry += (uint64_t)q * m->m.v[k] + t[k];
      t[k - 1] = (uint32_t)carry;
      carry >>= 32;
    }
    carry += t[LIMBS];
    t[LIMBS - 1] = (uint32_t)carry;
    t[LIMBS] = t[LIMBS + 1] + (uint32_t)(carry >> 32);
  }
  Number result;
  for (int i = 0; i < LIMBS; ++i) result.v[i] = t[i];
  if (t[LIMBS] || !less(&result, &m->m)) sub(&result, &result, &m->m);
  *out = result;
}

static void prepare(Modulus* m) {
  uint32_t inverse = 1;  // Newton's iteration: each step doubles the bits that are right
  for (int i = 0; i < 5; ++i) inverse *= 2 - m->m.v[0] * inverse;
  m->inverse = -inverse;
  const Number zero = {{0}};
  sub(&m->one, &zero, &m->m);  // 2^256 - m, below m
  m->square = m->one;
  for (int i = 0; i < 256; ++i) mod_add(&m->square, &m->square, &m->square, m);
}

#endif

// 1 / a, by Fermat.
static void invert(Number* out, const Number* a, Modulus* m) {
  const Number two = {{2}};
  Number exponent, result = m->one, base = *a;
  sub(&exponent, &m->m, &two);
  for (int i = 255; i >= 0; --i) {
    mul(&result, &result, &result, m);
    if (exponent.v[i / 32] >> (i % 32) & 1) mul(&result, &result, &base, m);
  }
  *out = result;
}

#ifdef POINTS
// In affine coordinates; z = 0 is the point at infinity, and z = 1 any other.
typedef struct {
  Number x, y, z;
} Point;

static void twice(Point* out, const Point* p) {
  if (out != p) *out = *p;
  if (out->z.v[0]) secp256k1_double((uint32_t*)out);  // no point has y = 0, as the group has an odd order
}

// `equal`, over at the first word that differs.
static int same(const Number* a, const Number* b) {
  for (int i = 0; i < LIMBS; ++i)
    if (a->v[i] != b->v[i]) return 0;
  return 1;
}

static void plus(Point* out, const Point* p, const Point* q) {
  if (!q->z.v[0]) {
    if (out != p) *out = *p;
  } else if (!p->z.v[0]) {
    *out = *q;
  } else if (!same(&p->x, &q->x)) {
    if (out != p) *out = *p;
    secp256k1_add((uint32_t*)out, (const uint32_t*)q);
  } else if (same(&p->y, &q->y)) {
    twice(out, p);
  } else {
    *out = (Point){.x = P.one, .y = P.one};
  }
}
#else
// In Jacobian coordinates, in Montgomery form; z = 0 is the point at infinity.
typedef struct {
  Number x, y, z;
} Point;

static void twice(Point* out, const Point* p) {
  Number a, b, c, d, e, f;
  mul(&a, &p->x, &p->x, &P);
  mul(&b, &p->y, &p->y, &P);
  mul(&c, &b, &b, &P);
  mul(&d, &p->x, &b, &P);
  mod_add(&d, &d, &d, &P);
  mod_add(&d, &d, &d, &P);  // 4 x y^2
  mod_add(&e, &a, &a, &P);
  mod_add(&e, &e, &a, &P);  // 3 x^2
  mul(&f, &p->y, &p->z, &P);
  mod_add(&out->z, &f, &f, &P);
  mul(&f, &e, &e, &P);
  mod_sub(&f, &f, &d, &P);
  mod_sub(&out->x, &f, &d, &P);
  mod_sub(&d, &d, &out->x, &P);
  mul(&d, &d, &e, &P);
  for (int i = 0; i < 3; ++i) mod_add(&c, &c, &c, &P);  // 8 y^4
  mod_sub(&out->y, &d, &c, &P);
}

static void plus(Point* out, const Point* p, const Point* q) {
  if (is_zero(&p->z)) {
    *out = *q;
    return;
  }
  if (is_zero(&q->z)) {
    *out = *p;
    return;
  }
  Number pz, qz, u1, u2, s1, s2, h, r, hh, hhh, v;
  mul(&pz, &p->z, &p->z, &P);
  mul(&qz, &q->z, &q->z, &P);
  mul(&u1, &p->x, &qz, &P);
  mul(&u2, &q->x, &pz, &P);
  mul(&s1, &p->y, &qz, &P);
  mul(&s1, &s1, &q->z, &P);
  mul(&s2, &q->y, &pz, &P);
  mul(&s2, &s2, &p->z, &P);
  mod_sub(&h, &u2, &u1, &P);
  mod_sub(&r, &s2, &s1, &P);
  if (is_zero(&h)) {
    if (is_zero(&r)) {
      twice(out, p);
    } else {
      *out = (Point){.x = P.one, .y = P.one};
    }
    return;
  }
  mul(&hh, &h, &h, &P);
  mul(&hhh, &hh, &h, &P);
  mul(&v, &u1, &hh, &P);
  Point sum;
  mul(&sum.z, &p->z, &q->z, &P);
  mul(&sum.z, &sum.z, &h, &P);
  mul(&sum.x, &r, &r, &P);
  mod_sub(&sum.x, &sum.x, &hhh, &P);
  mod_sub(&sum.x, &sum.x, &v, &P);
  mod_sub(&sum.x, &sum.x, &v, &P);
  mod_sub(&v, &v, &sum.x, &P);
  mul(&sum.y, &v, &r, &P);
  mul(&s1, &s1, &hhh, &P);
  mod_sub(&sum.y, &sum.y, &s1, &P);
  *out = sum;
}
#endif

static Number number(const uint8_t* bytes) {
  Number out;
  for (int i = 0; i < LIMBS; ++i) {
    const uint8_t* b = bytes + 28 - 4 * i;
    out.v[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
  }
  return out;
}

static int verify(Number hash, Number x, Number y, Number r, Number s) {
  if (is_zero(&r) || is_zero(&s) || !less(&r, &N.m) || !less(&s, &N.m)) return 0;
  if (!less(&x, &P.m) || !less(&y, &P.m)) return 0;
  // The public key is on the curve: y^2 = x^3 + 7.
  Point key = {.z = P.one};
  mul(&key.x, &x, &P.square, &P);
  mul(&key.y, &y, &P.square, &P);
  Number left, right, seven = {{7}};
  mul(&left, &key.y, &key.y, &P);
  mul(&right, &key.x, &key.x, &P);
  mul(&right, &right, &key.x, &P);
  mul(&seven, &seven, &P.square, &P);
  mod_add(&right, &right, &seven, &P);
  if (!equal(&left, &right)) return 0;
  // u1 = hash / s and u2 = r / s: the Montgomery factor of the inverse goes with the product.
  Number inverse, u1, u2;
  if (!less(&hash, &N.m)) sub(&hash, &hash, &N.m);
  mul(&inverse, &s, &N.square, &N);
  invert(&inverse, &inverse, &N);
  mul(&u1, &hash, &inverse, &N);
  mul(&u2, &r, &inverse, &N);
  // u1 G + u2 Q, both bits of a place at once.
  Point table[4] = {{.x = P.one, .y = P.one}, {.z = P.one}, key, {.z = P.one}}, sum = table[0];
  mul(&table[1].x, &GX, &P.square, &P);
  mul(&table[1].y, &GY, &P.square, &P);
  plus(&table[3], &table[1], &key);
  for (int i = 255; i >= 0; --i) {
    twice(&sum, &sum);
    const uint32_t bits = (u1.v[i / 32] >> (i % 32) & 1) | (u2.v[i / 32] >> (i % 32) & 1) << 1;
    if (bits) plus(&sum, &sum, &table[bits]);
  }
  if (is_zero(&sum.z)) return 0;
#ifdef POINTS
  Number affine = sum.x;
#else
  // x / z^2 modulo p, then modulo n.
  Number inverse_z, affine;
  const Number plain = {{1}};
  invert(&inverse_z, &sum.z, &P);
  mul(&inverse_z, &inverse_z, &inverse_z, &P);
  mul(&affine, &sum.x, &inverse_z, &P);
  mul(&affine, &affine, &plain, &P);
#endif
  if (!less(&affine, &N.m)) sub(&affine, &affine, &N.m);
  return equal(&affine, &r);
}

int main(void) {
  uint8_t input[5 * 32];
  if (read_public(input, sizeof input) != sizeof input) return 1;
  prepare(&P);
  prepare(&N);
  write_word((uint32_t)verify(number(input), number(input + 32), number(input + 64), number(input + 96), number(input + 128)));
  return 0;
}
