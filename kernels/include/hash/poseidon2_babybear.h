// Poseidon2 over BabyBear: width 16, x^7, 8 full and 13 partial rounds (eprint 2023/323), with Plonky3's internal layer.
// maths/poseidon2_babybear.py makes the constants and describes the same permutation.
//
// A state's elements are of a type V, one state or several beside each other, in Montgomery form: `A` has the arithmetic
// of V, and `Steps` what is not linear with small coefficients. The constants are in Montgomery form, too.
#pragma once
#include "field/babybear.h"

namespace dp {
namespace poseidon2_babybear {

constexpr int WIDTH = 16, RATE = 8, DIGEST = 8, HALF_FULL = 4, PARTIAL = 13;
constexpr int CONSTANTS = 2 * HALF_FULL * WIDTH + PARTIAL;

struct Constants {
  u32 round[CONSTANTS];  // in the order of their rounds
  u32 diagonal[WIDTH];   // of the internal layer, less one
};

// The steps by sums and products of A.
template <class A>
struct PlainSteps {
  using V = typename A::V;

  // (x + constant)^7
  static DP_HD V power(V x, u32 constant) {
    x = A::add(x, A::constant(constant));
    const V square = A::mul(x, x);
    return A::mul(A::mul(square, x), A::mul(square, square));
  }

  // The internal layer: each element times its factor, plus the total.
  static DP_HD void internal(V* s, const u32* diagonal) {
    V total = s[0];
    DP_PRAGMA(unroll)
    for (int i = 1; i < WIDTH; ++i) total = A::add(total, s[i]);
    DP_PRAGMA(unroll)
    for (int i = 0; i < WIDTH; ++i) s[i] = A::add(total, A::mul(s[i], A::constant(diagonal[i])));
  }
};

template <class A, class Steps = PlainSteps<A>>
struct Permutation {
  using V = typename A::V;

  // circ(2 M, M, M, M) with M = circ(2, 3, 1, 1)
  static DP_HD void external(V* s) {
    V columns[4];
    DP_PRAGMA(unroll)
    for (int q = 0; q < WIDTH; q += 4) {
      const V a = s[q], b = s[q + 1], c = s[q + 2], d = s[q + 3];
      const V left = A::add(a, b), right = A::add(c, d), total = A::add(left, right);
      const V with_b = A::add(total, b), with_d = A::add(total, d);
      s[q] = A::add(with_b, left);
      s[q + 1] = A::add(with_b, A::add(c, c));
      s[q + 2] = A::add(with_d, right);
      s[q + 3] = A::add(with_d, A::add(a, a));
    }
    DP_PRAGMA(unroll)
    for (int k = 0; k < 4; ++k) columns[k] = A::add(A::add(s[k], s[k + 4]), A::add(s[k + 8], s[k + 12]));
    DP_PRAGMA(unroll)
    for (int i = 0; i < WIDTH; ++i) s[i] = A::add(s[i], columns[i % 4]);
  }

  static DP_HD const u32* full(V* s, const u32* constants) {
    for (int r = 0; r < HALF_FULL; ++r, constants += WIDTH) {
      DP_PRAGMA(unroll)
      for (int i = 0; i < WIDTH; ++i) s[i] = Steps::power(s[i], constants[i]);
      external(s);
    }
    return constants;
  }

  static DP_HD void permute(V* s, const Constants& with) {
    external(s);
    const u32* constants = full(s, with.round);
    for (int r = 0; r < PARTIAL; ++r) {
      s[0] = Steps::power(s[0], *constants++);
      Steps::internal(s, with.diagonal);
    }
    full(s, constants);
  }
};

}  // namespace poseidon2_babybear
}  // namespace dp
