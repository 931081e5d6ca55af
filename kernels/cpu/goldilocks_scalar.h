// Vectors of one lane: plain C++, for every processor. Elements stay canonical.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace {  // see goldilocks_ntt.h

struct ScalarVector {
  using T = u64;
  static constexpr size_t LANES = 1;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }

  static T mul(T a, T b) { return gl::mul(a, b); }
  static T canonical(T a) { return a; }
  static T add(T a, T b) { return gl::add(a, b); }
  static T sub(T a, T b) { return gl::sub(a, b); }
  static void transpose(T (&)[8]) {}
};

struct ScalarLanes {
  using T = u64;
  static constexpr size_t LANES = 1;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }
  static T iota() { return 0; }
  static T add(T a, T b) { return a + b; }
  static T bit_xor(T a, T b) { return a ^ b; }
  static T xor3(T a, T b, T c) { return a ^ b ^ c; }
  static T chi(T a, T b, T c) { return a ^ (~b & c); }
  template <int N>
  static T rotl(T a) {
    return (a << N) | (a >> (64 - N));
  }
};

}  // namespace
}  // namespace dp
