// The lanes of a warp that draw from a transcript together (hash/transcript.h): a Keccak state has a lane for each word.
#pragma once
#include "hash/keccak.h"

namespace dp {
namespace gl {

struct WarpLanes {
  static constexpr u32 count = 32, WORDS = 50;
  u32 lane;
  u64* state;  // WORDS of shared memory

  __device__ __forceinline__ void sync() const { __syncwarp(); }
  __device__ __noinline__ void permute() const {
    constexpr unsigned char TURNS[25] = {0,  1,  62, 28, 27, 36, 44, 6,  55, 20, 3,  10, 43,
                                         25, 39, 41, 45, 15, 21, 8,  18, 2,  61, 56, 14};
    u64* const turned = state + 25;
    const u32 i = lane < 25 ? lane : 0, x = i % 5, y = i / 5, row = 5 * y;
    const u32 before = (x + 4) % 5, after = (x + 1) % 5, second = (x + 2) % 5, to = y + 5 * ((2 * x + 3 * y) % 5);
    int turn = 0;
#pragma unroll
    for (int k = 0; k < 25; ++k)
      if (i == k) turn = TURNS[k];
    u64 v = state[i];
    for (int r = 0; r < 24; ++r) {
      u64 left = 0, right = 0;
#pragma unroll
      for (int k = 0; k < 25; k += 5) left ^= state[before + k], right ^= state[after + k];
      v = keccak::rotl(v ^ left ^ keccak::rotl(right, 1), turn);
      if (lane < 25) turned[to] = v;
      __syncwarp();
      v = turned[i] ^ (~turned[row + after] & turned[row + second]);
      if (lane == 0) v ^= keccak::ROUND_CONSTANTS[r];
      if (lane < 25) state[i] = v;
      __syncwarp();
    }
  }
};

}  // namespace gl
}  // namespace dp
