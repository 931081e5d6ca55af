// Checks of points from outside: canonical, on the curve, in the subgroup.
#pragma once
#include <atomic>
#include <type_traits>

#include "curve/endomorphism.h"
#include "threads.h"
#include "views.h"

namespace dp {

// Canonical coordinates, on the curve, and of order r if asked; or infinity.
template <class Tower, class F>
bool is_member(const Affine<F>& p, bool subgroup) {
  if (!p.x.is_canonical() || !p.y.is_canonical()) return false;
  if constexpr (std::is_same_v<F, typename Tower::Fq>) {
    static const F b = Tower::b1();
    return on_curve(p, b) && (!subgroup || in_g1(p, Tower{}));
  } else {
    return on_curve(p, Tower::b2()) && (!subgroup || in_g2(p, Tower{}));
  }
}

// Returns the index of the first point that is not a member, or n.
template <class Tower, class F>
size_t first_invalid(Pool& pool, const u8* points, size_t n, bool subgroup) {
  std::atomic<size_t> found{n};
  pool.ranges(n, 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < found.load(std::memory_order_relaxed); ++i) {
      if (is_member<Tower>(In<Affine<F>>(points)[i], subgroup)) continue;
      size_t least = found.load();
      while (i < least && !found.compare_exchange_weak(least, i)) {
      }
      return;
    }
  });
  return found.load();
}

}  // namespace dp
