// The Fiat-Shamir transcripts of distprove/stark/transcript.py, for provers whose rounds need no host in between. The host
// loads and stores the state as words.
//
// Some lanes draw together, the host's one (`Alone`) or those of a warp: all call with the same arguments, and all get the
// challenge. They have a number (`lane` of `count`) and `sync`. `sponge` hashes blocks of Keccak's rate, whose words a function
// gives by their numbers; of the state that it returns `word` has each word in every lane. `permute` permutes Poseidon2's state.
// Poseidon2 over BN254 is computed by the first lane alone.
#pragma once
#include "field/goldilocks.h"
#include "hash/keccak.h"
#include "hash/poseidon2.h"
#include "hash/poseidon2_bn254.h"

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
  struct State {
    u64 words[25];
  };

  void sync() const {}
  template <class Word>
  State sponge(u32 blocks, const Word& word_of) const {
    State state = {};
    for (u32 b = 0; b < blocks; ++b) {
      for (u32 i = 0; i < keccak::RATE_LANES; ++i) state.words[i] ^= word_of(b * keccak::RATE_LANES + i);
      keccak::permute(state.words);
    }
    return state;
  }
  u64 word(const State& state, u32 i) const { return state.words[i]; }
  void permute(u64 (&state)[poseidon2::WIDTH]) const { poseidon2::permute<poseidon2::Scalar>(state); }
};

struct Transcript {
  u64 hash;  // 0 is Keccak, whose state is the first 4 words, 1 is Poseidon2, 2 that over BN254, whose state is the first 12
  u64 at, state[poseidon2::WIDTH];

  template <class Lanes>
  DP_COLD void absorb(const Lanes& lanes, Label label, const Ext* elements, u32 count) {
    if (hash == 2) packed(lanes, 0x10, label, elements, count);
    else if (hash) message(lanes, 0x10, label, elements, count);
    else digest(lanes, Message(0x10, state, label.length, label.bytes, label.length).with(elements, count));
  }

  template <class Lanes>
  DP_COLD Ext extension(const Lanes& lanes, Label label) {
    if (hash == 2) return drawn(lanes, label);
    if (hash) {
      message(lanes, 0x11, label, nullptr, 0);
      if (at) {
        lanes.sync();  // every lane has read `at`
        lanes.permute(state);
        if (lanes.lane == 0) at = 0;
        lanes.sync();
      }
      return {{state[0], state[1], state[2]}};
    }
    digest(lanes, Message(0x11, state, label.length, label.bytes, label.length));
    Ext out;
    u32 found = 0;
    for (u64 counter = 0; found < 3; ++counter) {  // its lowest byte is in the place of a label's length
      const auto block = squeeze(lanes, Message(0x12, state, counter & 0xff, counter >> 8, 7));
      for (int i = 0; i < 4 && found < 3; ++i) {
        const u64 word = lanes.word(block, i);
        if (word < P) out.c[found++] = word;
      }
    }
    return out;
  }

 private:
  // What Keccak hashes: a byte `kind`, the chain's state, a byte `mark`, some bytes of `text`; and perhaps the data's length
  // in 8 bytes, and the data.
  struct Message {
    u64 kind, chain[4], mark, text;
    u32 text_bytes;
    const Ext* data = nullptr;
    u32 words = 0;
    bool sized = false;

    DP_HD Message(u64 kind, const u64* state, u64 mark, u64 text, u32 text_bytes)
        : kind(kind), chain{state[0], state[1], state[2], state[3]}, mark(mark), text(text), text_bytes(text_bytes) {}
    DP_HD Message with(const Ext* elements, u32 count) const {
      Message sent = *this;
      sent.data = elements, sent.words = 3 * count, sent.sized = true;
      return sent;
    }
    DP_HD u32 header() const { return 34 + text_bytes + (sized ? 8 : 0); }
    DP_HD u32 bytes() const { return header() + 8 * words; }
    DP_HD u32 blocks() const { return bytes() / (8 * keccak::RATE_LANES) + 1; }
    // Word `number` of the padded message.
    DP_HD u64 word(u32 number) const {
      const int begin = 8 * (int)number, first = (int)header();
      u64 v = part(kind, -begin) | part(mark, 33 - begin) | part(text, 34 - begin) | part(1, (int)bytes() - begin);
DP_PRAGMA(unroll)
      for (int k = 0; k < 4; ++k) v |= part(chain[k], 1 + 8 * k - begin);
      if (sized) v |= part(8 * (u64)words, first - 8 - begin);
      if (begin + 8 > first) {
        const u32 last = (u32)(begin + 7 - first) / 8;  // of the data's words that have bytes here
        if (last < words) v |= part(element_word(last), first + 8 * (int)last - begin);
        if (last && last <= words) v |= part(element_word(last - 1), first + 8 * (int)last - 8 - begin);
      }
      return number + 1 == blocks() * keccak::RATE_LANES ? v | 0x8000000000000000ull : v;
    }

