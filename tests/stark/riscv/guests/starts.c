// Constructors by priority and thread-local data, with more alignment than any other.
#include "guest.h"

_Thread_local uint32_t local = 5;
_Thread_local uint64_t aligned[3] __attribute__((aligned(512)));
static uint32_t zero[5], data = 9, made[4], count;

__attribute__((constructor(102))) static void second(void) { made[count++] = 7 + local; }
__attribute__((constructor)) static void third(void) { made[count++] = 9; }
__attribute__((constructor(101))) static void first(void) { made[count++] = 11; }

int main(void) {
  local += 1;
  aligned[2] = local;
  zero[1] = ++data;
  for (int i = 0; i < 4; ++i) write_word(made[i]);
  write_word(local);
  write_word(aligned[0] + aligned[2]);
  write_word(zero[0] + zero[1]);
  write_word((uintptr_t)aligned % 512);
  return 0;
}
