// Whether points from outside are what they must be.
#pragma once
#include <atomic>

#include "curve/curves.h"
#include "threads.h"
#include "views.h"

namespace dp {

inline Bn254::Fq curve_b(Bn254, Bn254::Fq) { return Bn254::Fq::from_u64(3); }
inline Bn254::Fq2 curve_b(Bn254, Bn254::Fq2) {
  Bn254::Fq2 xi{Bn254::Fq::from_u64(9), Bn254::Fq::one()};
  return xi.inverse().scale(Bn254::Fq::from_u64(3));
}
inline Bls12381::Fq curve_b(Bls12381, Bls12381::Fq) { return Bls12381::Fq::from_u64(4); }
inline Bls12381::Fq2 curve_b(Bls12381, Bls12381::Fq2) {
  return {Bls12381::Fq::from_u64(4), Bls12381::Fq::from_u64(4)};
}

template <class Curve, class F>
bool in_subgroup(const Affine<F>& p) {
  return XYZZ<F>::from_affine(p).mul(Curve::Fr::Params::words()).is_infinity();
}

template <class Curve, class F>
size_t first_invalid(Pool& pool, const u8* points, size_t n, bool subgroup) {
  const F b = curve_b(Curve{}, F{});
  std::atomic<size_t> found{n};
  pool.ranges(n, 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < found.load(std::memory_order_relaxed); ++i) {
      const Affine<F> p = In<Affine<F>>(points)[i];
      if (p.is_infinity()) continue;
      if (p.x.is_canonical() && p.y.is_canonical() && p.y.sqr() == p.x.sqr() * p.x + b &&
          (!subgroup || in_subgroup<Curve>(p)))
        continue;
      size_t least = found.load();
      while (i < least && !found.compare_exchange_weak(least, i)) {
      }
      return;
    }
  });
  return found.load();
}

}  // namespace dp
