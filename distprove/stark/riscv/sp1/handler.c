// Answers the calls of SP1's guests with those of this machine; docs/riscv.md, "Guests of SP1".
//
// A guest's stray store can change every word that lies here in memory, constants too, as the tables know no memory that
// is read-only. So nothing in memory decides what is public: a committed word goes to the output in the call itself, and
// constants and jumps are in the instructions (handler.ld and the flags in the Makefile see to it). What is kept between
// calls is about the input, which a prover chooses anyway, or only shown.
#include "curves.h"
#include "guest.h"

enum {
  HALT = 0x00, WRITE = 0x02, COMMIT = 0x10, COMMIT_DEFERRED = 0x1a, HINT_LEN = 0xf0, HINT_READ = 0xf1,
  SHA_EXTEND = 0x300105, SHA_COMPRESS = 0x010106, KECCAK_PERMUTE = 0x010109, UINT256_MUL = 0x01011d,
  SECP256K1_ADD = 0x01010a, SECP256K1_DOUBLE = 0x00010b, SECP256R1_ADD = 0x01012c, SECP256R1_DOUBLE = 0x00012d,
  ED_ADD = 0x010107, ED_DECOMPRESS = 0x000108, BN254_ADD = 0x01010e, BN254_DOUBLE = 0x00010f, BN254_FP_ADD = 0x010126, BN254_FP2_MUL = 0x01012b,
  BLS12381_ADD = 0x01011e, BLS12381_DOUBLE = 0x00011f, BLS12381_FP_ADD = 0x010120, BLS12381_FP2_MUL = 0x010125,
  STDOUT = 1, STDERR = 2, PUBLIC_VALUES_BEFORE_4 = 3, PUBLIC_VALUES = 13,
};

// Public values as they were written: their size, then the bytes. `distprove run` reads them here.
#define VALUES_SIZE (*(volatile uint32_t*)0xf1000000)
#define VALUES ((uint8_t*)0xf1000004)
enum { MOST_VALUES = 0x0e000000 };

static uint32_t committed;        // words of the digest so far
static uint32_t opened, left;     // bytes of the private input that are not read; once `opened`
static uint32_t measured, size;   // of the buffer that comes next; once `measured`

// The end of a guest's memory. A pointer beyond it would reach the handler's own words, and a guest's memory is all that
// its calls may read and write: sizes come from the input, which a prover chooses.
enum { MEMORY_END = 0x78000000 };

// A call that is not answered traps as an unknown one, with bit 31 set.
__attribute__((noreturn)) static void refuse(uint32_t code) {
  guest_call(code | 0x80000000u, 0);
  __builtin_unreachable();
}

// Refuse a call for what does not lie in the guest's memory, or passes its end.
static void must_have(uint32_t address, uint32_t bytes, uint32_t code) {
  if (address > MEMORY_END || bytes > MEMORY_END - address) refuse(code);
}

// The size of the next buffer, all ones behind the last.
static uint32_t next_size(void) {
  if (!opened) opened = 1, left = read_private_word();
  if (!measured) {
    if (left == 0) return ~0u;
    size = read_private_word();
    left -= 4;
    measured = 1;
  }
  return size;
}

static void read_next(uint32_t* to, uint32_t wanted, uint32_t code) {
  if (next_size() == ~0u || wanted != size || ((uint32_t)to & 3) != 0) refuse(code);
  must_have((uint32_t)to, wanted, code);
  const uint32_t words = wanted / 4 + (wanted % 4 != 0);
  for (uint32_t i = 0; i < words; ++i) to[i] = read_private_word();
  left -= 4 * words;
  measured = 0;
}

static void keep(const uint8_t* from, uint32_t count, uint32_t code) {
  must_have((uint32_t)from, count, code);
  const uint32_t known = VALUES_SIZE;
  if (known > MOST_VALUES || count > MOST_VALUES - known) refuse(code);
  for (uint32_t i = 0; i < count; ++i) VALUES[known + i] = from[i];
  VALUES_SIZE = known + count;
}

