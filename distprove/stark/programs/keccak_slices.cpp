// The columns of keccak_slices.py: row i is part i mod 4 of stage i / 4 mod 25 of permutation i / 100.
#include "hash/keccak.h"

constexpr int SLICES = 16, PARTS = 64 / SLICES, STAGES = 25, LANES = 25;
constexpr u64 LIMB = (1 << SLICES) - 1;

DP_ROW int constant_place(int i) { return (1 << i) - 1; }  // 0, 1, 3, 7, 15

DP_ROW void row(const Inputs& in, u64 i, Row& out) {
  const int part = (int)(i % PARTS), stage = (int)(i / PARTS % STAGES);
  const u64 permutation = i / (PARTS * STAGES);
  const int shift = SLICES * part;
  u64 state[LANES], before[LANES];
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) state[lane] = in.states(lane, permutation);
  // The stages before this one again: half a permutation on average, against hundreds of columns to be written.
  for (int r = 0; r < stage; ++r) dp::keccak::round(state, dp::keccak::ROUND_CONSTANTS[r]);
  const u64 constant = stage ? dp::keccak::ROUND_CONSTANTS[stage ? stage - 1 : 0] : 0;

  // Before iota and chi. Every third lane of a plane follows from the two before it, from any start on.
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) before[lane] = lane ? state[lane] : state[0] ^ constant;
  const u64 first = before[0];
#pragma unroll
  for (int y = 0; y < LANES; y += 5) {
#pragma unroll
    for (int k = 0; k < 6; ++k) {
      const int x = 3 * k % 5, next = (x + 1) % 5;
      before[y + x] = (y + x ? state[y + x] : first) ^ (before[y + (x + 2) % 5] & ~(y + next ? state[y + next] : first));
    }
  }
  u64 parity[5];
#pragma unroll
  for (int x = 0; x < 5; ++x) parity[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];

#pragma unroll
  for (int lane = 0; lane < LANES; ++lane)
#pragma unroll 8
    for (int j = 0; j < SLICES; ++j) out[column::bits + SLICES * lane + j] = before[lane] >> (shift + j) & 1;
#pragma unroll
  for (int x = 0; x < 5; ++x) {
#pragma unroll 8
    for (int j = 0; j < SLICES; ++j) {
      const int z = shift + j;
      u64 ones = 0;
      for (int y = 0; y < LANES; y += 5) ones += state[x + y] >> z & 1;
      out[column::parity + SLICES * x + j] = ones & 1;
      out[column::carry + SLICES * x + j] = ones >> 1;
    }
    out[column::below + x] = parity[x] >> ((shift + 63) % 64) & 1;
    out[column::around + x] = parity[x] >> 63;
  }
  for (int k = 0; k < 5; ++k) {
    out[column::iota + k] = state[0] >> (shift + constant_place(k)) & 1;
    out[column::constant + k] = constant >> (shift + constant_place(k)) & 1;
    out[column::outer + k] = stage / 5 == k;
    out[column::inner + k] = stage % 5 == k;
  }
  for (int k = 0; k < PARTS; ++k) out[column::slices + k] = part == k;
  out[column::stamp] = i / PARTS;

  // After theta, in words: the pieces of a word follow each other.
  u64 word = 0;
  const u64 pieces = in.pieces.n;
  for (u64 p = 0; p < pieces; ++p) {
    const int lane = (int)in.pieces(1, p), x = lane % 5;
    u64 moved = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) moved = k == lane ? state[k] : moved;  // an index known when it is compiled
#pragma unroll
    for (int k = 0; k < 5; ++k)
      moved ^= k == x ? parity[(k + 4) % 5] ^ dp::keccak::rotl(parity[(k + 1) % 5], 1) : 0;
    const u64 bits = moved >> (shift + (int)in.pieces(2, p)) & ((1ull << in.pieces(3, p)) - 1);
    word |= bits << in.pieces(4, p);
    if (p + 1 == pieces || in.pieces(0, p + 1) != in.pieces(0, p)) {
      out[column::moved + in.pieces(0, p)] = word;
      word = 0;
    }
  }
}
