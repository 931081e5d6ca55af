// Carry chains: the only arithmetic that is written twice, once for the host (64-bit limbs) and once for the device
// (32-bit limbs, in field/limbs32.h). add_n and sub_n return the carry or borrow out; mont_mul and mont_sqr are
// the whole Montgomery product and square.
#pragma once
#include "field/params.h"

namespace dp {

// limb i of a constant given as 64-bit words
template <int N64>
DP_HD constexpr limb_t limb_of(const Words<N64>& c, int i) {
#if DP_DEVICE
  return (limb_t)(c.w[i >> 1] >> (32 * (i & 1)));
#else
  return c.w[i];
#endif
}

}  // namespace dp

#if DP_DEVICE
#include "field/limbs32.h"
#else
#include "field/limbs64.h"
#endif
