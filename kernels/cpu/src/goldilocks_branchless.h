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

// hi 2^64 + lo mod p, for any hi and lo
inline u64 reduce128(u64 hi, u64 lo) {
  const u64 h1 = hi >> 32, h0 = hi & EPSILON;
  const u64 t = lo - h1 - masked(lo < h1, EPSILON);
  const u64 r = t + h0 * EPSILON;
  // Both a carry, 2^64 = epsilon, and a result from p on, -p = epsilon (mod 2^64), ask for epsilon, and never for it twice.
  return r + masked((r < t) | (r >= P), EPSILON);
}

inline u64 mul(u64 a, u64 b) {
  const unsigned __int128 t = (unsigned __int128)a * b;
  return reduce128((u64)(t >> 64), (u64)t);
}

}  // namespace branchless
}  // namespace gl
}  // namespace dp
