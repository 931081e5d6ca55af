// The columns of the table `bits`: those of the scalar on wire `of`, whose values lie four words each, and the products that
// its lowest bits make with `factors` (k, rows).
#include "field/goldilocks.h"

DP_ROW void row(const Inputs& in, u64 i, Row& out) {
  constexpr u64 WORDS = 4, BITS = 64, PRODUCTS = 32;
  constexpr u64 HALF = ((u64)1 << 32) - 1;
  const u64 value = in.values[WORDS * in.of[i]];
#pragma unroll
  for (u64 k = 0; k < BITS; ++k) out[column::bit + k] = value >> k & 1;
  const u64 missing = dp::gl::sub(value >> 32, HALF);
  out[column::inverse] = dp::gl::inverse(missing);
  out[column::full] = missing == 0;
  u64 product = 1;
#pragma unroll
  for (u64 k = 0; k < PRODUCTS; ++k) {
    if (value >> k & 1) product = dp::gl::mul(product, dp::gl::add(in.factors(k, i), 1));
    out[column::product + k] = product;
  }
}
