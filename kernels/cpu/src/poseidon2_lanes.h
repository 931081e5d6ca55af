// The arithmetic of hash/poseidon2.h on vectors of `isa`, the namespace that the including file sets (goldilocks_avx2.h,
// goldilocks_avx512.h).
#pragma once
#include "hash/poseidon2.h"

namespace dp {
namespace {

struct Poseidon2Vectors {
  using T = isa::V;
  using R = isa::R;
  static constexpr size_t LANES = sizeof(R) / sizeof(u64);

  // A sum below 2^96 in each lane.
  struct Wide {
    R low, high;
    friend Wide operator+(Wide a, T b) {
      const R sum = isa::plus(a.low, b.v);
      return {sum, isa::carried(a.high, sum, b.v)};
    }
    friend Wide operator+(Wide a, Wide b) {
      const R sum = isa::plus(a.low, b.low);
      return {sum, isa::carried(isa::plus(a.high, b.high), sum, b.low)};
    }
  };

  static T load(const u64* p) { return isa::load(p); }
  static void store(u64* p, T x) { isa::store(p, x); }
  static T round_constant(u64 x) { return isa::set1(x); }
  static T add(T a, T b) { return isa::add(a, b); }
  static T mul(T a, T b) { return isa::mul(a, b); }
  static Wide wide(T a) { return {a.v, isa::zero()}; }
  static T narrow(Wide a) { return isa::reduce128(a.high, a.low); }

  template <int I>
  static T internal(T total, T x) {
    if constexpr (I == 0) return isa::sub(total, add(x, x));
    else if constexpr (I == 1) return add(total, x);
    else if constexpr (I == 2) return narrow(wide(total) + x + x);
    else if constexpr (I == 3) return add(total, half(x));
    else if constexpr (I == 4) return narrow(wide(total) + x + x + x);
    else if constexpr (I == 5) return narrow(wide(total) + x + x + x + x);
    else if constexpr (I == 6) return isa::sub(total, half(x));
    else if constexpr (I == 7) return isa::sub(total, narrow(wide(x) + x + x));
    else if constexpr (I == 8) return isa::sub(total, narrow(wide(x) + x + x + x));
    else if constexpr (I < 12) return isa::sub(total, shifted<96 - (I - 6)>(x));
    else if constexpr (I < 15) return add(total, shifted<96 - (I - 9)>(x));
    else return isa::sub(total, shifted<64>(x));
  }

 private:
  static T half(T x) {
    const R odd = isa::minus(isa::zero(), isa::both(x.v, isa::splat(1)));
    return {isa::plus(isa::right<1>(x.v), isa::both(odd, isa::splat((gl::P >> 1) + 1)))};
  }

  // As gl::mul_pow2, 64 <= S < 96.
  template <int S>
  static T shifted(T x) {
    const R z0 = isa::both(isa::left<S - 64>(x.v), isa::splat(gl::EPSILON));
    return isa::sub({isa::minus(isa::left<32>(z0), z0)}, {isa::right<96 - S>(x.v)});
  }
};

}  // namespace
}  // namespace dp
