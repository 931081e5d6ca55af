// Affine additions in batches, as in batch_add.h, and butterflies of transforms, on eight lanes: for CPUs with AVX-512 IFMA or
// AVX2 and FMA, and moduli below 2^254.
//
// A point is eight words, x and y, in Montgomery form with the radix 2^256, canonical. A lane's elements have five digits of 52
// bits, and M(a, b) = a b / 2^260 is their product. Words are taken as they are, so each product leaves a power of two over;
// these cancel: with S_{i+1} = M(S_i, d_i) and I_n = C / S_n, M(I_{i+1}, S_i) is C / d_i and M(I_{i+1}, d_i) is C / S_i. For
// C = 2^518 the slope s comes out as 2^258 s, M of it with itself as 2^256 s^2, and with 4 (x1 - x3) as 2^256 s (x1 - x3).
// A butterfly's factor is taken times 16.
//
// A batch of additions is `products`, the inversion of what it returns, then `sums`. The files with the code are built with
// options that not every CPU runs, so that they call what they need of the scalar field, for operands that are not generic,
// through `Scalar`.
#pragma once
#include <cstddef>

#include "platform.h"

namespace dp {
namespace lanes {

constexpr size_t LANES = 8;
constexpr size_t ELEMENT = 4, POINT = 8;  // words
constexpr size_t SUFFIX_WORDS = 5 * LANES;  // of the scratch, for each LANES pairs or fewer

struct Pair {
  u32 left, out;  // slot out = slot left + slot left + 1; out is at most left, and grows with it
};

struct Scalar {
  // For equal abscissas: what the slope of a + b is divided by, never zero.
  void (*denominator)(const u64* a, const u64* b, u64* d);
  // a + b for any a and b. inverse: 2^518 / d
  void (*sum)(const u64* a, const u64* b, const u64* inverse, u64* out);
};

struct Field {
  u64 modulus[5];  // digits
  u64 neg_inverse;  // of the modulus, mod 2^52
  Scalar scalar;
};

struct Batch {
  // words[8 k + lane]: word k of the product of a lane's denominators
  void (*products)(const Field& field, const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* words);
  // words[8 k + lane]: word k of 2^518 over the product of a lane's denominators
  void (*sums)(const Field& field, u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* words);
  // The butterflies from `begin` on, to `end`, a multiple of LANES further, of blocks from `a` on that have 2^log_half each:
  // (a + w b, a - w b), or if `joining` (a + b, w (a - b)). factors: the elements w by block, at any address. Null where one
  // after the other is as fast.
  void (*butterflies)(const Field& field, bool joining, u64* a, int log_half, const void* factors, size_t begin, size_t end);
};

extern const Batch IFMA, AVX2;

}  // namespace lanes
}  // namespace dp
