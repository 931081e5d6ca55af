// Vectors of one lane: plain C++, for every CPU. Elements are any 64-bit words, as in the wider vectors, and whatever
// depends on their values is masked: the branches of field/goldilocks.h on random values cost more than the arithmetic.
#pragma once
#include "field/goldilocks.h"
#include "goldilocks_ntt.h"

namespace dp {
namespace {  // see goldilocks_ntt.h

struct ScalarVector {
  using T = u64;
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
  static T second(T a) { return canonical(a); }
  static T ready(T a) { return a; }
  static T plain(T a) { return a; }
  static T product(T a, T b) {
    const unsigned __int128 product = (unsigned __int128)a * b;
    const T hi = (T)(product >> 64), lo = (T)product;
    return plus_epsilons(sub(lo, hi >> 32), hi);
  }
  static void products(T& a, T w, T& b, T v) {
    a = product(a, w);
    b = product(b, v);
  }
  // As gl::mul_pow2.
  template <int S>
  static T shifted(T a) {
    static_assert(S < 32 || (32 < S && S < 64) || (64 < S && S < 96), "other shifts are not used");
    if constexpr (S < 32) return plus_epsilons(a << S, a >> (64 - S));
    else if constexpr (S < 64) return plus_epsilons(sub(a << S, a >> (96 - S)), a >> (64 - S));
    else return sub((T)(unsigned)(a << (S - 64)) * gl::EPSILON, a >> (96 - S));
  }
  static void butterfly(T& a, T& b) {
    const T t = b;
    b = sub(a, t);
    a = add(a, t);
  }
  // t + (hi mod 2^32) epsilon, canonical
  static T plus_epsilons(T t, T hi) {
    const T d = gl::P - (hi & gl::EPSILON) * gl::EPSILON;
    return t - d + (gl::P & mask(t < d));
  }
  static void transpose(T (&)[8]) {}
};

}  // namespace
}  // namespace dp
