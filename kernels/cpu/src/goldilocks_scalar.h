// Vectors of one lane: plain C++, for every CPU. Elements are any 64-bit words, as in the wider vectors, and whatever
// depends on their values is masked: the branches of field/goldilocks.h on random values cost more than the arithmetic.
#pragma once
#include "field/goldilocks.h"
#include "goldilocks_ntt.h"

namespace dp {
namespace {  // see goldilocks_ntt.h

struct ScalarVector {
  using T = u64;
  using Butterflies = PlainButterflies<ScalarVector>;
  static constexpr size_t LANES = 1;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }

  // All ones where `condition` holds.
  static T mask(bool condition) { return -(T)condition; }
  static T canonical(T a) { return a - (gl::P & mask(a >= gl::P)); }
  // `b` is canonical, so that neither wraps twice: 2^64 = epsilon.
  static T add(T a, T b) {
    const T s = a + b;
    return s + (gl::EPSILON & mask(s < b));
  }
  static T sub(T a, T b) { return a - b - (gl::EPSILON & mask(a < b)); }
  // gl::reduce128 but for its last step
  static T mul(T a, T b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    const T hi = (T)(product >> 64), lo = (T)product, h1 = hi >> 32, h0 = (hi & gl::EPSILON) * gl::EPSILON;
    const T t = lo - h1 - (gl::EPSILON & mask(lo < h1)), r = t + h0;
    return r + (gl::EPSILON & mask(r < h0));
  }
  static void transpose(T (&)[8]) {}
};

struct ScalarLanes {
  using T = u64;
  static constexpr size_t LANES = 1;
  static constexpr int REGISTERS = 16;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }
  static T iota() { return 0; }
  static T add(T a, T b) { return a + b; }
  static T bit_xor(T a, T b) { return a ^ b; }
  static T xor3(T a, T b, T c) { return a ^ b ^ c; }
  static T theta_sum(T a, T b) { return bit_xor(a, b); }
  static T theta(T s, T, T sum) { return bit_xor(s, sum); }
  static T chi(T a, T b, T c) { return a ^ (~b & c); }
  template <int N>
  static T rotl(T a) {
    return (a << N) | (a >> (64 - N));
  }
};

}  // namespace
}  // namespace dp
