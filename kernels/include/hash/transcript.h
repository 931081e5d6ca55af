// The Fiat-Shamir transcripts of distprove/stark/transcript.py, for provers whose rounds need no host in between. The host
// loads and stores the state as words.
//
// Some lanes draw together, the host's one (`Alone`) or those of a warp: all call with the same arguments, and all get the
// challenge. They have a number (`lane` of `count`), a Keccak state in common with as much room behind it, `permute` the
// state and `sync`.
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
  mutable u64 state[50];

  void sync() const {}
  void permute() const { keccak::permute(*reinterpret_cast<u64(*)[25]>(state)); }
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

    DP_HD u32 header() const { return 34 + text_bytes + (sized ? 8 : 0); }
    DP_HD u32 bytes() const { return header() + 24 * count; }
  };

  // Leaves the digest in the lanes' state. The parts of a block are put side by side.
  template <class Lanes>
  static DP_COLD void squeeze(const Lanes& lanes, const Message& message) {
    constexpr u32 RATE = 8 * keccak::RATE_LANES, PARTS = 9;  // without data
    const u32 bytes = message.bytes(), header = message.header(), blocks = bytes / RATE + 1;
    u64* const window = lanes.state + 25;
    unsigned char* const into = reinterpret_cast<unsigned char*>(window);
    lanes.sync();
    for (u32 i = lanes.lane; i < 25; i += lanes.count) lanes.state[i] = 0;
    for (u32 b = 0; b < blocks; ++b) {
      const u32 begin = b * RATE, first = begin > header ? (begin - header) / 8 : 0;
      for (u32 i = lanes.lane; i < keccak::RATE_LANES; i += lanes.count) window[i] = 0;
      lanes.sync();
      for (u32 i = lanes.lane; i < PARTS + keccak::RATE_LANES + 1; i += lanes.count) {
        const u32 word = first + i - PARTS;
        u32 at = 0, size = 1;
        u64 value = message.kind;
        if (i >= PARTS) {
          at = header + 8 * word, size = word < 3 * message.count ? 8 : 0;
          if (size) value = message.data[word / 3].c[word % 3];
        } else if (i < 4) at = 1 + 8 * i, value = message.state[i], size = 8;
        else if (i == 5) at = 33, value = message.mark;
        else if (i == 6) at = 34, value = message.text, size = message.text_bytes;
        else if (i == 7) at = 34 + message.text_bytes, value = (u64)24 * message.count, size = message.sized ? 8 : 0;
        else if (i == 8) at = bytes, value = 1;
        for (u32 k = 0; k < size; ++k)
          if (at + k - begin < RATE) into[at + k - begin] = (unsigned char)(value >> (8 * k));
      }
      lanes.sync();
      for (u32 i = lanes.lane; i < keccak::RATE_LANES; i += lanes.count)
        lanes.state[i] ^= window[i] ^ (b + 1 == blocks && i + 1 == keccak::RATE_LANES ? 0x8000000000000000ull : 0);
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