static void compress(const uint32_t* schedule, uint32_t* state) {
  Sha256 hash = {.message = schedule};
  for (int i = 0; i < 8; ++i) hash.state[i] = state[i];
  sha256_compress(&hash);
  for (int i = 0; i < 8; ++i) state[i] = hash.state[i];
}

// x = x y modulo what lies behind y.
static void multiply_numbers(uint32_t* x, const uint32_t* y) {
  ModularProduct product = {.result = x, .x = x, .y = y};
  for (int i = 0; i < 8; ++i) product.modulus[i] = y[8 + i];
  multiply_modulo(&product);
}

// Add `q` to the point `p`, or `p` to itself.
static void add_on(Curve curve, uint32_t* p, const uint32_t* q, uint32_t code) {
  Field field;
  field_open(&field, curve);
  must_have((uint32_t)p, 8 * field.words, code);
  must_have((uint32_t)q, 8 * field.words, code);
  if (!(q == p ? point_double(&field, p) : point_add(&field, p, q))) refuse(code);
}

static void add_edwards_on(uint32_t* p, const uint32_t* q, uint32_t code) {
  Field field;
  field_open(&field, ED25519);
  must_have((uint32_t)p, 64, code);
  must_have((uint32_t)q, 64, code);
  if (!edwards_add(&field, p, q)) refuse(code);
}

// The x of the point of Ed25519 whose y lies behind it, with `sign` as its lowest bit (RFC 8032, 5.1.3). As for SP1, y need not be
// reduced, and 0 has both signs; a y of no point has no x.
static void decompress_edwards(uint32_t* p, uint32_t sign, uint32_t code) {
  Field field;
  Field* const f = &field;
  field_open(f, ED25519);
  must_have((uint32_t)p, 64, code);
  if (sign > 1) refuse(code);
  FieldNumber u, v, d, third, power, x;
  field_set(d, 0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d, 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee);
  field_multiply(f, u, p + 8, p + 8);
  field_multiply_reduced(f, v, u, d);
  field_add(f, v, v, f->one);
  field_subtract(f, u, u, f->one);
  // x = u v^3 (u v^7)^((q - 5) / 8), where the exponent is 2^252 - 3
  field_multiply_reduced(f, third, v, v);
  field_multiply_reduced(f, third, third, v);
  field_multiply_reduced(f, power, third, third);
  field_multiply_reduced(f, power, power, v);
  field_multiply_reduced(f, power, power, u);
  for (int i = 0; i < 8; ++i) x[i] = power[i];
  for (int i = 250; i >= 0; --i) {
    field_multiply_reduced(f, x, x, x);
    if (i != 1) field_multiply_reduced(f, x, x, power);
  }
  field_multiply_reduced(f, x, x, third);
  field_multiply_reduced(f, x, x, u);
  FieldNumber square;
  field_multiply_reduced(f, square, x, x);
  field_multiply_reduced(f, square, square, v);
  field_subtract(f, third, square, u);
  if (!field_is_zero(f, third)) {
    field_add(f, third, square, u);
    if (!field_is_zero(f, third)) refuse(code);
    field_set(d, 0x4a0ea0b0, 0xc4ee1b27, 0xad2fe478, 0x2f431806, 0x3dfbd7a7, 0x2b4d0099, 0x4fc1df0b, 0x2b832480);
    field_multiply_reduced(f, x, x, d);
  }
  if ((x[0] & 1) != sign) field_multiply_reduced(f, x, x, f->minus_one);
  for (int i = 0; i < 8; ++i) p[i] = x[i];
}

