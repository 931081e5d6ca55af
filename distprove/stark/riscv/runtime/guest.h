// Host calls of the machine, for guests in C: docs/riscv.md, "Host calls". Link start.S and memory.c, with guest.ld.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
  GUEST_EXIT = 1,
  GUEST_WRITE = 2,
  GUEST_READ_PRIVATE = 3,
  GUEST_READ_PUBLIC = 4,
  GUEST_CYCLES = 5,
  GUEST_KECCAK_F = 6,
  GUEST_SHA256_BLOCK = 7,
  GUEST_SHA256_EXTEND = 8,
  GUEST_SHA256_COMPRESS = 9,
  GUEST_MULTIPLY_MODULO = 10,
  GUEST_MULTIPLY_ADD_MODULO = 11,
  GUEST_MULTIPLY_MODULO_384 = 12,
  GUEST_MULTIPLY_ADD_MODULO_384 = 13,
  GUEST_SECP256K1_ADD = 14,
  GUEST_SECP256K1_DOUBLE = 15,
  GUEST_SECP256R1_ADD = 16,
  GUEST_SECP256R1_DOUBLE = 17,
  GUEST_BN254_ADD = 18,
  GUEST_BN254_DOUBLE = 19,
  GUEST_BLS12_381_ADD = 20,
  GUEST_BLS12_381_DOUBLE = 21,
  GUEST_ED25519_ADD = 22,
};

static inline uint32_t guest_call(uint32_t number, uint32_t argument) {
  register uint32_t a0 __asm__("a0") = argument;
  register uintptr_t a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7));
  return a0;
}

__attribute__((noreturn)) static inline void guest_exit(uint32_t code) {
  guest_call(GUEST_EXIT, code);
  __builtin_unreachable();
}

static inline void write_word(uint32_t word) { guest_call(GUEST_WRITE, word); }
static inline uint32_t read_private_word(void) { return guest_call(GUEST_READ_PRIVATE, 0); }
static inline uint32_t read_public_word(void) { return guest_call(GUEST_READ_PUBLIC, 0); }
static inline uint32_t cycle_count(void) { return guest_call(GUEST_CYCLES, 0); }

// Host calls read addresses of 32 bits. So structures have GUEST_POINTER(type) where they point to operands, and
// guest_address(pointer) is its value. These are plain pointers in a guest of RV32IM. One of RV64IM exits with 254 at a
// pointer that does not fit, since the call would be on another place.
#if __riscv_xlen == 64
#define GUEST_POINTER(type) uint32_t
__attribute__((noreturn, noinline, cold, unused)) static void guest_refuse_address(void) { guest_exit(254); }
static inline void* guest_operand(const volatile void* pointer) {
  if ((uintptr_t)pointer >> 32) guest_refuse_address();
  return (void*)pointer;
}
static inline uint32_t guest_address(const volatile void* pointer) {
  __asm__ volatile("" : : "r"(pointer));  // the compiler must see the operand used, though its pointer ends here
  return (uint32_t)(uintptr_t)guest_operand(pointer);
}
#else
#define GUEST_POINTER(type) type*
#define guest_operand(pointer) (pointer)
#define guest_address(pointer) (pointer)
#endif

