// Public input: n, 4 bytes. Public output: the n-th Fibonacci number modulo 2^32.
#include "guest.h"

int main(void) {
  uint32_t n;
  if (read_public(&n, sizeof n) != sizeof n) return 1;
  uint32_t a = 0, b = 1;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t next = a + b;
    a = b;
    b = next;
  }
  write_word(a);
  return 0;
}
