// Constants of Poseidon2 over BN254 as five digits of 52 bits, for code on lanes (poseidon2_bn254_lanes.h). Such code is built with
// options that not every CPU runs, so that it cannot compute them with Fp, which other files share.
#pragma once
#include "hash/poseidon2_bn254_sizes.h"

namespace dp {
namespace poseidon2_bn254 {

constexpr int DIGITS = 5, DIGIT_BITS = 52;

struct DigitConstants {
  u64 modulus[DIGITS];
  u64 neg_inverse;         // of the modulus r, mod 2^52
  u64 complement[DIGITS];  // 2^260 - r
  u64 quotient;            // below 2^260 / r, by one to two
  u64 to_form[DIGITS];     // 2^520 mod r: a number's product with it is its Montgomery form for the radix 2^260
  u64 full[2 * HALF_FULL * WIDTH][DIGITS], partial[PARTIAL][DIGITS];  // round constants, in this form
};

const DigitConstants& digit_constants();

}  // namespace poseidon2_bn254
}  // namespace dp
