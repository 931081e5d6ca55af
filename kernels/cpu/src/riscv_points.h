// Sums of points of elliptic curves in affine coordinates, as the host calls for them compute; docs/riscv.md, "Points" and
// "Points of Ed25519".
#pragma once
#include "platform.h"

namespace dp::riscv {

enum class Curve : int { SECP256K1, SECP256R1, BN254, BLS12_381, ED25519 };

enum class PointFault : int {
  NONE,
  COORDINATE,  // one is not below the field's modulus
  NO_SUM,      // the formula divides by 0
};

// Words of a point of the curve: x and then y, the lowest word of each first.
constexpr u32 point_words(Curve curve) { return curve == Curve::BLS12_381 ? 24 : 16; }
constexpr u32 MOST_POINT_WORDS = 24;

// p + q, or 2 p where q is null, by the formulas of the curve's table; Ed25519 has sums alone. Points need not be on the curve,
// and coordinates over Ed25519 may be any numbers.
PointFault add_points(Curve curve, const u32* p, const u32* q, u32* sum);

}  // namespace dp::riscv