   private:
    DP_HD u64 element_word(u32 i) const { return data[i / 3].c[i % 3]; }
    // The bytes of a word that begins `at` bytes behind the first of another one, or before it, that lie in that one.
    static DP_HD u64 part(u64 value, int at) {
      if (at <= -8 || at >= 8) return 0;
      return at < 0 ? value >> (-8 * at) : value << (8 * at);
    }
  };

  template <class Lanes>
  static DP_HD auto squeeze(const Lanes& lanes, const Message& message) {
    return lanes.sponge(message.blocks(), [&](u32 number) { return message.word(number); });
  }
  template <class Lanes>
  DP_HD void digest(const Lanes& lanes, const Message& message) {
    const auto block = squeeze(lanes, message);
    for (u32 i = 0; i < 4; ++i) {
      const u64 word = lanes.word(block, i);
      if (lanes.lane == 0) state[i] = word;
    }
    lanes.sync();
  }

  // Poseidon2: a duplex sponge in overwrite mode.
  template <class Lanes>
  DP_HD void message(const Lanes& lanes, u64 kind, Label label, const Ext* elements, u32 count) {
    u32 place = (u32)at;
    lanes.sync();  // every lane has read it
    const auto push = [&](u64 element) {
      if (lanes.lane == 0) state[place] = element;
      if (++place < poseidon2::RATE) return;
      lanes.sync();
      lanes.permute(state);
      place = 0;
    };
    push(kind + ((u64)label.length << 8) + ((u64)(3 * count) << 16));
    for (u64 left = label.bytes, size = label.length, i = 0; i < size; i += 7, left >>= 56)
      push(left & ((1ull << 56) - 1));
    for (u32 i = 0; i < 3 * count; ++i) push(elements[i / 3].c[i % 3]);
    if (lanes.lane == 0) at = place;
    lanes.sync();
  }

  // Poseidon2 over BN254: the same with elements of that field, of which each holds one of the extension, or a message's header.
  template <class Lanes>
  DP_HD void packed(const Lanes& lanes, u64 kind, Label label, const Ext* elements, u32 count) {
    using namespace poseidon2_bn254;
    lanes.sync();  // every lane has read the state
    if (lanes.lane == 0) {
      u32 place = (u32)at;
      const auto push = [&](u64 a, u64 b, u64 c) {
        u64* const element = state + WORDS * place;
        element[0] = a, element[1] = b, element[2] = c, element[3] = 0;
        if (++place < RATE) return;
        permute_numbers(state);
        place = 0;
      };
      push(kind + ((u64)label.length << 8) + ((u64)(3 * count) << 16), label.bytes, 0);
      for (u32 i = 0; i < count; ++i) push(elements[i].c[0], elements[i].c[1], elements[i].c[2]);
      at = place;
    }
    lanes.sync();
  }

  template <class Lanes>
  DP_HD Ext drawn(const Lanes& lanes, Label label) {
    using namespace poseidon2_bn254;
    packed(lanes, 0x11, label, nullptr, 0);
    bool permutes = at != 0;
    Ext out;
    for (u32 place = 0;; ++place) {
      if (place == RATE) place = 0, permutes = true;
      if (permutes) {
        lanes.sync();  // every lane has read the state
        if (lanes.lane == 0) permute_numbers(state), at = 0;
        lanes.sync();
        permutes = false;
      }
      if (digits(state + WORDS * place, out.c)) return out;
    }
  }
};

}  // namespace gl
}  // namespace dp
