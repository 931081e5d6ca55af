// SHA-256 and Keccak-256 of bytes, by the machine's host calls: docs/riscv.md, "Host calls".
#pragma once
#include <string.h>

#include "guest.h"

// SHA-256 (FIPS 180-4) of `size` bytes at any address.
static inline void sha256(const void* from, size_t size, uint8_t digest[32]) {
  const uint8_t* bytes = (const uint8_t*)from;
  uint32_t block[32] = {0};  // room for the last bytes and the padding
  Sha256 hash = {guest_address(block), SHA256_START};
  size_t left = size;
  for (; left >= 64; left -= 64, bytes += 64) {
    memcpy(block, bytes, 64);
    sha256_block(&hash);
  }
  memset(block, 0, sizeof block);
  memcpy(block, bytes, left);
  ((uint8_t*)block)[left] = 0x80;
  const size_t words = left < 56 ? 16 : 32;
  block[words - 2] = __builtin_bswap32((uint32_t)((uint64_t)size >> 29));  // the number of bits
  block[words - 1] = __builtin_bswap32((uint32_t)size << 3);
  sha256_block(&hash);
  if (words == 32) {
    hash.message = guest_address(block + 16);
    sha256_block(&hash);
  }
  for (size_t i = 0; i < 8; ++i) {
    const uint32_t word = __builtin_bswap32(hash.state[i]);
    memcpy(digest + 4 * i, &word, 4);
  }
}

// Keccak-256 (Ethereum's: the padding of Keccak, not of SHA-3) of `size` bytes at any address.
static inline void keccak256(const void* from, size_t size, uint8_t digest[32]) {
  const uint8_t* bytes = (const uint8_t*)from;
  uint64_t state[25] = {0}, block[17];
  for (int last = 0; !last;) {
    last = size < sizeof block;
    const size_t taken = last ? size : sizeof block;
    memset(block, 0, sizeof block);
    memcpy(block, bytes, taken);
    if (last) {
      ((uint8_t*)block)[taken] ^= 0x01;
      ((uint8_t*)block)[sizeof block - 1] ^= 0x80;
    }
    for (size_t i = 0; i < 17; ++i) state[i] ^= block[i];
    keccak_f(state);
    bytes += taken, size -= taken;
  }
  memcpy(digest, state, 32);
}
