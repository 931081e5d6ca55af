// Goldilocks without branches, for the CPU's loops. Whether a sum or a reduction carries is as good as random, and
// compilers turn the conditions in field/goldilocks.h into jumps, half of which are mispredicted (6 ns a product, here 2).
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {
namespace branchless {

// `value` where `condition`, else 0
inline u64 masked(bool condition, u64 value) { return value & (0 - (u64)condition); }

inline u64 add(u64 a, u64 b) {
  const u64 t = P - b;
  return a - t + masked(a < t, P);
}

inline u64 sub(u64 a, u64 b) { return a - b + masked(a < b, P); }

// a - b, less epsilon where it wraps: 2^64 = epsilon
inline u64 less(u64 a, u64 b) { return a - b - masked(a < b, EPSILON); }

// t + (hi mod 2^32) epsilon, canonical
inline u64 plus_epsilons(u64 t, u64 hi) {
  const u64 d = P - (hi & EPSILON) * EPSILON;
  return t - d + masked(t < d, P);
}

// hi 2^64 + lo mod p, for any hi and lo
inline u64 reduce128(u64 hi, u64 lo) {
  return plus_epsilons(less(lo, hi >> 32), hi);
}

inline u64 mul(u64 a, u64 b) {
  const unsigned __int128 t = (unsigned __int128)a * b;
  return reduce128((u64)(t >> 64), (u64)t);
}

}  // namespace branchless
}  // namespace gl
}  // namespace dp
