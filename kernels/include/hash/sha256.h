// SHA-256's compression function (FIPS 180-4, section 6.2.2), with every value on the way kept: a circuit's wires are bits
// of them.
#pragma once
#include "platform.h"

namespace dp {

// Values that `compress` keeps: 5 for each of 48 words of the schedule, 9 for each of 64 rounds but two sums of the first,
// and 8 sums at the end.
constexpr u32 SHA256_KEPT = 48 * 5 + 64 * 9 - 2 + 8;

#if DP_DEVICE && !defined(DP_EMULATE)
__device__ __constant__
#else
static const
#endif
u32 SHA256_ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

DP_HD u32 sha256_rotated(u32 x, int count) { return x >> count | x << (32 - count); }

// Writes SHA256_KEPT values to `kept`, in the order in which distprove/circuits/filecoin/sha256.py makes them. Sums are kept
// with their carries, up to 35 bits. `words` are the 16 of the message and the 8 of the state.
DP_HD void sha256_compress(const u32* words, u64* kept) {
  const u32 *message = words, *state = words + 16;
  u32 count = 0;
  auto keep = [&](u64 value) {
    kept[count++] = value;
    return (u32)value;
  };
  auto mixed = [&](u32 x, int first, int second, u32 third) {
    const u32 both = keep(sha256_rotated(x, first) ^ sha256_rotated(x, second));
    return keep(both ^ third);
  };
  u32 w[64];
  for (int i = 0; i < 16; ++i) w[i] = message[i];
  DP_PRAGMA(unroll 1)
  for (int i = 16; i < 64; ++i) {
    const u32 s0 = mixed(w[i - 15], 7, 18, w[i - 15] >> 3);
    const u32 s1 = mixed(w[i - 2], 17, 19, w[i - 2] >> 10);
    w[i] = keep((u64)w[i - 16] + s0 + w[i - 7] + s1);
  }
  // `a` and `e` are sums that are taken, and then kept, when the next round needs them.
  u64 a = state[0], e = state[4];
  u32 b = state[1], c = state[2], d = state[3], f = state[5], g = state[6], h = state[7];
  DP_PRAGMA(unroll 1)
  for (int i = 0; i < 64; ++i) {
    const u32 new_e = i ? keep(e) : (u32)e;
    const u32 s1 = mixed(new_e, 6, 11, sha256_rotated(new_e, 25));
    const u32 chosen = keep(g ^ (new_e & (f ^ g)));
    const u64 first = (u64)h + s1 + chosen + SHA256_ROUNDS[i] + w[i];
    const u32 new_a = i ? keep(a) : (u32)a;
    const u32 s0 = mixed(new_a, 2, 13, sha256_rotated(new_a, 22));
    const u32 majority = keep((new_a & b) | (c & (new_a | b)));
    keep(b & c);
    a = first + s0 + majority;
    e = first + d;
    d = c, c = b, b = new_a;
    h = g, g = f, f = new_e;
  }
  keep(a + state[0]);
  keep((u64)state[1] + b);
  keep((u64)state[2] + c);
  keep((u64)state[3] + d);
  keep(e + state[4]);
  keep((u64)state[5] + f);
  keep((u64)state[6] + g);
  keep((u64)state[7] + h);
}

}  // namespace dp
