// Vectors of one lane: plain C++, for every CPU. Elements are any 64-bit words, as in the wider vectors, and whatever
// depends on their values is masked: the branches of field/goldilocks.h on random values cost more than the arithmetic.
#pragma once
#include "field/goldilocks.h"
#include "goldilocks_branchless.h"
#include "goldilocks_ntt.h"

namespace dp {
namespace {  // see goldilocks_ntt.h

using gl::branchless::less;
using gl::branchless::masked;
using gl::branchless::plus_epsilons;

struct ScalarVector {
  using T = u64;
  static constexpr size_t LANES = 1;
  static T load(const u64* p) { return *p; }
  static void store(u64* p, T x) { *p = x; }
  static T broadcast(u64 x) { return x; }

  static T canonical(T a) { return a - masked(a >= gl::P, gl::P); }
  // `b` is canonical, so that neither wraps twice: 2^64 = epsilon.
  static T add(T a, T b) {
    const T s = a + b;
    return s + masked(s < b, gl::EPSILON);
  }
  static T sub(T a, T b) { return less(a, b); }
  static T second(T a) { return canonical(a); }
  static T ready(T a) { return a; }
  static T plain(T a) { return a; }
  static T product(T a, T b) { return gl::branchless::mul(a, b); }
  static void products(T& a, T w, T& b, T v) {
    a = product(a, w);
    b = product(b, v);
  }
  // As gl::mul_pow2.
  template <int S>
  static T shifted(T a) {
    static_assert(S < 32 || (32 < S && S < 64) || (64 < S && S < 96), "other shifts are not used");
    if constexpr (S < 32) return plus_epsilons(a << S, a >> (64 - S));
    else if constexpr (S < 64) return plus_epsilons(less(a << S, a >> (96 - S)), a >> (64 - S));
    else return less((T)(unsigned)(a << (S - 64)) * gl::EPSILON, a >> (96 - S));
  }
  static void butterfly(T& a, T& b) {
    const T t = b;
    b = sub(a, t);
    a = add(a, t);
  }
  static void transpose(T (&)[8]) {}
};

}  // namespace
}  // namespace dp
