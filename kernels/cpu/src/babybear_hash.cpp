#include "babybear_hash.h"

#include <algorithm>

#include "babybear_lanes.h"
#include "babybear_one_state.h"

namespace dp {

namespace {

using namespace poseidon2_babybear;
using Lanes = BabyBearLanes;
constexpr size_t LANES = Lanes::LANES;

// Elements that are `stride` apart, the first `count` of them canonical ones at `at`; other lanes repeat the first.
Lanes::V load(const u32* at, size_t stride, size_t count) {
  u32 words[LANES];
  for (size_t l = 0; l < LANES; ++l) words[l] = at[l < count ? l * stride : 0];
  return Lanes::mul(Lanes::of(words), Lanes::constant(bb::R2));
}

void store(const Lanes::V& a, u32* at, size_t stride, size_t count) {
  u32 words[LANES];
  Lanes::to(Lanes::mul(a, Lanes::constant(1)), words);
  for (size_t l = 0; l < count; ++l) at[l * stride] = words[l];
}

using State = Permutation<Lanes>;

void store_digests(const Lanes::V* s, u32* out, size_t count) {
  for (int i = 0; i < DIGEST; ++i) store(s[i], out + i, DIGEST, count);
}

}  // namespace

void babybear_permute(const Constants& with, const u32* states, size_t n, u32* out) {
  for (size_t at = 0; at < n; at += LANES) {
    const size_t count = std::min(LANES, n - at);
    if (count == 1) {
      u32 one[WIDTH];
      for (int i = 0; i < WIDTH; ++i) one[i] = bb::to_montgomery(states[at * WIDTH + i]);
      permute_one(with, one);
      for (int i = 0; i < WIDTH; ++i) out[at * WIDTH + i] = bb::from_montgomery(one[i]);
      break;
    }
    Lanes::V s[WIDTH];
    for (int i = 0; i < WIDTH; ++i) s[i] = load(states + at * WIDTH + i, WIDTH, count);
    State::permute(s, with);
    for (int i = 0; i < WIDTH; ++i) store(s[i], out + at * WIDTH + i, WIDTH, count);
  }
}

int babybear_absorb(const Constants& with, u32* state, int at, const u32* values, size_t n) {
  u32 own[WIDTH];
  for (int i = 0; i < WIDTH; ++i) own[i] = bb::to_montgomery(state[i]);
  for (size_t i = 0; i < n; ++i) {
    own[at++] = bb::to_montgomery(values[i]);
    if (at < RATE) continue;
    permute_one(with, own);
    at = 0;
  }
  for (int i = 0; i < WIDTH; ++i) state[i] = bb::from_montgomery(own[i]);
  return at;
}

void babybear_hash_rows(const Constants& with, const u32* rows, size_t width, size_t n, u32* out) {
  for (size_t at = 0; at < n; at += LANES) {
    const size_t count = std::min(LANES, n - at);
    Lanes::V s[WIDTH];
    for (int i = 0; i < WIDTH; ++i) s[i] = Lanes::constant(0);
    for (size_t start = 0; start < width; start += RATE) {
      const size_t block = std::min<size_t>(RATE, width - start);
      for (size_t i = 0; i < block; ++i) s[i] = load(rows + at * width + start + i, width, count);
      State::permute(s, with);
    }
    store_digests(s, out + at * DIGEST, count);
  }
}

void babybear_compress(const Constants& with, const u32* left, const u32* right, size_t stride, size_t n, u32* out) {
  for (size_t at = 0; at < n; at += LANES) {
    const size_t count = std::min(LANES, n - at);
    Lanes::V s[WIDTH];
    for (int i = 0; i < DIGEST; ++i) {
      s[i] = load(left + at * stride + i, stride, count);
      s[DIGEST + i] = load(right + at * stride + i, stride, count);
    }
    State::permute(s, with);
    store_digests(s, out + at * DIGEST, count);
  }
}

size_t babybear_grind(const Constants& with, const u32* state, int position, u32 first, size_t n, int bits) {
  const u32 mask = (u32)((1ull << bits) - 1);
  Lanes::V begin[WIDTH];
  for (int i = 0; i < WIDTH; ++i) begin[i] = Lanes::constant(bb::to_montgomery(state[i]));
  for (size_t at = 0; at < n; at += LANES) {
    Lanes::V s[WIDTH];
    for (int i = 0; i < WIDTH; ++i) s[i] = begin[i];
    u32 words[LANES];
    for (size_t l = 0; l < LANES; ++l) words[l] = first + (u32)std::min(at + l, n - 1);
    s[position] = load(words, 1, LANES);
    State::permute(s, with);
    store(s[RATE - 1], words, 1, LANES);
    for (size_t l = 0; l < LANES && at + l < n; ++l)
      if ((words[l] & mask) == 0) return at + l;
  }
  return n;
}

}  // namespace dp
