// The columns of keccak_rounds.py: row i is round i mod 24 of permutation i / 24.
#include "hash/keccak.h"

constexpr int ROUNDS = 24, LANES = 25;

// Bits of a lane, least significant first.
DP_ROW void write_bits(Row& out, u64 first, u64 lane) {
#pragma unroll 8
  for (int z = 0; z < 64; ++z) out[first + z] = lane >> z & 1;
}

DP_ROW void row(const Inputs& in, u64 i, Row& out) {
  const u64 permutation = i / ROUNDS;
  const int number = (int)(i % ROUNDS);
  u64 state[LANES];
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) state[lane] = in.states(lane, permutation);
  // The rounds before this one again: half a permutation on average, against thousands of columns to be written.
  for (int r = 0; r < number; ++r) dp::keccak::round(state, dp::keccak::ROUND_CONSTANTS[r]);

  u64 parity[5], added[5];
#pragma unroll
  for (int x = 0; x < 5; ++x) parity[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];
#pragma unroll
  for (int x = 0; x < 5; ++x) {
    added[x] = parity[(x + 4) % 5] ^ dp::keccak::rotl(parity[(x + 1) % 5], 1);
    write_bits(out, column::parity + 64 * x, parity[x] ^ added[x]);
    write_bits(out, column::theta + 64 * x, added[x]);
  }
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) write_bits(out, column::state + 64 * lane, state[lane] ^ added[lane % 5]);

  const u64 constant = dp::keccak::ROUND_CONSTANTS[number];
  dp::keccak::round(state, constant);
#pragma unroll
  for (int lane = 0; lane < LANES; ++lane) {
    out[column::out + 2 * lane] = (u32)state[lane];
    out[column::out + 2 * lane + 1] = state[lane] >> 32;
  }
  for (int bit = 0, z = 0; bit < 7; ++bit, z = 2 * z + 1) out[column::chi + bit] = (state[0] ^ constant) >> z & 1;
  for (int r = 0; r < ROUNDS; ++r) out[column::round + r] = r == number;
}
