// The Fiat-Shamir transcripts of distprove/stark/transcript.py, for provers whose rounds need no host in between. The host
// loads and stores the state as words.
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

struct Transcript {
  u64 hash;  // 0 is Keccak, whose state is the first 4 words, 1 is Poseidon2
  u64 at, state[poseidon2::WIDTH];

  DP_COLD void absorb(Label label, const Ext* elements, u32 count) {
    if (hash) return message(0x10, label, elements, count);
    u64 lanes[25] = {};
    u32 to = start(lanes, 0x10, label);
    put(lanes, to, 24 * count, 8);
    for (u32 i = 0; i < count; ++i)
      for (int c = 0; c < 3; ++c) put(lanes, to, elements[i].c[c], 8);
    finish(lanes, to);
  }

  DP_COLD Ext extension(Label label) {
    if (hash) {
      message(0x11, label, nullptr, 0);
      if (at) permute();
      return {{state[0], state[1], state[2]}};
    }
    u64 lanes[25] = {};
    u32 to = start(lanes, 0x11, label), found = 0;
    finish(lanes, to);
    Ext out;
    for (u64 counter = 0; found < 3; ++counter) {
      u64 block[25] = {};
      to = 0;
      put(block, to, 0x12, 1);
      for (int i = 0; i < 4; ++i) put(block, to, state[i], 8);
      put(block, to, counter, 8);
      close(block, to);
      for (int i = 0; i < 4 && found < 3; ++i)
        if (block[i] < P) out.c[found++] = block[i];
    }
    return out;
  }

 private:
  static DP_COLD void keccak_f(u64* lanes) {
    u64 s[25];  // in registers, where every index is a constant
    DP_PRAGMA(unroll)
    for (int i = 0; i < 25; ++i) s[i] = lanes[i];
    keccak::permute(s);
    DP_PRAGMA(unroll)
    for (int i = 0; i < 25; ++i) lanes[i] = s[i];
  }
  // Keccak: the next `size` bytes of a message, of which `to` are there.
  static DP_HD void put(u64 (&lanes)[25], u32& to, u64 value, u32 size) {
    const u32 shift = 8 * (to % 8), first = 8 - to % 8;
    lanes[to / 8] ^= value << shift;
    if (size < first) {
      to += size;
      return;
    }
    to += first;
    if (to == 8 * keccak::RATE_LANES) {
      keccak_f(lanes);
      to = 0;
    }
    if (size > first) {
      lanes[to / 8] ^= value >> (8 * first);
      to += size - first;
    }
  }
  DP_HD u32 start(u64 (&lanes)[25], u64 kind, Label label) const {
    u32 to = 0;
    put(lanes, to, kind, 1);
    for (int i = 0; i < 4; ++i) put(lanes, to, state[i], 8);
    put(lanes, to, label.length, 1);
    put(lanes, to, label.bytes, label.length);
    return to;
  }
  static DP_HD void close(u64 (&lanes)[25], u32 to) {
    lanes[to / 8] ^= 1ull << (8 * (to % 8));
    lanes[keccak::RATE_LANES - 1] ^= 0x8000000000000000ull;
    keccak_f(lanes);
  }
  DP_HD void finish(u64 (&lanes)[25], u32 to) {
    close(lanes, to);
    for (int i = 0; i < 4; ++i) state[i] = lanes[i];
  }

  // Poseidon2: a duplex sponge in overwrite mode.
  DP_HD void permute() {
    poseidon2::permute<poseidon2::Scalar>(state);
    at = 0;
  }
  DP_HD void push(u64 element) {
    state[at++] = element;
    if (at == poseidon2::RATE) permute();
  }
  DP_HD void message(u64 kind, Label label, const Ext* elements, u32 count) {
    push(kind + ((u64)label.length << 8) + ((u64)(3 * count) << 16));
    for (u64 left = label.bytes, size = label.length, i = 0; i < size; i += 7, left >>= 56) push(left & ((1ull << 56) - 1));
    for (u32 i = 0; i < count; ++i)
      for (int c = 0; c < 3; ++c) push(elements[i].c[c]);
  }
};

}  // namespace gl
}  // namespace dp
