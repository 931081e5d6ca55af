// A guest that makes the calls of SP1, of 1 to 5 on RV32IM and of 6 on RV64IM. For each buffer of its input: writes the buffer to the public values, and its SHA-256 (one
// block, a message below 56 bytes) and the Keccak-f of the buffer as a state. Exits with the number of registers that a call changed.
#include <stdint.h>

typedef uintptr_t Word;

#if __riscv_xlen == 64
#define LOAD "ld"
#define STORE "sd"
#define CODE "0x78001000"
#define STACK "0x78000000"
#else
#define LOAD "lw"
#define STORE "sw"
#define CODE "0x200800"
#define STACK "0x200400"
#endif

static Word call(Word code, Word a, Word b, Word c) {
  register Word t0 __asm__("t0") = code;
  register Word a0 __asm__("a0") = a;
  register Word a1 __asm__("a1") = b;
  register Word a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(t0) : "r"(a0), "r"(a1), "r"(a2) : "memory");
  return t0;
}

// Fill all registers but sp, tp, gp and the four of the call, make a call that only prints nothing, and count those that differ.
__attribute__((naked)) static Word changed(void) {
  __asm__ volatile(
      "addi sp, sp, -64\n" STORE " ra, 0(sp)\n" STORE " s0, 8(sp)\n" STORE " s1, 16(sp)\n" STORE " s2, 24(sp)\n" STORE " sp, 32(sp)\n"
      "li t0, 2\n li a0, 1\n li a1, " CODE "\n li a2, 0\n"
      "li ra, 101\n li t1, 102\n li t2, 103\n li s0, 104\n li s1, 105\n li a3, 106\n li a4, 107\n li a5, 108\n li a6, 109\n"
      "li a7, 110\n li s2, 111\n li t3, 112\n li t4, 113\n li t5, 114\n li t6, 115\n"
      "ecall\n"
      "addi t0, t0, -2\n addi a0, a0, -1\n li t0, 0\n"
#define CHECK(register, value) "li a1, " #value "\n sub a1, a1, " #register "\n snez a1, a1\n add t0, t0, a1\n"
      CHECK(a0, 0) CHECK(a2, 0) CHECK(ra, 101) CHECK(t1, 102) CHECK(t2, 103) CHECK(s0, 104) CHECK(s1, 105) CHECK(a3, 106)
      CHECK(a4, 107) CHECK(a5, 108) CHECK(a6, 109) CHECK(a7, 110) CHECK(s2, 111) CHECK(t3, 112) CHECK(t4, 113) CHECK(t5, 114)
      CHECK(t6, 115)
      LOAD " a1, 32(sp)\n sub a1, a1, sp\n snez a1, a1\n add a0, t0, a1\n" LOAD " ra, 0(sp)\n" LOAD " s0, 8(sp)\n" LOAD " s1, 16(sp)\n"
      LOAD " s2, 24(sp)\n addi sp, sp, 64\n ret\n");
}

static uint64_t state[25];
static Word w[64], h[8];
static uint32_t digest[8];
static uint8_t* const bytes = (uint8_t*)state;

static void run(void) {
  for (Word size; (size = call(0xf0, 0, 0, 0)) != ~(Word)0;) {
    for (int i = 0; i < 25; ++i) state[i] = 0;
    call(0xf1, (Word)state, size, 0);
    call(2, 13, (Word)bytes, size);
    for (int i = 0; i < 64; ++i) w[i] = 0;
    for (Word i = 0; i <= size; ++i) w[i / 4] |= (i < size ? bytes[i] : (Word)0x80) << (24 - i % 4 * 8);
    w[15] = 8 * size;
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 8; ++i) h[i] = start[i];
    call(0x300105, (Word)w, 0, 0);
    call(0x010106, (Word)w, (Word)h, 0);
    for (int i = 0; i < 8; ++i) digest[i] = h[i];
    call(2, 3, (Word)digest, sizeof digest);
    call(0x010109, (Word)state, 0, 0);
    call(2, 13, (Word)state, sizeof state);
  }
  for (Word i = 0; i < 8; ++i) call(0x10, i, h[i], 0);
  // An instruction word among data of the code is what it was, though it is an ecall.
  Word code;
  __asm__("li %0, " CODE : "=r"(code));
  const volatile uint32_t* const word = (const volatile uint32_t*)code;
  call(0, changed() + (*word != 0x73), 0, 0);
}

__asm__(".section .text.start\n .word 0x73\n .globl _start\n_start:\n li sp, " STACK "\n j main\n .text\n");
void main(void) { run(); }
