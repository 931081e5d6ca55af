// Answers the calls of SP1's guests with those of this machine; docs/riscv.md, "Guests of SP1". Built for RV32IM, the guests of
// SP1 1 to 5, and for RV64IM, those of SP1 6.
//
// A guest's stray store can change every word that lies here in memory, constants too, as the tables know no memory that
// is read-only. So nothing in memory decides what is public: a committed word goes to the output in the call itself, and
// constants and jumps are in the instructions (handler.ld and the flags in the Makefile see to it). What is kept between
// calls is about the input, which a prover chooses anyway, or only shown.
//
// With HINTS it is the handler of a run that no proof has: hints.py finds by it which buffers the guest reads. There it executes
// unconstrained blocks, which it otherwise passes over as SP1's proofs do, and tells the host what they write.
#include "curves.h"
#include "guest.h"

enum {
  HALT = 0x00, WRITE = 0x02, ENTER_UNCONSTRAINED = 0x03, EXIT_UNCONSTRAINED = 0x04, COMMIT = 0x10, COMMIT_DEFERRED = 0x1a, HINT_LEN = 0xf0, HINT_READ = 0xf1,
  SHA_EXTEND = 0x300105, SHA_COMPRESS = 0x010106, KECCAK_PERMUTE = 0x010109, UINT256_MUL = 0x01011d,
  SECP256K1_ADD = 0x01010a, SECP256K1_DOUBLE = 0x00010b, SECP256R1_ADD = 0x01012c, SECP256R1_DOUBLE = 0x00012d,
  ED_ADD = 0x010107, ED_DECOMPRESS = 0x000108, BN254_ADD = 0x01010e, BN254_DOUBLE = 0x00010f, BN254_FP_ADD = 0x010126, BN254_FP2_MUL = 0x01012b,
  BLS12381_ADD = 0x01011e, BLS12381_DOUBLE = 0x00011f, BLS12381_FP_ADD = 0x010120, BLS12381_FP2_MUL = 0x010125,
  UINT256_ADD_CARRY = 0x010130, UINT256_MUL_CARRY = 0x010131,
  STDOUT = 1, STDERR = 2, PUBLIC_VALUES_BEFORE_4 = 3, PUBLIC_VALUES = 13,
};

typedef unsigned long Word;  // a register, and what SP1 calls a word

// Public values as they were written: their size, then the bytes. `distprove run` reads them here.
#define VALUES_SIZE (*(volatile uint32_t*)(HANDLER + 0x1000000))
#define VALUES ((uint8_t*)(HANDLER + 0x1000004))
enum { MOST_VALUES = 0x0e000000 };

#ifndef HINTS
static uint32_t committed;        // words of the digest so far
#endif
static uint32_t opened, left;     // bytes of the private input that are not read; once `opened`
static uint32_t measured, size;   // of the buffer that comes next; once `measured`

// A guest's memory is all that its calls may read and write, and never the handler's own words: sizes come from the input, which
// a prover chooses.
#if __riscv_xlen == 64
#define MEMORY_END (1ul << 37)
#define HANDLER_END (HANDLER + 0x10000000)
#else
#define MEMORY_END 0x78000000ul
#define HANDLER_END HANDLER
#endif

// A call that is not answered traps as an unknown one, with bit 31 set.
__attribute__((noreturn)) static void refuse(uint32_t code) {
  guest_call(code | 0x80000000u, 0);
  __builtin_unreachable();
}

// Refuse a call for bytes that do not lie in the guest's memory, or pass its end.
static void must_have(Word address, Word bytes, uint32_t code) {
  if (address > MEMORY_END || bytes > MEMORY_END - address) refuse(code);
  if (address < HANDLER_END && address + bytes > HANDLER) refuse(code);
}

// The same for words, which have an address that is a multiple of their size.
static void must_have_words(Word address, Word bytes, uint32_t code) {
  must_have(address, bytes, code);
  if (address % sizeof(Word) != 0) refuse(code);
}

// Whether there is another buffer. With HINTS, the host says so when it is asked.
static int has_next(void) {
#ifdef HINTS
  if (!opened) opened = 1, read_private_word();
  return read_private_word() != 0;
#else
  if (!opened) opened = 1, left = read_private_word();
  return left != 0;
#endif
}

