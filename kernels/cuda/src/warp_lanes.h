// The lanes of a warp that draw from a transcript together (hash/transcript.h): a lane has a word of a Keccak state, or an
// element of a Poseidon2 state, in a register. Bound: latency, of shuffles and of products one after the other.
#pragma once
#include "hash/keccak.h"
#include "hash/poseidon2.h"

namespace dp {
namespace gl {

struct WarpLanes {
  static constexpr u32 count = 32, ALL = 0xffffffff;
  using State = u64;
  u32 lane;

  __device__ __forceinline__ void sync() const { __syncwarp(); }
  __device__ __forceinline__ u64 word(u64 state, u32 i) const { return __shfl_sync(ALL, state, i); }

  template <class Word>
  __device__ __forceinline__ u64 sponge(u32 blocks, const Word& word_of) const {
    u64 v = 0;
    for (u32 b = 0; b < blocks; ++b) {
      if (lane < keccak::RATE_LANES) v ^= word_of(b * keccak::RATE_LANES + lane);
      __syncwarp();
      v = keccak_f(v);
    }
    return v;
  }

  // Keccak-f: lane x + 5 y has that word, lanes from 25 on have none.
  __device__ __noinline__ u64 keccak_f(u64 v) const {
    constexpr unsigned char TURNS[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                         25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
    const u32 i = lane < 25 ? lane : 0, x = i % 5, y = i / 5;
    const u32 before = (x + 4) % 5, after = (x + 1) % 5;
    const u32 own = before_pi(x, y), next = before_pi(after, y), second = before_pi((x + 2) % 5, y);
    int turn = 0;
#pragma unroll
    for (int k = 0; k < 25; ++k)
      if (i == k) turn = TURNS[k];
#pragma unroll 1
    for (int r = 0; r < 24; ++r) {
      u64 left = 0, right = 0;
#pragma unroll
      for (int k = 0; k < 25; k += 5) left ^= word(v, before + k), right ^= word(v, after + k);
      const u64 turned = keccak::rotl(v ^ left ^ keccak::rotl(right, 1), turn);
      v = word(turned, own) ^ (~word(turned, next) & word(turned, second));
      if (lane == 0) v ^= keccak::ROUND_CONSTANTS[r];
    }
    return v;
  }

  // Poseidon2: both halves of the warp have the whole state.
  __device__ __noinline__ void permute(u64 (&state)[poseidon2::WIDTH]) const {
    using namespace poseidon2;
    const u32 own = lane % WIDTH;
    const u64 factor = DIAGONAL[own];
    u64 v = external(state[own]);
#pragma unroll 1
    for (int r = 0; r < HALF_FULL; ++r) v = external(power7<Scalar>(add(v, FULL_CONSTANTS[r * WIDTH + own])));
#pragma unroll 1
    for (int r = 0; r < PARTIAL; ++r) {
      // What does not wait for the power of the first element: the sum of the others, and their products.
      const u64 powered = word(power7<Scalar>(add(v, PARTIAL_CONSTANTS[r])), 0), product = mul(v, factor);
      const u64 total = add(sum(own ? v : 0), powered);
      v = own ? add(total, product) : sub(sub(total, powered), powered);
    }
#pragma unroll 1
    for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r) v = external(power7<Scalar>(add(v, FULL_CONSTANTS[r * WIDTH + own])));
    __syncwarp();
    if (lane < WIDTH) state[lane] = v;
    __syncwarp();
  }

 private:
  // The word that pi moves to (x, y).
  static __device__ __forceinline__ u32 before_pi(u32 x, u32 y) { return (x + 3 * y) % 5 + 5 * x; }
  // The element `step` behind this one in its four.
  __device__ __forceinline__ u64 in_four(u64 v, u32 step) const { return word(v, (lane & ~3u) | ((lane + step) & 3)); }
  // The sum of v over this one's place in all fours.
  __device__ __forceinline__ poseidon2::Sum column(u64 v) const {
    return poseidon2::Sum{v, 0} + __shfl_xor_sync(ALL, v, 4) + __shfl_xor_sync(ALL, v, 8) + __shfl_xor_sync(ALL, v, 12);
  }
  __device__ __forceinline__ u64 external(u64 v) const {
    const u64 second = in_four(v, 1);
    const auto y = reduced(poseidon2::Sum{v, 0} + v + second + second + second + in_four(v, 2) + in_four(v, 3));
    return reduced(column(y) + y);
  }
  __device__ __forceinline__ u64 sum(u64 v) const {
    const u64 four = reduced(poseidon2::Sum{v, 0} + in_four(v, 1) + in_four(v, 2) + in_four(v, 3));
    return reduced(column(four));
  }
};

}  // namespace gl
}  // namespace dp
