// The duplex sponge of OpenVM 2's transcripts by the lanes of one warp: lane i has element i modulo 16, in Montgomery form.
// distprove/stark/openvm/transcript.py describes it. Bound: latency, of shuffles and of products one after the other.
#pragma once
#include "hash/poseidon2_babybear.h"

namespace dp {
namespace bb {

// Kept in the device's memory between kernels. Must equal SPONGE in cuda/openvm/sponge.py.
struct Sponge {
  u32 state[poseidon2_babybear::WIDTH];
  u32 absorbed;  // elements observed since the last permutation
  u32 left;      // elements that can be drawn before the next one
};

// All lanes of the warp call with the same arguments and get the same challenges.
class WarpSponge {
 public:
  static constexpr u32 LANES = 32;

  __device__ WarpSponge(Sponge* kept, const poseidon2_babybear::Constants* with)
      : kept_(kept), with_(with), own_(threadIdx.x % poseidon2_babybear::WIDTH) {
    value_ = kept->state[own_];
    absorbed_ = kept->absorbed;
    left_ = kept->left;
    __syncwarp();
  }

  __device__ void observe(u32 element) {
    if (own_ == absorbed_) value_ = element;
    if (++absorbed_ == poseidon2_babybear::RATE) permute();
  }
  __device__ void observe(const m::Ext& element) {
#pragma unroll
    for (int c = 0; c < 4; ++c) observe(element[c]);
  }
  __device__ u32 sample() {
    if (absorbed_ || !left_) permute();
    return word(value_, --left_);
  }
  __device__ m::Ext sample_ext() {
    m::Ext drawn;
#pragma unroll
    for (int c = 0; c < 4; ++c) drawn[c] = sample();
    return drawn;
  }
  // Puts the state back.
  __device__ void keep() const {
    if (threadIdx.x % LANES < poseidon2_babybear::WIDTH) kept_->state[own_] = value_;
    if (threadIdx.x % LANES == 0) kept_->absorbed = absorbed_, kept_->left = left_;
    __syncwarp();
  }

 private:
  static constexpr u32 ALL = 0xffffffff;

  Sponge* const kept_;
  const poseidon2_babybear::Constants* const with_;
  const u32 own_;
  u32 value_, absorbed_, left_;

  static __device__ __forceinline__ u32 word(u32 v, u32 lane) { return __shfl_sync(ALL, v, lane); }
  static __device__ __forceinline__ u32 other(u32 v, u32 lanes) { return __shfl_xor_sync(ALL, v, lanes); }
  static __device__ __forceinline__ u32 seventh(u32 x) {
    const u32 square = m::mul(x, x);
    return m::mul(m::mul(square, x), m::mul(square, square));
  }
  // The element `step` behind this one in its four.
  static __device__ __forceinline__ u32 in_four(u32 v, u32 step) {
    return word(v, (threadIdx.x % LANES & ~3u) | ((threadIdx.x + step) & 3));
  }
  // The sum over this one's place in all fours.
  static __device__ __forceinline__ u32 column(u32 v) {
    const u32 two = bb::add(v, other(v, 4));
    return bb::add(two, other(two, 8));
  }
  // circ(2 M, M, M, M) with M = circ(2, 3, 1, 1)
  static __device__ __forceinline__ u32 external(u32 v) {
    const u32 second = in_four(v, 1), third = in_four(v, 2), fourth = in_four(v, 3);
    const u32 total = bb::add(bb::add(v, second), bb::add(third, fourth));
    const u32 four = bb::add(bb::add(total, v), bb::add(second, second));
    return bb::add(four, column(four));
  }

  // Full rounds, from the constants on. A round's constant is loaded a round ahead: behind the last ones come others.
  static __device__ __forceinline__ u32 full(u32 v, const u32* constants) {
    using namespace poseidon2_babybear;
    const u32 own = threadIdx.x % WIDTH;
    u32 ahead = constants[own];
#pragma unroll 1
    for (int r = 0; r < HALF_FULL; ++r) {
      const u32 constant = ahead;
      ahead = (constants += WIDTH)[own];
      v = external(seventh(bb::add(v, constant)));
    }
    return v;
  }

  // The state's elements in and out are in registers: an object in memory would be written and read for each element.
  static __device__ __noinline__ u32 permuted(u32 value, const poseidon2_babybear::Constants* with) {
    using namespace poseidon2_babybear;
    const u32 own = threadIdx.x % WIDTH, diagonal = with->diagonal[own], *constants = with->round + HALF_FULL * WIDTH;
    u32 v = full(external(value), with->round), ahead = *constants;
#pragma unroll 1
    for (int r = 0; r < PARTIAL; ++r) {
      const u32 constant = ahead;
      ahead = *++constants;
      // What does not wait for the power of the first element: the sum of the others, and their products.
      const u32 powered = word(seventh(bb::add(v, constant)), 0), product = m::mul(v, diagonal);
      u32 rest = own ? v : 0;
#pragma unroll
      for (u32 lanes = 1; lanes < WIDTH; lanes *= 2) rest = bb::add(rest, other(rest, lanes));
      const u32 total = bb::add(rest, powered);
      v = bb::add(total, own ? product : m::mul(powered, diagonal));
    }
    return full(v, constants);
  }

  __device__ __forceinline__ void permute() {
    value_ = permuted(value_, with_), absorbed_ = 0, left_ = poseidon2_babybear::RATE;
  }
};

}  // namespace bb
}  // namespace dp