// An operation of the field of BN254 or BLS12-381, or of its extension of degree 2, to `x`: sum, difference or product, in the
// order of the calls' numbers.
static void compute_in_field(uint32_t* x, const uint32_t* y, uint32_t code) {
  const int large = code <= BLS12381_FP2_MUL;
  const uint32_t operation = code - (large ? BLS12381_FP_ADD : BN254_FP_ADD);
  Field field;
  field_open(&field, large ? BLS12_381 : BN254);
  const int words = field.words * (operation < 3 ? 1 : 2);
  must_have((uint32_t)x, 4 * words, code);
  must_have((uint32_t)y, 4 * words, code);
  if (operation == 5)
    pair_multiply(&field, x, y);
  else if (operation == 2)
    field_multiply(&field, x, x, y);
  else {
    uint32_t result[2 * FIELD_WORDS];  // x and y may overlap: all of them is read before any of x is written
    for (int i = 0; i < words; i += field.words)
      if (operation == 0 || operation == 3)
        field_add(&field, result + i, x + i, y + i);
      else
        field_subtract(&field, result + i, x + i, y + i);
    for (int i = 0; i < words; ++i) x[i] = result[i];
  }
}

// The curve of a call that adds or doubles points.
static Curve curve_of(uint32_t code) {
  if (code == SECP256K1_ADD || code == SECP256K1_DOUBLE) return SECP256K1;
  if (code == SECP256R1_ADD || code == SECP256R1_DOUBLE) return SECP256R1;
  return code == BN254_ADD || code == BN254_DOUBLE ? BN254 : BLS12_381;
}

// The value of t0 after the call.
uint32_t answer(uint32_t first, uint32_t second, uint32_t third, uint32_t code) {
  switch (code) {
    case HALT:
      guest_exit(first);
    case WRITE:
      if (first == PUBLIC_VALUES || first == PUBLIC_VALUES_BEFORE_4)
        keep((const uint8_t*)second, third, code);
      else if (first != STDOUT && first != STDERR)
        refuse(code);
      return code;
    case COMMIT:
      if (first >= 8 || first != committed) refuse(code);
      write_word(second);
      ++committed;
      return code;
    case COMMIT_DEFERRED:  // no proof was verified if all its words are 0
      if (second != 0) refuse(code);
      return code;
    case HINT_LEN:
      return next_size();
    case HINT_READ:
      read_next((uint32_t*)first, second, code);
      return code;
    case SHA_EXTEND:
      must_have(first, 256, code);
      sha256_extend((uint32_t*)first);
      return code;
    case SHA_COMPRESS:
      must_have(first, 256, code);
      must_have(second, 32, code);
      compress((const uint32_t*)first, (uint32_t*)second);
      return code;
    case KECCAK_PERMUTE:
      must_have(first, 200, code);
      keccak_f((uint64_t*)first);
      return code;
    case UINT256_MUL:
      must_have(first, 32, code);
      must_have(second, 64, code);
      multiply_numbers((uint32_t*)first, (const uint32_t*)second);
      return code;
    case SECP256K1_ADD:
    case SECP256R1_ADD:
    case BN254_ADD:
    case BLS12381_ADD:
      if (first == second) refuse(code);
      add_on(curve_of(code), (uint32_t*)first, (const uint32_t*)second, code);
      return code;
    case SECP256K1_DOUBLE:
    case SECP256R1_DOUBLE:
    case BN254_DOUBLE:
    case BLS12381_DOUBLE:
      add_on(curve_of(code), (uint32_t*)first, (const uint32_t*)first, code);
      return code;
    case ED_DECOMPRESS:
      decompress_edwards((uint32_t*)first, second, code);
      return code;
    case ED_ADD:
      add_edwards_on((uint32_t*)first, (const uint32_t*)second, code);
      return code;
    case BN254_FP_ADD ... BN254_FP2_MUL:
    case BLS12381_FP_ADD ... BLS12381_FP2_MUL:
      compute_in_field((uint32_t*)first, (const uint32_t*)second, code);
      return code;
    default:
      refuse(code);
  }
}
