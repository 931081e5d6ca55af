// Poseidon2 over BabyBear for one state in a thread's registers, by few instructions of a GPU. The multiplier is the bound: a
// wide product takes it twice as long as a narrow one. Sums are left to the compiler; forced onto the other unit, or powers onto
// the one for double precision, they gained nothing on an H200.
//
// Products of the S-box are of signed words, for which a Montgomery product of any two words is a word again: no correction
// between them. The internal layer's factors are small numbers and negative powers of two, which need no wide product.
#pragma once
#include "hash/poseidon2_babybear.h"

namespace dp {
namespace poseidon2_babybear {

using i32 = int;
using i64 = long long;

// a b. In PTX, as the compiler would make a signed wide product of an unsigned one and corrections.
DP_HD i64 wide(i32 a, i32 b) {
#if DP_PTX
  i64 product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return (i64)a * b;
#endif
}

// a b / 2^32, between -p and p for words of such a size, and never out of 32 bits. The lower words of the product and of the
// multiple of p that is taken off are equal.
DP_HD i32 signed_mul(i32 a, i32 b) {
  const i64 product = wide(a, b), multiple = wide((i32)((u32)product * bb::INVERSE), (i32)bb::P);
  return (i32)(product >> 32) - (i32)(multiple >> 32);
}

// x of (-p, p) as an element
DP_HD u32 canonical(i32 x) { return bb::least((u32)x, (u32)x + bb::P); }

struct Word {
  using V = u32;
  static DP_HD u32 add(u32 a, u32 b) { return bb::add(a, b); }
  static DP_HD u32 mul(u32 a, u32 b) { return bb::mul(a, b); }
  static DP_HD u32 constant(u32 x) { return x; }
};

struct WordSteps {
  static DP_HD u32 power(u32 x, u32 constant) {
    const i32 y = (i32)(x + constant - bb::P), square = signed_mul(y, y);
    return canonical(signed_mul(signed_mul(square, y), signed_mul(square, square)));
  }

  // x / 2^K for 0 < K <= 27: 1 / 2^K = -15 2^(27 - K), as p = 15 2^27 + 1.
  template <int K>
  static DP_HD u32 shifted(u32 x) {
    return canonical((i32)((x >> K) - (x & ((1u << K) - 1)) * (15u << (27 - K))));
  }

  static DP_HD u32 add(u32 a, u32 b) { return bb::add(a, b); }
  static DP_HD u32 sub(u32 a, u32 b) { return canonical((i32)(a - b)); }

  // The factors are those of maths/poseidon2_babybear.py, in their order.
  static DP_HD void internal(u32* s, const u32*) {
    u32 total = s[0];
    DP_PRAGMA(unroll)
    for (int i = 1; i < WIDTH; ++i) total = add(total, s[i]);
    const u32 twice[6] = {add(s[0], s[0]), add(s[2], s[2]), add(s[4], s[4]), add(s[5], s[5]), add(s[7], s[7]), add(s[8], s[8])};
    s[0] = sub(total, twice[0]);
    s[1] = add(total, s[1]);
    s[2] = add(total, twice[1]);
    s[3] = add(total, shifted<1>(s[3]));
    s[4] = add(add(total, s[4]), twice[2]);
    s[5] = add(total, add(twice[3], twice[3]));
    s[6] = sub(total, shifted<1>(s[6]));
    s[7] = sub(sub(total, s[7]), twice[4]);
    s[8] = sub(total, add(twice[5], twice[5]));
    s[9] = add(total, shifted<8>(s[9]));
    s[10] = add(total, shifted<2>(s[10]));
    s[11] = add(total, shifted<3>(s[11]));
    s[12] = add(total, shifted<27>(s[12]));
    s[13] = sub(total, shifted<8>(s[13]));
    s[14] = sub(total, shifted<4>(s[14]));
    s[15] = sub(total, shifted<27>(s[15]));
  }
};

using WordPermutation = Permutation<Word, WordSteps>;

}  // namespace poseidon2_babybear
}  // namespace dp