// Permute a state by Keccak-f[1600]: lane x + 5 y is state[x + 5 y].
static inline void keccak_f(uint64_t state[25]) {
  register uint64_t* a0 __asm__("a0") = (uint64_t*)guest_operand(state);
  register uintptr_t a7 __asm__("a7") = GUEST_KECCAK_F;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

// The calls from 7 on are answered only to programs with an instruction that loads their number, `li a7, NUMBER`.
#define GUEST_COMPUTE(number, pointer)                                                    \
  do {                                                                                    \
    register const void* a0 __asm__("a0") = guest_operand(pointer);                       \
    __asm__ volatile("li a7, %1\n\tecall" : "+r"(a0) : "i"(number) : "a7", "memory");     \
  } while (0)

// A state of SHA-256, and where the words are that go into it next: at an address that is a multiple of 4.
typedef struct {
  GUEST_POINTER(const void) message;
  uint32_t state[8];
} Sha256;

#define SHA256_START {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

// Compress a block of 64 bytes.
static inline void sha256_block(Sha256* hash) { GUEST_COMPUTE(GUEST_SHA256_BLOCK, hash); }

// Make words 16 to 63 of a message schedule from the first 16.
static inline void sha256_extend(uint32_t schedule[64]) { GUEST_COMPUTE(GUEST_SHA256_EXTEND, schedule); }

// Compress a schedule of 64 words.
static inline void sha256_compress(Sha256* hash) { GUEST_COMPUTE(GUEST_SHA256_COMPRESS, hash); }

// What a product of numbers of 256 bits takes: the lowest word of each is first. Places may be the same, but the addend
// must not overlap this. A modulus of 0 stands for 2^256.
typedef struct {
  GUEST_POINTER(uint32_t) result;
  GUEST_POINTER(const uint32_t) x;
  GUEST_POINTER(const uint32_t) y;
  GUEST_POINTER(const uint32_t) addend;
  uint32_t modulus[8];
} ModularProduct;

// result = x y modulo the modulus, and so below it. x or y must be below the modulus.
static inline void multiply_modulo(ModularProduct* product) { GUEST_COMPUTE(GUEST_MULTIPLY_MODULO, product); }

// result = x y + addend modulo the modulus.
static inline void multiply_add_modulo(ModularProduct* product) { GUEST_COMPUTE(GUEST_MULTIPLY_ADD_MODULO, product); }

// The same for numbers of 384 bits.
typedef struct {
  GUEST_POINTER(uint32_t) result;
  GUEST_POINTER(const uint32_t) x;
  GUEST_POINTER(const uint32_t) y;
  GUEST_POINTER(const uint32_t) addend;
  uint32_t modulus[12];
} ModularProduct384;

static inline void multiply_modulo_384(ModularProduct384* product) { GUEST_COMPUTE(GUEST_MULTIPLY_MODULO_384, product); }
static inline void multiply_add_modulo_384(ModularProduct384* product) { GUEST_COMPUTE(GUEST_MULTIPLY_ADD_MODULO_384, product); }

// What a sum of points takes: q is added to p, in its place.
typedef struct {
  GUEST_POINTER(uint32_t) p;
  GUEST_POINTER(const uint32_t) q;
} PointSum;

// CURVE_add(p, q): p += q. CURVE_double(p): p += p. A point is x and then y, the lowest word of each first: 16 words, or 24 of
// BLS12-381. A coordinate that is not below the field's modulus is a trap; so are p and q with one x, and a double with y = 0.
// ed25519_add(p, q) is the sum of any two points of Ed25519, equal ones, too. Its coordinates may be any numbers, and the sum's
// are below the modulus. A trap are only points that are not on the curve, and have no sum by the formula.
#define GUEST_SUM(curve, CURVE)                                                         \
  static inline void curve##_add(uint32_t* p, const uint32_t* q) {                      \
    PointSum sum = {guest_address(p), guest_address(q)};                                \
    GUEST_COMPUTE(GUEST_##CURVE##_ADD, &sum);                                           \
  }
#define GUEST_CURVE(curve, CURVE)                                                       \
  GUEST_SUM(curve, CURVE)                                                               \
  static inline void curve##_double(uint32_t* p) { GUEST_COMPUTE(GUEST_##CURVE##_DOUBLE, p); }
GUEST_CURVE(secp256k1, SECP256K1)
GUEST_CURVE(secp256r1, SECP256R1)
GUEST_CURVE(bn254, BN254)
GUEST_CURVE(bls12_381, BLS12_381)
GUEST_SUM(ed25519, ED25519)

// Write `size` bytes to the public output, filled up with zeros to a multiple of four.
static inline void write_bytes(const void* from, size_t size) {
  const uint8_t* bytes = (const uint8_t*)from;
  for (size_t i = 0; i < size; i += 4) {
    uint32_t word = 0;
    for (size_t k = i; k < size && k < i + 4; ++k) word |= (uint32_t)bytes[k] << (8 * (k - i));
    write_word(word);
  }
}

// Read an input in full: its bytes go to `to`, and its length is returned. Exits with code 255 if it has more than `room`.
static inline size_t guest_read(uint32_t call, void* to, size_t room) {
  const size_t size = guest_call(call, 0);
  if (size > room) guest_exit(255);
  uint8_t* bytes = (uint8_t*)to;
  for (size_t i = 0; i < size; i += 4) {
    const uint32_t word = guest_call(call, 0);
    for (size_t k = i; k < size && k < i + 4; ++k) bytes[k] = (uint8_t)(word >> (8 * (k - i)));
  }
  return size;
}

// The same in words, which takes a fifth of the cycles: the last one is filled up with zeros. `room` is in bytes, and a
// multiple of 4.
static inline size_t guest_read_words(uint32_t call, uint32_t* to, size_t room) {
  const size_t size = guest_call(call, 0);
  if (size > room) guest_exit(255);
  for (size_t i = 0; i < size; i += 4) *to++ = guest_call(call, 0);
  return size;
}

static inline size_t read_private_words(uint32_t* to, size_t room) { return guest_read_words(GUEST_READ_PRIVATE, to, room); }
static inline size_t read_public_words(uint32_t* to, size_t room) { return guest_read_words(GUEST_READ_PUBLIC, to, room); }
static inline size_t read_private(void* to, size_t room) { return guest_read(GUEST_READ_PRIVATE, to, room); }
static inline size_t read_public(void* to, size_t room) { return guest_read(GUEST_READ_PUBLIC, to, room); }
