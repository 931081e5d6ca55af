// Answers the calls of OpenVM's guests with those of this machine; docs/riscv.md, "Guests of OpenVM".
//
// A guest's stray store can change every word that lies here in memory. So nothing in memory decides what is public: a
// revealed word goes to the output in the call itself, and constants and jumps are in the instructions. What is kept between
// calls is about the input, which a prover chooses anyway, or only refuses.
#include "guest.h"

enum { TERMINATE, HINT_WORD, HINT_BUFFER, REVEAL, HINT_INPUT, KECCAK_F, XOR_IN, SHA_256, INT256 = 16, EQUAL = 32 };
enum { ADD, SUB, XOR, OR, AND, SLL, SRL, SRA, SLT, SLTU, MUL };
enum { RATE = 136 };  // bytes of Keccak-256

static uint32_t revealed;                    // bytes of the public values so far
static uint32_t left, opened;                // bytes of the private input that are not read; once `opened`
static uint32_t size, has_size, words_left;  // of the buffer that is read: its size, while that comes first; its words

// The end of a guest's memory. A pointer beyond it would reach the handler's own words.
enum { MEMORY_END = 0x20000000 };

// A call that is not answered traps as an unknown one, with bit 31 set.
__attribute__((noreturn)) static void refuse(uint32_t code) {
  guest_call(code | 0x80000000u, 0);
  __builtin_unreachable();
}

// Refuse a call for what is not aligned, does not lie in the guest's memory, or passes its end.
static void must_have(uint32_t address, uint32_t bytes, uint32_t code) {
  if (address % 4 != 0 || address > MEMORY_END || bytes > MEMORY_END - address) refuse(code);
}

static void next_buffer(uint32_t code) {
  if (!opened) opened = 1, left = read_private_word();
  for (; words_left; --words_left, left -= 4) read_private_word();  // what was not read of the last one
  if (left == 0) refuse(code);
  size = read_private_word();
  left -= 4;
  has_size = 1;
  words_left = size / 4 + (size % 4 != 0);
}

static uint32_t next_word(uint32_t code) {
  if (has_size) {
    has_size = 0;
    return size;
  }
  if (words_left == 0) refuse(code);
  --words_left;
  left -= 4;
  return read_private_word();
}

static void permute(uint32_t* state) {
  uint64_t lanes[25];
  for (int i = 0; i < 25; ++i) lanes[i] = state[2 * i] | (uint64_t)state[2 * i + 1] << 32;
  keccak_f(lanes);
  for (int i = 0; i < 25; ++i) state[2 * i] = (uint32_t)lanes[i], state[2 * i + 1] = (uint32_t)(lanes[i] >> 32);
}

static void hash_block(const uint32_t* state, const void* block, uint32_t* to) {
  Sha256 hash;
  hash.message = block;
  for (int i = 0; i < 8; ++i) hash.state[i] = state[i];
  sha256_block(&hash);
  for (int i = 0; i < 8; ++i) to[i] = hash.state[i];
}

static void multiply(uint32_t* to, const uint32_t* a, const uint32_t* b) {
  ModularProduct product;
  product.result = to;
  product.x = a;
  product.y = b;
  for (int i = 0; i < 8; ++i) product.modulus[i] = 0;  // for 2^256
  multiply_modulo(&product);
}

// -1, 0 or 1 as a is below, equal to or above b, without signs.
static int compare(const uint32_t a[8], const uint32_t b[8]) {
  for (int i = 7; i >= 0; --i)
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  return 0;
}

// Word i of a 2^by.
static uint32_t shifted_left(const uint32_t a[8], int i, int by) {
  const int from = i - by / 32, bits = by % 32;
  const uint32_t high = from < 0 ? 0 : a[from], low = from < 1 ? 0 : a[from - 1];
  return bits ? high << bits | low >> (32 - bits) : high;
}

