// Keccak-f[1600] and Keccak-256 with the original padding (Ethereum's, not SHA-3's), on 64-bit lanes.
// The Keccak reference, version 3.0; rate 136 bytes, 17 lanes.
#pragma once
#include "platform.h"

namespace dp {
namespace keccak {

constexpr int RATE_LANES = 17;

// First byte of what a tree hashes, as a little-endian lane; the same as in goldilocks.py.
constexpr u64 LEAF_TAG = 1, NODE_TAG = 2, INJECT_TAG = 3, GRIND_TAG = 4;

#if DP_DEVICE && !defined(DP_EMULATE)
__device__ __constant__
#else
static const
#endif
u64 ROUND_CONSTANTS[24] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808Aull, 0x8000000080008000ull, 0x000000000000808Bull,
    0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull, 0x000000000000008Aull, 0x0000000000000088ull,
    0x0000000080008009ull, 0x000000008000000Aull, 0x000000008000808Bull, 0x800000000000008Bull, 0x8000000000008089ull,
    0x8000000000008003ull, 0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800Aull, 0x800000008000000Aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull};

// n is a constant wherever this is used
DP_HD u64 rotl(u64 x, int n) {
#if DP_PTX
  // Two funnel shifts; of the 64-bit shifts the compiler makes four instructions.
  const u32 low = (u32)x, high = (u32)(x >> 32);
  const u32 a = n & 32 ? high : low, b = n & 32 ? low : high;
  return ((u64)__funnelshift_l(a, b, n & 31) << 32) | __funnelshift_l(b, a, n & 31);
#else
  return n ? (x << n) | (x >> (64 - n)) : x;
#endif
}

// One round: theta, rho and pi, chi, iota. s[x + 5 y].
DP_HD void round(u64 (&s)[25], u64 constant) {
  u64 c[5], d[5], b[25];
  DP_PRAGMA(unroll)
  for (int x = 0; x < 5; ++x) c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
  DP_PRAGMA(unroll)
  for (int x = 0; x < 5; ++x) d[x] = c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1);
  b[0] = s[0] ^ d[0];
  b[10] = rotl(s[1] ^ d[1], 1);
  b[20] = rotl(s[2] ^ d[2], 62);
  b[5] = rotl(s[3] ^ d[3], 28);
  b[15] = rotl(s[4] ^ d[4], 27);
  b[16] = rotl(s[5] ^ d[0], 36);
  b[1] = rotl(s[6] ^ d[1], 44);
  b[11] = rotl(s[7] ^ d[2], 6);
  b[21] = rotl(s[8] ^ d[3], 55);
  b[6] = rotl(s[9] ^ d[4], 20);
  b[7] = rotl(s[10] ^ d[0], 3);
  b[17] = rotl(s[11] ^ d[1], 10);
  b[2] = rotl(s[12] ^ d[2], 43);
  b[12] = rotl(s[13] ^ d[3], 25);
  b[22] = rotl(s[14] ^ d[4], 39);
  b[23] = rotl(s[15] ^ d[0], 41);
  b[8] = rotl(s[16] ^ d[1], 45);
  b[18] = rotl(s[17] ^ d[2], 15);
  b[3] = rotl(s[18] ^ d[3], 21);
  b[13] = rotl(s[19] ^ d[4], 8);
  b[14] = rotl(s[20] ^ d[0], 18);
  b[24] = rotl(s[21] ^ d[1], 2);
  b[9] = rotl(s[22] ^ d[2], 61);
  b[19] = rotl(s[23] ^ d[3], 56);
  b[4] = rotl(s[24] ^ d[4], 14);
  DP_PRAGMA(unroll)
  for (int y = 0; y < 25; y += 5)
    DP_PRAGMA(unroll)
    for (int x = 0; x < 5; ++x) s[y + x] = b[y + x] ^ (~b[y + (x + 1) % 5] & b[y + (x + 2) % 5]);
  s[0] ^= constant;
}

DP_HD void permute(u64 (&s)[25]) {
  for (int r = 0; r < 24; ++r) round(s, ROUND_CONSTANTS[r]);
}

// The padding of a message whose last block holds `lanes` whole lanes, 0 <= lanes < RATE_LANES.
DP_HD void pad(u64 (&s)[25], int lanes) {
  DP_PRAGMA(unroll)
  for (int i = 0; i < RATE_LANES; ++i)  // every index a constant: the state stays in registers
    if (i == lanes) s[i] ^= 1;
  s[RATE_LANES - 1] ^= 0x8000000000000000ull;
}

}  // namespace keccak
}  // namespace dp
