// Private input: a message of at most 1 MiB. Public output: its SHA-256 digest (FIPS 180-4).
#include "guest.h"

#ifndef PRECOMPILE
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint8_t message[(1u << 20) + 128];

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void compress(uint32_t state[8], const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; ++i) {
    const uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
    const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static size_t receive(void) { return read_private(message, 1u << 20); }

static void hash(uint32_t state[8], size_t blocks) {
  for (size_t i = 0; i < blocks; ++i) compress(state, message + 64 * i);
}
#else
static union {
  uint32_t words[(1u << 18) + 32];
  uint8_t bytes[(1u << 20) + 128];
} input;
static uint8_t* const message = input.bytes;

static size_t receive(void) { return read_private_words(input.words, 1u << 20); }

static void hash(uint32_t state[8], size_t blocks) {
  Sha256 h;
  __builtin_memcpy(h.state, state, sizeof h.state);
  for (size_t i = 0; i < blocks; ++i) {
    h.message = guest_address(message + 64 * i);
    sha256_block(&h);
  }
  __builtin_memcpy(state, h.state, sizeof h.state);
}
#endif

int main(void) {
  const size_t size = receive();
  uint32_t state[8] = SHA256_START;
  message[size] = 0x80;
  const size_t blocks = (size + 9 + 63) / 64;
  for (int i = 0; i < 4; ++i) message[64 * blocks - 1 - i] = (uint8_t)((uint32_t)(size << 3) >> (8 * i));
  hash(state, blocks);
  for (int i = 0; i < 8; ++i) write_word(__builtin_bswap32(state[i]));
  return 0;
}