// Word i of a divided by 2^by, rounded down; above a stand words of `fill`.
static uint32_t shifted_right(const uint32_t a[8], int i, int by, uint32_t fill) {
  const int from = i + by / 32, bits = by % 32;
  const uint32_t low = from < 8 ? a[from] : fill, high = from < 7 ? a[from + 1] : fill;
  return bits ? low >> bits | high << (32 - bits) : low;
}

// to = a (operation) b on integers of 256 bits, but for products; a shift is by b's lowest byte.
static void int256(uint32_t operation, uint32_t* to, const uint32_t* a, const uint32_t* b) {
  uint32_t out[8];
  uint64_t carry = operation == SUB;
  const int by = (int)(b[0] & 255);
  const uint32_t sign = (uint32_t)((int32_t)a[7] >> 31);
  for (int i = 0; i < 8; ++i) {
    if (operation == ADD || operation == SUB) {
      carry += (uint64_t)a[i] + (operation == SUB ? ~b[i] : b[i]);
      out[i] = (uint32_t)carry;
      carry >>= 32;
    } else if (operation == XOR) {
      out[i] = a[i] ^ b[i];
    } else if (operation == OR) {
      out[i] = a[i] | b[i];
    } else if (operation == AND) {
      out[i] = a[i] & b[i];
    } else if (operation == SLL) {
      out[i] = shifted_left(a, i, by);
    } else if (operation == SRL || operation == SRA) {
      out[i] = shifted_right(a, i, by, operation == SRA ? sign : 0);
    } else {
      out[i] = 0;
    }
  }
  if (operation == SLT || operation == SLTU) {
    const int is_opposite = operation == SLT && (a[7] ^ b[7]) >> 31;
    out[0] = is_opposite ? a[7] >> 31 : compare(a, b) < 0;
  }
  for (int i = 0; i < 8; ++i) to[i] = out[i];
}

// What a branch needs to know; of other calls it counts nowhere.
uint32_t answer(uint32_t first, uint32_t second, uint32_t third, uint32_t code) {
  if (code >= INT256 && code <= INT256 + MUL) {
    must_have(first, 32, code);
    must_have(second, 32, code);
    must_have(third, 32, code);
    if (code == INT256 + MUL)
      multiply((uint32_t*)first, (const uint32_t*)second, (const uint32_t*)third);
    else
      int256(code - INT256, (uint32_t*)first, (const uint32_t*)second, (const uint32_t*)third);
    return 0;
  }
  switch (code) {
    case TERMINATE:
      guest_exit(first);
    case HINT_WORD:
      must_have(first, 4, code);
      *(uint32_t*)first = next_word(code);
      return 0;
    case HINT_BUFFER:
      if (second > 1 << 20) refuse(code);
      must_have(first, 4 * second, code);
      for (uint32_t i = 0; i < second; ++i) ((uint32_t*)first)[i] = next_word(code);
      return 0;
    case REVEAL:
      if (first != revealed) refuse(code);
      write_word(second);
      revealed += 4;
      return 0;
    case HINT_INPUT:
      next_buffer(code);
      return 0;
    case KECCAK_F:
      must_have(first, 200, code);
      permute((uint32_t*)first);
      return 0;
    case XOR_IN:
      if (third > RATE || third % 4 != 0) refuse(code);
      must_have(first, third, code);
      must_have(second, third, code);
      for (uint32_t i = 0; i < third / 4; ++i) ((uint32_t*)first)[i] ^= ((const uint32_t*)second)[i];
      return 0;
    case SHA_256:
      must_have(first, 32, code);
      must_have(second, 32, code);
      must_have(third, 64, code);
      hash_block((const uint32_t*)second, (const void*)third, (uint32_t*)first);
      return 0;
    case EQUAL:
      must_have(first, 32, code);
      must_have(second, 32, code);
      return compare((const uint32_t*)first, (const uint32_t*)second) == 0;
    default:
      refuse(code);
  }
}
