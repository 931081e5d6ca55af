// Private input: a message of at most 1 MiB. Public output: its Keccak-256 digest, with the original padding (not SHA-3's).
// keccak_f.c defines PERMUTE as the machine's own Keccak-f.
#include "guest.h"

enum { RATE = 136 };

static union {
  uint8_t bytes[(1u << 20) + RATE];
  uint64_t lanes[((1u << 20) + RATE) / 8];
} message;

#ifndef PERMUTE
#define PERMUTE permute

static const uint64_t ROUND[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b, 0x0000000080000001,
    0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
    0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
    0x000000000000800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

static uint64_t rotate(uint64_t x, unsigned n) { return n ? x << n | x >> (64 - n) : x; }

static void permute(uint64_t a[25]) {
  for (int round = 0; round < 24; ++round) {
    uint64_t c[5], b[25];
    for (int x = 0; x < 5; ++x) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
    for (int x = 0; x < 5; ++x) {
      const uint64_t d = c[(x + 4) % 5] ^ rotate(c[(x + 1) % 5], 1);
      for (int y = 0; y < 25; y += 5) a[x + y] ^= d;
    }
    // Rho and pi, along the orbit of (1, 0): the offsets are the triangular numbers.
    b[0] = a[0];
    for (int t = 0, x = 1, y = 0; t < 24; ++t) {
      const int to = (2 * x + 3 * y) % 5;
      b[y + 5 * to] = rotate(a[x + 5 * y], ((t + 1) * (t + 2) / 2) % 64);
      x = y, y = to;
    }
    for (int y = 0; y < 25; y += 5)
      for (int x = 0; x < 5; ++x) a[x + y] = b[x + y] ^ (~b[(x + 1) % 5 + y] & b[(x + 2) % 5 + y]);
    a[0] ^= ROUND[round];
  }
}
#endif

int main(void) {
  const size_t size = read_private(message.bytes, 1u << 20), blocks = size / RATE + 1;
  message.bytes[size] = 1;
  message.bytes[blocks * RATE - 1] |= 0x80;
  uint64_t state[25] = {0};
  for (size_t block = 0; block < blocks; ++block) {
    for (int i = 0; i < RATE / 8; ++i) state[i] ^= message.lanes[block * (RATE / 8) + i];
    PERMUTE(state);
  }
  for (int i = 0; i < 4; ++i) {
    write_word((uint32_t)state[i]);
    write_word((uint32_t)(state[i] >> 32));
  }
  return 0;
}
