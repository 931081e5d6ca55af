// A guest of SP1 with a stray store before every call: words 3 k to 3 k + 2 of its input say before which call, where, and what.
// It commits to the SHA-256 of "abc" whose last word also has the first one of a permuted state.
#include <stdint.h>

static uint32_t input[64], used, calls;

static uint32_t call(uint32_t code, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < used; i += 3)
    if (input[i] == calls) *(volatile uint32_t*)input[i + 1] = input[i + 2];
  ++calls;
  register uint32_t t0 __asm__("t0") = code;
  register uint32_t a0 __asm__("a0") = a;
  register uint32_t a1 __asm__("a1") = b;
  __asm__ volatile("ecall" : "+r"(t0) : "r"(a0), "r"(a1) : "memory");
  return t0;
}

static uint32_t state[50], w[64] = {0x61626380, [15] = 24};
static uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

__asm__(".section .text.start\n .globl _start\n_start:\n li sp, 0x200400\n j main\n .text\n");
void main(void) {
  const uint32_t size = call(0xf0, 0, 0);
  if (size > sizeof input) call(0, 9, 0);
  call(0xf1, (uint32_t)input, size);
  used = size / 4;
  call(0x300105, (uint32_t)w, 0);
  call(0x010106, (uint32_t)w, (uint32_t)h);
  call(0x010109, (uint32_t)state, 0);
  h[7] ^= state[0];
  for (uint32_t i = 0; i < 8; ++i) call(0x10, i, h[i]);
  call(0, 0, 0);
}
