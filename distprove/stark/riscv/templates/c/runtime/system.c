// What picolibc asks of a system: where printf writes, and how a program ends.
#include <stdio.h>
#include <sys/cdefs.h>

#include "guest.h"

// The debug stream: a ring in memory that `distprove run` finds by its symbol and prints. It is neither input nor output,
// so no statement and no proof has it. `written` counts all bytes modulo 2^32; byte k lies at k modulo the ring's size.
struct {
  uint32_t written;
  char bytes[1 << 16];
} __guest_debug __attribute__((used));

static int put(char byte, FILE* file) {
  (void)file;
  __guest_debug.bytes[__guest_debug.written++ % sizeof __guest_debug.bytes] = byte;
  return (unsigned char)byte;
}

static FILE stream = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE* const stdout = &stream;
FILE* const stderr = &stream;
FILE* const stdin = &stream;  // has no bytes: use read_private

__attribute__((noreturn)) void _exit(int code) { guest_exit((uint32_t)code); }

// A failed assertion prints its place to the debug stream, and exits as a panic in Rust does.
__attribute__((noreturn)) void abort(void) { guest_exit(254); }
