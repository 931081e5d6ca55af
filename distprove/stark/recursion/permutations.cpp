// The columns of the table `poseidon2`: row i permutes state i, 16 words of `states`. Its place are the scalars on two wires
// by their numbers in `bits` (2, rows); the values of wires have four words each. Rows beyond the last state permute zeros.
#include "hash/poseidon2.h"

DP_ROW void row(const Inputs& in, u64 i, Row& out) {
  constexpr int WIDTH = dp::poseidon2::WIDTH, PLACE = 2, WORDS = 4;
  const bool given = i < in.states.n / WIDTH;
  u64 state[WIDTH];
#pragma unroll
  for (int k = 0; k < WIDTH; ++k) {
    state[k] = given ? in.states[i * WIDTH + k] : 0;
    out[column::state + k] = state[k];
  }
  dp::poseidon2::permute<dp::poseidon2::Scalar>(
      state, [&](int number, u64 power) { out[column::power + number] = power; });
#pragma unroll
  for (int k = 0; k < PLACE; ++k) out[column::place + k] = in.values[WORDS * in.bits(k, i)];
}
