// Calls itself as often as its public input says, with 80 bytes of stack each; for 0xffffffff has one frame of 1.5 GiB.
#include "guest.h"

__attribute__((noinline)) static uint32_t deep(uint32_t n) {
  volatile uint32_t a[16];
  a[n % 16] = n;
  return n == 0 ? a[0] : deep(n - 1) + a[n % 16];
}

__attribute__((noinline)) static void touch(volatile uint8_t* bytes) { bytes[0] = 7; }

__attribute__((noinline)) static void wide(void) {
  volatile uint8_t bytes[0x60000000];
  touch(bytes);
}

int main(void) {
  read_public_word();
  const uint32_t n = read_public_word();
  if (n == 0xffffffff) wide();
  write_word(deep(n));
  return 0;
}