// The size of the next buffer, all ones behind the last.
static Word next_size(void) {
  if (!measured) {
    if (!has_next()) return ~(Word)0;
    size = read_private_word();
    left -= 4;
    measured = 1;
  }
  return size;
}

// Fill memory with the next buffer, and the last word up with zeros.
static void read_next(Word address, Word wanted, uint32_t code) {
  if (next_size() == ~(Word)0 || wanted != size) refuse(code);
  must_have_words(address, wanted, code);
  uint32_t* to = (uint32_t*)address;
  const uint32_t words = size / 4 + (size % 4 != 0);
  for (uint32_t i = 0; i < words; ++i) to[i] = read_private_word();
  if (sizeof(Word) == 8 && words % 2 != 0) to[words] = 0;
  left -= 4 * words;
  measured = 0;
}

static void keep(Word address, Word count, uint32_t code) {
  must_have(address, count, code);
  const uint8_t* from = (const uint8_t*)address;
  const uint32_t known = VALUES_SIZE;
  if (known > MOST_VALUES || count > MOST_VALUES - known) refuse(code);
  for (Word i = 0; i < count; ++i) VALUES[known + i] = from[i];
  VALUES_SIZE = known + count;
}

#ifdef HINTS
// Registers as a call saves them, and the stack of the guest up to its top: as they were where an unconstrained block began.
#if __riscv_xlen == 64
extern Word saved[];
#define SAVED saved
#define STACK_TOP 0x78000000ul
#else
#define SAVED ((Word*)0xffffff88)
#define STACK_TOP 0x200400ul
#endif
enum { SAVED_WORDS = 30, SP = __riscv_xlen == 64 ? 1 : 27, STACK_WORDS = 1 << 17 };
static Word registers[SAVED_WORDS];
static int unconstrained;
#define STACK ((Word*)(HANDLER + 0xf000000))

static void copy(Word* to, const Word* from, Word words) {
  for (Word i = 0; i < words; ++i) to[i] = from[i];
}

static Word stack_words(void) {
  const Word from = registers[SP];
  const Word words = from < STACK_TOP ? (STACK_TOP - from) / sizeof(Word) : 0;
  return words < STACK_WORDS ? words : STACK_WORDS;
}

static Word enter(uint32_t code) {
  if (unconstrained) refuse(code);
  unconstrained = 1;
  copy(registers, SAVED, SAVED_WORDS);
  copy(STACK, (const Word*)registers[SP], stack_words());
  return 1;
}

// Back to where the block began, which is not entered this time.
static Word leave(uint32_t code) {
  if (!unconstrained) refuse(code);
  unconstrained = 0;
  copy((Word*)registers[SP], STACK, stack_words());
  copy(SAVED, registers, SAVED_WORDS);
  return 0;
}

// Tell the host what the guest writes: where to, the size, and the bytes.
static void tell(Word to, Word address, Word count, uint32_t code) {
  must_have(address, count, code);
  write_word(to);
  write_word(count);
  write_bytes((const void*)address, count);
}
#endif

// The operands of this machine's calls lie below 2^32, and a guest's may lie beyond: numbers in a place that calls can read,
// `room` if need be, and what they were changed to back in the guest's memory.
static uint32_t* near(uint32_t* room, Word address, int words) {
  uint32_t* const numbers = (uint32_t*)address;
  if ((address + 4 * words) >> 16 >> 16 == 0) return numbers;
  for (int i = 0; i < words; ++i) room[i] = numbers[i];
  return room;
}

static void put_back(Word address, const uint32_t* numbers, int words) {
  uint32_t* const to = (uint32_t*)address;
  if (numbers != to)
    for (int i = 0; i < words; ++i) to[i] = numbers[i];
}

// SHA-256's schedule and state have the lower half of a register in each word.
static void extend(Word* words) {
  uint32_t copied[64], *schedule = (uint32_t*)words;
  if (sizeof(Word) == 8) {
    schedule = copied;
    for (int i = 0; i < 16; ++i) schedule[i] = words[i];
  }
  sha256_extend(schedule);
  if (sizeof(Word) == 8)
    for (int i = 16; i < 64; ++i) words[i] = schedule[i];
}

