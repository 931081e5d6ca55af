// Additions of XYZZ sums by four lanes each, for kernels that wait for the latency of additions and not for the multiplier.
//
// An addition is 14 field products, of which one thread makes one after the other; but no more than four depend on each
// other, so four lanes take the time of four. Of the 16 that they make, two are of no use.
//
// Every lane of a warp takes part in every collective here, so that all calls are uniform over a warp.
#pragma once
#include "group.h"

namespace dp {

// `x` of another lane; `pick` gets each of its words from there.
template <class Pick>
DP_HD F moved(const F& x, Pick pick) {
  F r;
  const u32* from = reinterpret_cast<const u32*>(&x);
  u32* to = reinterpret_cast<u32*>(&r);
#pragma unroll
  for (u32 i = 0; i < sizeof(F) / sizeof(u32); ++i) to[i] = pick(from[i]);
  return r;
}

DP_HD F across(const F& x, u32 lanes) {
  return moved(x, [&](u32 word) { return __shfl_xor_sync(0xffffffffu, word, lanes); });
}

// *a += *b, for the four lanes of a quad, which give the same sums; those that are not `active` change nothing. Complete, as
// XYZZ::add is, whose names the products have here.
DP_COLD void quad_add(Sum* a, const Sum* b, bool active) {
  static_assert(sizeof(Sum) == 4 * sizeof(F), "a sum is x, y, zz, zzz");
  constexpr u32 ALL = 0xffffffffu;
  const u32 lane = threadIdx.x & 3, quad = threadIdx.x & 28;
  const bool odd = lane & 1;
  F* const to = reinterpret_cast<F*>(a);
  const F* const from = reinterpret_cast<const F*>(b);
  const F* const own = odd ? from : to;
  const F* const other = odd ? to : from;

  const F own_z = own[2 + lane / 2], other_z = other[2 + lane / 2];
  const u32 infinite = __ballot_sync(ALL, other_z.is_zero()) >> quad;  // bit 0: b is, bit 1: a is
  const F first = own[lane / 2] * other_z;                             // u1, u2, s1, s2
  const F beside = across(first, 1);
  const F difference = (odd ? first : beside) - (odd ? beside : first);  // p, p, rr, rr
  const u32 equal = __ballot_sync(ALL, difference.is_zero()) >> quad;    // bit 0: the abscissas are, bit 2: the ordinates
  const F second = (odd ? own_z : difference) * (odd ? other_z : difference);  // pp, zz1 zz2, rr^2, zzz1 zzz2
  const F pp = moved(second, [](u32 word) { return __shfl_sync(ALL, word, 0, 4); });
  const F opposite = across(difference, 2);                                             // rr, rr, p, p
  const F third = (lane == 0 ? first : lane == 1 ? second : opposite) * pp;             // qq, zz, ppp, ppp
  const F x = across(second - third, 2) - third.dbl();                                  // in lane 0
  const F left = lane == 0 ? third - x : lane == 3 ? second : first;
  const F fourth = left * (lane == 0 ? opposite : third);  // rr (qq - x), -, s1 ppp, zzz
  const F y = fourth - across(fourth, 2);                  // in lane 0

  if (active && !(infinite & 1)) {
    if (infinite & 2) {
      to[lane] = from[lane];
    } else if (equal & 1) {
      if (!(equal & 4)) to[lane] = F::zero();
      else if (lane == 0) double_it(*a);
    } else if (lane == 0) {
      to[0] = x;
      to[1] = y;
    } else if (lane != 2) {
      to[lane == 1 ? 2 : 3] = lane == 1 ? third : fourth;
    }
  }
  __syncwarp();
}

// Adds `count` pairs of sums by all quads of the block: the i-th is at(i), a pair of places {to, from} in `sums`. No sum
// may be in two pairs. The block must wait before it reads what others left here.
template <class At>
DP_HD void add_pairs(Sum* sums, u32 count, At at) {
  for (u32 first = threadIdx.x / 32 * 8; first < count; first += blockDim.x / 4) {
    const u32 i = first + (threadIdx.x & 31) / 4;
    const uint2 pair = at(min(i, count - 1));
    quad_add(sums + pair.x, sums + pair.y, i < count);
  }
}

}  // namespace dp
