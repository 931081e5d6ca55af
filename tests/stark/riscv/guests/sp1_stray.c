// A guest of SP1, of 1 to 5 on RV32IM and of 6 on RV64IM, with a stray store before every call: words 3 k to 3 k + 2 of its input
// say before which call, where, and what.
// It commits to the SHA-256 of "abc" whose last word also has the first one of a permuted state.
#include <stdint.h>

typedef uintptr_t Word;

#if __riscv_xlen == 64
#define STACK "0x78000000"
#else
#define STACK "0x200400"
#endif

static uint32_t __attribute__((aligned(8))) input[64], used, calls;

static Word call(Word code, Word a, Word b) {
  for (uint32_t i = 0; i < used; i += 3)
    if (input[i] == calls) *(volatile uint32_t*)(Word)input[i + 1] = input[i + 2];
  ++calls;
  register Word t0 __asm__("t0") = code;
  register Word a0 __asm__("a0") = a;
  register Word a1 __asm__("a1") = b;
  __asm__ volatile("ecall" : "+r"(t0) : "r"(a0), "r"(a1) : "memory");
  return t0;
}

static uint64_t state[25];
static Word w[64] = {0x61626380, [15] = 24};
static Word h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

__asm__(".section .text.start\n .globl _start\n_start:\n li sp, " STACK "\n j main\n .text\n");
void main(void) {
  const Word size = call(0xf0, 0, 0);
  if (size > sizeof input) call(0, 9, 0);
  call(0xf1, (Word)input, size);
  used = size / 4;
  call(0x300105, (Word)w, 0);
  call(0x010106, (Word)w, (Word)h);
  call(0x010109, (Word)state, 0);
  h[7] ^= (uint32_t)state[0];
  for (Word i = 0; i < 8; ++i) call(0x10, i, h[i]);
  call(0, 0, 0);
}