static void compress(const Word* words, Word* state) {
  uint32_t schedule[64];
  const uint32_t* message = (const uint32_t*)words;
  if (sizeof(Word) == 8) {
    message = schedule;
    for (int i = 0; i < 64; ++i) schedule[i] = words[i];
  }
  Sha256 hash = {.message = guest_address(message)};
  for (int i = 0; i < 8; ++i) hash.state[i] = state[i];
  sha256_compress(&hash);
  for (int i = 0; i < 8; ++i) state[i] = hash.state[i];
}

static void permute(Word address) {
  uint32_t room[50];
  uint32_t* const state = near(room, address, 50);
  keccak_f((uint64_t*)state);
  put_back(address, state, 50);
}

// x = x y modulo what lies behind y.
static void multiply_numbers(Word first, Word second) {
  uint32_t room[8], behind[16];
  uint32_t* const x = near(room, first, 8);
  const uint32_t* const y = near(behind, second, 16);
  ModularProduct product = {.result = guest_address(x), .x = guest_address(x), .y = guest_address(y)};
  for (int i = 0; i < 8; ++i) product.modulus[i] = y[8 + i];
  multiply_modulo(&product);
  put_back(first, x, 8);
}

// a + b + c or a b + c, its lower 256 bits to `low` and the upper ones to `high`.
static void compute_with_carry(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* low, uint32_t* high, int multiply) {
  uint32_t result[16];
  uint64_t carry = 0;
  for (int i = 0; i < 8; ++i) result[i] = c[i], result[8 + i] = 0;
  if (multiply)
    for (int i = 0; i < 8; ++i) {
      carry = 0;
      for (int k = 0; k < 8; ++k) {
        carry += (uint64_t)a[i] * b[k] + result[i + k];
        result[i + k] = carry;
        carry >>= 32;
      }
      result[8 + i] = carry;
    }
  else {
    for (int i = 0; i < 8; ++i) {
      carry += (uint64_t)a[i] + b[i] + c[i];
      result[i] = carry;
      carry >>= 32;
    }
    result[8] = carry;
  }
  for (int i = 0; i < 8; ++i) low[i] = result[i];
  for (int i = 0; i < 8; ++i) high[i] = result[8 + i];
}

// Add the point at `second` to the one at `first`, or that to itself. The host calls refuse what has no sum.
static void add_on(Curve curve, Word first, Word second, uint32_t code) {
  const int words = curve == BLS12_381 ? 24 : 16;
  must_have_words(first, 4 * words, code);
  must_have_words(second, 4 * words, code);
  uint32_t room[2 * FIELD_WORDS], other[2 * FIELD_WORDS];
  uint32_t* const p = near(room, first, words);
  if (second == first)
    point_double(curve, p);
  else
    point_add(curve, p, near(other, second, words));
  put_back(first, p, words);
}

// The x of the point of Ed25519 whose y lies behind it. A y of no point is refused, and one that is not reduced: SP1's executor takes it, but
// none of its proofs does, and a guest may rely on that. Inlined, it would make each call save seven more registers.
__attribute__((noinline)) static void decompress_edwards(Word address, Word sign, uint32_t code) {
  Field field;
  field_open(&field, ED25519);
  must_have_words(address, 64, code);
  if (sign > 1) refuse(code);
  uint32_t room[8];
  FieldNumber x;
  if (!edwards_decompress(&field, x, near(room, address + 32, 8), sign)) refuse(code);
  put_back(address, x, 8);
}

// An operation of the field of BN254 or BLS12-381, or of its extension of degree 2, to `first`: sum, difference or product, in the
// order of the calls' numbers.
static void compute_in_field(Word first, Word second, uint32_t code) {
  const int large = code <= BLS12381_FP2_MUL;
  const uint32_t operation = code - (large ? BLS12381_FP_ADD : BN254_FP_ADD);
  Field field;
  field_open(&field, large ? BLS12_381 : BN254);
  const int words = field.words * (operation < 3 ? 1 : 2);
  must_have_words(first, 4 * words, code);
  must_have_words(second, 4 * words, code);
  uint32_t room[2 * FIELD_WORDS], other[2 * FIELD_WORDS];
  uint32_t* const x = near(room, first, words);
  const uint32_t* const y = near(other, second, words);
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
  put_back(first, x, words);
}

