// Miller loops over many pairs of points, and products of their values. The host does the final exponentiations, of which
// there are few.
//
// Layout: points as everywhere; an element of Fp12 is 12 coordinates in the tower's order, as in the host's arrays.
// Launch: miller_loops has one thread for each chunk of up to PAIRS pairs, which share the squarings; target_products one
// for each product. Bound: multiplications in Fq, some 7,000 a pair, and local memory: an element of Fp12 and a pair are 220
// words over BLS12-381. Compiled with CURVE.
#define DP_OUTLINE_PRODUCTS
#include "curve/curves.h"
#include "curve/miller.h"

using namespace dp;

constexpr u32 PAIRS = 4;

namespace dp {

template <class Curve>
struct DeviceTower;

template <>
struct DeviceTower<Bn254> {
  using Fq = Bn254::Fq;
  using Fq2 = Bn254::Fq2;
  static constexpr bool M_TWIST = false;
  DP_HD static Fq2 mul_xi(const Fq2& a) {  // 9 + u
    Fq2 t = a.dbl().dbl().dbl() + a;
    return {t.c0 - a.c1, t.c1 + a.c0};
  }
};

template <>
struct DeviceTower<Bls12381> {
  using Fq = Bls12381::Fq;
  using Fq2 = Bls12381::Fq2;
  static constexpr bool M_TWIST = true;
  DP_HD static Fq2 mul_xi(const Fq2& a) { return {a.c0 - a.c1, a.c0 + a.c1}; }  // 1 + u
};

}  // namespace dp

using Tower = DeviceTower<CURVE>;
using P = Affine<Tower::Fq>;
using Q = Affine<Tower::Fq2>;
using F12 = Fp12<Tower>;
using Pair = MillerPair<Tower>;

struct Constants {
  Tower::Fq2 b3;            // three times the twist's constant
  Tower::Fq2 psi_x, psi_y;  // psi(x, y) = (conjugate(x) psi_x, conjugate(y) psi_y); D twists only
  LoopDigits digits;
  u32 padding[2];  // a multiple of 16 bytes with any alignment of the fields
};

DP_COLD void square(F12& f) { f = f.sqr(); }
DP_COLD void multiply(F12& f, const F12& g) { f = f * g; }
DP_COLD void double_step(F12& f, Pair& pair, const Tower::Fq2& b3) { pair.double_step(f, b3); }
DP_COLD void add_step(F12& f, Pair& pair, const Q& q) { pair.add_step(f, q); }

// out[i] = the Miller functions' product over pairs ends[i - 1] to ends[i], at most PAIRS of them
extern "C" __global__ void miller_loops(const P* g1, const Q* g2, const u32* ends, u32 n,
                                        const __grid_constant__ Constants constants, F12* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Pair pairs[PAIRS];
  u32 count = 0;
#pragma unroll 1
  for (u32 k = i ? ends[i - 1] : 0; k < ends[i]; ++k) {
    const P p = g1[k];
    const Q q = g2[k];
    if (!p.is_infinity() && !q.is_infinity()) pairs[count++] = Pair::of(p, q);
  }
  F12 f = F12::one();
#pragma unroll 1
  for (int d = 0; d < constants.digits.count; ++d) {
    if (d) square(f);
#pragma unroll 1
    for (u32 k = 0; k < count; ++k) double_step(f, pairs[k], constants.b3);
    const int digit = constants.digits.digit[d];
    if (digit) {
#pragma unroll 1
      for (u32 k = 0; k < count; ++k) add_step(f, pairs[k], digit > 0 ? pairs[k].q : pairs[k].q.neg());
    }
  }
  if constexpr (Tower::M_TWIST) {
    f = f.conjugate();  // x < 0
  } else {
#pragma unroll 1
    for (u32 k = 0; k < count; ++k) {
      Q q = pairs[k].q;
#pragma unroll 1
      for (int power = 1; power <= 2; ++power) {
        q = {q.x.conjugate() * constants.psi_x, q.y.conjugate() * constants.psi_y};
        add_step(f, pairs[k], power == 1 ? q : q.neg());
      }
    }
  }
  out[i] = f;
}

// out[i] = the product of values ends[i - 1] to ends[i]
extern "C" __global__ void target_products(const F12* values, const u32* ends, u32 n, F12* out) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  F12 f = F12::one();
#pragma unroll 1
  for (u32 k = i ? ends[i - 1] : 0; k < ends[i]; ++k) multiply(f, values[k]);
  out[i] = f;
}
