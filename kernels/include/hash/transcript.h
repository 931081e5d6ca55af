// The Fiat-Shamir transcripts of distprove/stark/transcript.py, for provers whose rounds need no host in between. The host
// loads and stores the state as words.
//
// Some lanes draw together, the host's one (`Alone`) or those of a warp: all call with the same arguments, and all get the
// challenge. They have a number (`lane` of `count`), a Keccak state in common, `permute` it and `sync`.
#pragma once
#include "field/goldilocks.h"
#include "hash/keccak.h"
#include "hash/poseidon2.h"

namespace dp {
namespace gl {

// An ASCII label of at most 8 bytes.
struct Label {
  u64 bytes;
  u32 length;

  template <u32 N>
  DP_HD Label(const char (&text)[N]) : bytes(0), length(N - 1) {
    static_assert(N <= 9, "a label of at most 8 bytes");
    for (u32 i = 0; i + 1 < N; ++i) bytes |= (u64)(unsigned char)text[i] << (8 * i);
  }
};

struct Alone {
  static constexpr u32 lane = 0, count = 1;
  mutable u64 state[25];

  void sync() const {}
  void permute() const { keccak::permute(state); }
};

struct Transcript {
  u64 hash;  // 0 is Keccak, whose state is the first 4 words, 1 is Poseidon2
  u64 at, state[poseidon2::WIDTH];

  template <class Lanes>
  DP_COLD void absorb(const Lanes& lanes, Label label, const Ext* elements, u32 count) {
    if (hash) return message(lanes, 0x10, label, elements, count);
    digest(lanes, {0x10, label.length, label.bytes, label.length, state, elements, count, true});
  }

  template <class Lanes>
  DP_COLD Ext extension(const Lanes& lanes, Label label) {
    if (hash) {
      message(lanes, 0x11, label, nullptr, 0);
      if (lanes.lane == 0 && at) permute();
      lanes.sync();
      return {{state[0], state[1], state[2]}};
    }
    digest(lanes, {0x11, label.length, label.bytes, label.length, state, nullptr, 0, false});
    Ext out;
    u32 found = 0;
    for (u64 counter = 0; found < 3; ++counter) {  // its lowest byte is in the label's length's place
      squeeze(lanes, {0x12, counter & 0xff, counter >> 8, 7, state, nullptr, 0, false});
      for (int i = 0; i < 4 && found < 3; ++i)
        if (lanes.state[i] < P) out.c[found++] = lanes.state[i];
    }
    return out;
  }

 private:
  // What Keccak hashes: kind, state, a byte `mark`, some bytes of `text`, and with `sized` the data's length; the data.
  struct Message {
    u64 kind, mark, text;
    u32 text_bytes;
    const u64* state;
    const Ext* data;
    u32 count;
    bool sized;

    DP_HD u32 bytes() const { return 34 + text_bytes + (sized ? 8 : 0) + 24 * count; }
    DP_HD u64 byte(u32 p) const {
      if (p == 0) return kind;
      if (p < 33) return state[(p - 1) / 8] >> (8 * ((p - 1) % 8)) & 0xff;
      if (p == 33) return mark;
      p -= 34;
      if (p < text_bytes) return text >> (8 * p) & 0xff;
      p -= text_bytes;
      if (sized) {
        if (p < 8) return (u64)24 * count >> (8 * p) & 0xff;
        p -= 8;
      }
      if (p < 24 * count) return data[p / 24].c[p % 24 / 8] >> (8 * (p % 8)) & 0xff;
      return p == 24 * count;  // padding begins
    }
    DP_HD u64 word(u32 number) const {
      u64 v = 0;
      for (u32 k = 0; k < 8; ++k) v |= byte(8 * number + k) << (8 * k);
      return v;
    }
  };

  template <class Lanes>
  static DP_COLD void squeeze(const Lanes& lanes, const Message& message) {
    const u32 blocks = message.bytes() / (8 * keccak::RATE_LANES) + 1;
    lanes.sync();
    for (u32 i = lanes.lane; i < 25; i += lanes.count) lanes.state[i] = 0;
    lanes.sync();
    for (u32 b = 0; b < blocks; ++b) {
      for (u32 i = lanes.lane; i < keccak::RATE_LANES; i += lanes.count) {
        u64 v = message.word(b * keccak::RATE_LANES + i);
        if (b + 1 == blocks && i + 1 == keccak::RATE_LANES) v ^= 0x8000000000000000ull;
        lanes.state[i] ^= v;
      }
      lanes.sync();
      lanes.permute();
    }
  }
  template <class Lanes>
  DP_HD void digest(const Lanes& lanes, const Message& message) {
    squeeze(lanes, message);
    for (u32 i = lanes.lane; i < 4; i += lanes.count) state[i] = lanes.state[i];
    lanes.sync();
  }

  // Poseidon2: a duplex sponge in overwrite mode, by one lane.
  DP_HD void permute() {
    poseidon2::permute<poseidon2::Scalar>(state);
    at = 0;
  }
  DP_HD void push(u64 element) {
    state[at++] = element;
    if (at == poseidon2::RATE) permute();
  }
  template <class Lanes>
  DP_HD void message(const Lanes& lanes, u64 kind, Label label, const Ext* elements, u32 count) {
    if (lanes.lane == 0) {
      push(kind + ((u64)label.length << 8) + ((u64)(3 * count) << 16));
      for (u64 left = label.bytes, size = label.length, i = 0; i < size; i += 7, left >>= 56)
        push(left & ((1ull << 56) - 1));
      for (u32 i = 0; i < count; ++i)
        for (int c = 0; c < 3; ++c) push(elements[i].c[c]);
    }
    lanes.sync();
  }
};

}  // namespace gl
}  // namespace dp