// The curve of a call that adds or doubles points.
static Curve curve_of(uint32_t code) {
  if (code == SECP256K1_ADD || code == SECP256K1_DOUBLE) return SECP256K1;
  if (code == SECP256R1_ADD || code == SECP256R1_DOUBLE) return SECP256R1;
  return code == BN254_ADD || code == BN254_DOUBLE ? BN254 : BLS12_381;
}

// The value of t0 after the call.
Word answer(Word first, Word second, Word third, Word fourth, Word fifth, Word number) {
  const uint32_t code = number;
#ifdef HINTS
  if (unconstrained && code != WRITE && code != EXIT_UNCONSTRAINED) refuse(code);
#endif
  switch (code) {
    case HALT:
      guest_exit(first);
    case WRITE:
#ifdef HINTS
      if (unconstrained && first != STDOUT && first != STDERR)
        tell(first, second, third, code);
      return code;
#endif
      if (first == PUBLIC_VALUES || first == PUBLIC_VALUES_BEFORE_4)
        keep(second, third, code);
      else if (first != STDOUT && first != STDERR)
        refuse(code);
      return code;
#ifdef HINTS
    case ENTER_UNCONSTRAINED:
      return enter(code);
    case EXIT_UNCONSTRAINED:
      return leave(code);
    case COMMIT:
      return code;
#else
    case ENTER_UNCONSTRAINED:  // no, pass over the block
      return 0;
    case COMMIT:
      if (first >= 8 || first != committed || second != (uint32_t)second) refuse(code);
      write_word(second);
      ++committed;
      return code;
#endif
    case COMMIT_DEFERRED:  // no proof was verified if all its words are 0
      if (second != 0) refuse(code);
      return code;
    case HINT_LEN:
      return next_size();
    case HINT_READ:
      read_next(first, second, code);
      return code;
    case SHA_EXTEND:
      must_have_words(first, 64 * sizeof(Word), code);
      extend((Word*)first);
      return code;
    case SHA_COMPRESS:
      must_have_words(first, 64 * sizeof(Word), code);
      must_have_words(second, 8 * sizeof(Word), code);
      compress((const Word*)first, (Word*)second);
      return code;
    case KECCAK_PERMUTE:
      must_have_words(first, 200, code);
      permute(first);
      return code;
    case UINT256_MUL:
      must_have_words(first, 32, code);
      must_have_words(second, 64, code);
      multiply_numbers(first, second);
      return code;
    case UINT256_ADD_CARRY:
    case UINT256_MUL_CARRY:
      must_have_words(first, 32, code);
      must_have_words(second, 32, code);
      must_have_words(third, 32, code);
      must_have_words(fourth, 32, code);
      must_have_words(fifth, 32, code);
      compute_with_carry((const uint32_t*)first, (const uint32_t*)second, (const uint32_t*)third, (uint32_t*)fourth,
                         (uint32_t*)fifth, code == UINT256_MUL_CARRY);
      return code;
    case SECP256K1_ADD:
    case SECP256R1_ADD:
    case BN254_ADD:
    case BLS12381_ADD:
      if (first == second) refuse(code);
      add_on(curve_of(code), first, second, code);
      return code;
    case SECP256K1_DOUBLE:
    case SECP256R1_DOUBLE:
    case BN254_DOUBLE:
    case BLS12381_DOUBLE:
      add_on(curve_of(code), first, first, code);
      return code;
    case ED_DECOMPRESS:
      decompress_edwards(first, second, code);
      return code;
    case ED_ADD:
      add_on(ED25519, first, second, code);
      return code;
    case BN254_FP_ADD ... BN254_FP2_MUL:
    case BLS12381_FP_ADD ... BLS12381_FP2_MUL:
      compute_in_field(first, second, code);
      return code;
    default:
      refuse(code);
  }
}
