// Calls a C library (picolibc) whose errno is thread-local.
#include <errno.h>
#include <stdlib.h>

#include "guest.h"

int main(void) {
  const long value = strtol("99999999999999", 0, 10);
  write_word(value);
  write_word(errno);
  return 0;
}
