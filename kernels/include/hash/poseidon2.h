// Poseidon2 over Goldilocks, of width 16: eprint 2023/323, x^7, 8 full and 22 partial rounds. Round constants come from the
// Grain LFSR (tests/support/plain_poseidon2.py makes them anew), both linear layers are Plonky3's.
//
// The state is canonical between layers. Sums within a layer are 96 bits wide and are reduced once.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace poseidon2 {

constexpr int WIDTH = 16, RATE = 12, DIGEST = 4, HALF_FULL = 4, PARTIAL = 22;
constexpr u64 SPONGE_TAG = 1;  // in the capacity of a sponge, before the length of its message
constexpr u64 NODE_TAG = 2;    // after the two children of a node

#if DP_DEVICE && !defined(DP_EMULATE)
#define DP_CONSTANTS __device__ __constant__
#else
#define DP_CONSTANTS static const
#endif

// Of the full rounds, 16 each, the first four rounds before the partial ones.
DP_CONSTANTS u64 FULL_CONSTANTS[2 * HALF_FULL * WIDTH] = {
    0x15EBEA3FC73397C3ull, 0xD73CD9FBFE8E275Cull, 0x8C096BFCE77F6C26ull, 0x4E128F68B53D8FEAull, 0x29B779A36B2763F6ull,
    0xFE2ADC6FB65ACD08ull, 0x8D2520E725AD0955ull, 0x1C2392B214624D2Aull, 0x37482118206DCC6Eull, 0x2F829BED19BE019Aull,
    0x2FE298CB6F8159B0ull, 0x2BBAD982DECCDBBFull, 0xBAD568B8CC60A81Eull, 0xB86A814265BAAD10ull, 0xBEC2005513B3ACB3ull,
    0x6BF89B59A07C2A94ull, 0xA25DEEB835E230F5ull, 0x3C5BAD8512B8B12Aull, 0x7230F73C3CB7A4F2ull, 0xA70C87F095C74D0Full,
    0x6B7606B830BB2E80ull, 0x6CD467CFC4F24274ull, 0xFEED794DF42A9B0Aull, 0x8CF7CF6163B7DBD3ull, 0x9A6E9DDA597175A0ull,
    0xAA52295A684FAF7Bull, 0x017B811CC3589D8Dull, 0x55BFB699B6181648ull, 0xC2CCAF71501C2421ull, 0x1707950327596402ull,
    0xDD2FCDCD42A8229Full, 0x8B9D7D5B27778A21ull, 0xAC9A05525F9CF512ull, 0x2BA125C58627B5E8ull, 0xC74E91250A8147A5ull,
    0xA3E64B640D5BB384ull, 0xF53047D18D1F9292ull, 0xBAAEDDACAE3A6374ull, 0xF2D0914A808B3DB1ull, 0x18AF1A3742BFA3B0ull,
    0x9A621EF50C55BDB8ull, 0xC615F4D1CC5466F3ull, 0xB7FBAC19A35CF793ull, 0xD2B1A15BA517E46Dull, 0x4A290C4D7FD26F6Full,
    0x4F0CF1BB1770C4C4ull, 0x548345386CD377F5ull, 0x33978D2789FDDD42ull, 0xAB78C59DEB77E211ull, 0xC485B2A933D2BE7Full,
    0xBDE3792C00C03C53ull, 0xAB4CEFE8F893D247ull, 0xC5C0E752EAB7F85Full, 0xDBF5A76F893BAFEAull, 0xA91F6003E3D984DEull,
    0x099539077F311E87ull, 0x097EC52232F9559Eull, 0x53641BDF8991E48Cull, 0x2AFE9711D5ED9D7Cull, 0xA7B13D3661B5D117ull,
    0x5A0E243FE7AF6556ull, 0x1076FAE8932D5F00ull, 0x9B53A83D434934E3ull, 0xED3FD595A3C0344Aull, 0xDACF46DC1C31A045ull,
    0x5D2E3C121EB387F2ull, 0x51F8B0658B124499ull, 0x1E7DBD1DAA72167Dull, 0x8275015A25C55B88ull, 0xE8521C24AC7A70B3ull,
    0x6521D121C40B3F67ull, 0xAC12DE797DE135B0ull, 0xAFA28EAD79F6ED6Aull, 0x685174A7A8D26F0Bull, 0xEFF92A08D35D9874ull,
    0x3058734B76DD123Aull, 0xFA55DCFBA429F79Cull, 0x559294D4324C7728ull, 0x7A770F53012DC178ull, 0xEDD8F7C408F3883Bull,
    0x39B533CF8D795FA5ull, 0x160EF9DE243A8C0Aull, 0x431D52DA6215FE3Full, 0x54C51A2A2EF6D528ull, 0x9B13892B46FF9D16ull,
    0x263C46FCEE210289ull, 0xB738C96D25AABDC4ull, 0x5C33A5203996D38Full, 0x2626496E7C98D8DDull, 0xC669E0A52785903Aull,
    0xAECDE726C8AE1F47ull, 0x039343EF3A81E999ull, 0x2615CEAF044A54F9ull, 0x7E41E834662B66E1ull, 0x4CA5FD4895335783ull,
    0x64B334D02916F2B0ull, 0x87268837389A6981ull, 0x034B75BCB20A6274ull, 0x58E658296CC2CD6Eull, 0xE2D0F759ACC31DF4ull,
    0x81A652E435093E20ull, 0x0B72B6E0172EAF47ull, 0x4AEC43CEC577D66Dull, 0xDE78365B028A84E6ull, 0x444E19569ADC0EE4ull,
    0x942B2451FA40D1DAull, 0xE24506623EA5BD6Cull, 0x082854BF2EF7C743ull, 0x69DBBC566F59D62Eull, 0x248C38D02A7B5CB2ull,
    0x4F4E8F8C09D15EDBull, 0xD96682F188D310CFull, 0x6F9A25D56818B54Cull, 0xB6CEFED606546CD9ull, 0x5BC07523DA38A67Bull,
    0x7DF5A3C35B8111CFull, 0xAAA2CC5D4DB34BB0ull, 0x9E673FF22A4653F8ull, 0xBD8B278D60739C62ull, 0xE10D20F6925B8815ull,
    0xF6C87B91DD4DA2BFull, 0xFED623E2F71B6F1Aull, 0xA0F02FA52A94D0D3ull, 0xBB5794711B39FA16ull, 0xD3B94FBA9D005C7Full,
    0x15A26E89FAD946C9ull, 0xF3CB87DB8A67CF49ull, 0x400D2BF56AA2A577ull};

// Of the partial rounds, for the first element alone.
DP_CONSTANTS u64 PARTIAL_CONSTANTS[PARTIAL] = {
    0x28EFF4B01103D100ull, 0x60400CA3E2685A45ull, 0x1C8636BEB3389B84ull, 0xAC1332B60E13EFF0ull, 0x2ADAFCC364E20F87ull,
    0x79FFC2B14054EA0Bull, 0x3F98E4C0908F0A05ull, 0xCDB230BC4E8A06C4ull, 0x1BCAF7705B152A74ull, 0xD9BCA249A82A7470ull,
    0x91E24AF19BF82551ull, 0xA62B43BA5CB78858ull, 0xB4898117472E797Full, 0xB3228BCA606CDAA0ull, 0x844461051BCA39C9ull,
    0xF3411581F6617D68ull, 0xF7FD50646782B533ull, 0x6CA664253C18FB48ull, 0x2D2FCDEC0886A08Full, 0x29DA00DD799B575Eull,
    0x47D966CC3B6E1E93ull, 0xDE884E9A17CED59Eull};

// Of the diagonal of the internal layer, each entry less 1, which `Scalar::internal` multiplies by with shifts.
DP_CONSTANTS u64 DIAGONAL[WIDTH] = {
    0xFFFFFFFEFFFFFFFFull, 0x0000000000000001ull, 0x0000000000000002ull, 0x7FFFFFFF80000001ull,
    0x0000000000000003ull, 0x0000000000000004ull, 0x7FFFFFFF80000000ull, 0xFFFFFFFEFFFFFFFEull,
    0xFFFFFFFEFFFFFFFDull, 0xDFFFFFFF20000001ull, 0xEFFFFFFF10000001ull, 0xF7FFFFFF08000001ull,
    0x1FFFFFFFE0000000ull, 0x0FFFFFFFF0000000ull, 0x07FFFFFFF8000000ull, 0xFFFFFFFE00000002ull};

// A sum of a few elements, below 2^96.
struct Sum {
  u64 low;
  u32 high;
};

DP_HD Sum operator+(Sum a, u64 b) {
#if DP_PTX
  Sum r;
  asm("add.cc.u64 %0, %2, %4;\n\taddc.u32 %1, %3, 0;" : "=l"(r.low), "=r"(r.high) : "l"(a.low), "r"(a.high), "l"(b));
  return r;
#else
  a.low += b;
  a.high += a.low < b;
  return a;
#endif
}

DP_HD Sum operator+(Sum a, Sum b) {
#if DP_PTX
  Sum r;
  asm("add.cc.u64 %0, %2, %4;\n\taddc.u32 %1, %3, %5;"
      : "=l"(r.low), "=r"(r.high)
      : "l"(a.low), "r"(a.high), "l"(b.low), "r"(b.high));
  return r;
#else
  a.low += b.low;
  a.high += b.high + (a.low < b.low);
  return a;
#endif
}

DP_HD u64 reduced(Sum a) { return gl::reduce96(a.high, a.low); }

// Arithmetic on one state; poseidon2_lanes.h has that on several. `fours` is [2 3 1 1] and its rotations on four elements.
struct Scalar {
  using T = u64;
  using Wide = Sum;
  static DP_HD T round_constant(u64 x) { return x; }
  static DP_HD T add(T a, T b) { return gl::add(a, b); }
  static DP_HD T mul(T a, T b) { return gl::mul(a, b); }
  static DP_HD Wide wide(T a) { return {a, 0}; }
  static DP_HD T narrow(Wide a) { return reduced(a); }

  // total + (d - 1) x for element I of the internal layer, d its diagonal entry.
  template <int I>
  static DP_HD T internal(T total, T x) {
    const Sum sum = {total, 0};
    if constexpr (I == 0) return reduced(sum + (gl::P - x) + (gl::P - x));
    else if constexpr (I == 1) return gl::add(total, x);
    else if constexpr (I == 2) return reduced(sum + x + x);
    else if constexpr (I == 3) return gl::add(total, gl::half(x));
    else if constexpr (I == 4) return reduced(sum + x + x + x);
    else if constexpr (I == 5) return reduced(sum + x + x + x + x);
    else if constexpr (I == 6) return gl::sub(total, gl::half(x));
    else if constexpr (I == 7) return reduced(sum + (gl::P - x) + (gl::P - x) + (gl::P - x));
    else if constexpr (I == 8) return reduced(sum + (gl::P - x) + (gl::P - x) + (gl::P - x) + (gl::P - x));
    // 2^96 = -1: the inverse of 2^k is -2^(96 - k)
    else if constexpr (I < 12) return gl::sub(total, gl::mul_pow2<96 - (I - 6)>(x));
    else if constexpr (I < 15) return gl::add(total, gl::mul_pow2<96 - (I - 9)>(x));
    else return gl::sub(total, gl::mul_pow2<64>(x));
  }
};

template <class A>
DP_HD typename A::T power7(typename A::T x) {
  const auto x2 = A::mul(x, x), x3 = A::mul(x2, x), x4 = A::mul(x2, x2);
  return A::mul(x3, x4);
}

// Multiplies by circ(2 M, M, M, M), M = circ(2, 3, 1, 1).
template <class A>
DP_HD void external(typename A::T (&s)[WIDTH]) {
  typename A::Wide y[WIDTH], column[4];
  DP_PRAGMA(unroll)
  for (int q = 0; q < WIDTH; q += 4) {
    const auto ab = A::wide(s[q]) + s[q + 1], cd = A::wide(s[q + 2]) + s[q + 3], all = ab + cd;
    const auto more_b = all + s[q + 1], more_d = all + s[q + 3];
    y[q] = more_b + ab;
    y[q + 1] = more_b + s[q + 2] + s[q + 2];
    y[q + 2] = more_d + cd;
    y[q + 3] = more_d + s[q] + s[q];
    DP_PRAGMA(unroll)
    for (int k = 0; k < 4; ++k) column[k] = q ? column[k] + y[q + k] : y[k];
  }
  DP_PRAGMA(unroll)
  for (int i = 0; i < WIDTH; ++i) s[i] = A::narrow(y[i] + column[i % 4]);
}

constexpr int POWERS = 2 * HALF_FULL * WIDTH + PARTIAL;  // that a permutation takes: 16 a full round, one a partial one

// Called with each power in turn, its number first.
struct Unseen {
  template <class T>
  DP_HD void operator()(int, const T&) const {}
};

template <class A, class Seen>
DP_HD void full_round(typename A::T (&s)[WIDTH], const u64* constants, int first, const Seen& seen) {
  DP_PRAGMA(unroll)
  for (int i = 0; i < WIDTH; ++i) {
    s[i] = power7<A>(A::add(s[i], A::round_constant(constants[i])));
    seen(first + i, s[i]);
  }
  external<A>(s);
}

template <class A, class Seen>
DP_HD void partial_round(typename A::T (&s)[WIDTH], u64 constant, int number, const Seen& seen) {
  s[0] = power7<A>(A::add(s[0], A::round_constant(constant)));
  seen(number, s[0]);
  auto sum = A::wide(s[0]) + s[1];
  DP_PRAGMA(unroll)
  for (int i = 2; i < WIDTH; ++i) sum = sum + s[i];
  const auto total = A::narrow(sum);
#define DP_INTERNAL(I) s[I] = A::template internal<I>(total, s[I])
  DP_INTERNAL(0); DP_INTERNAL(1); DP_INTERNAL(2); DP_INTERNAL(3); DP_INTERNAL(4); DP_INTERNAL(5); DP_INTERNAL(6);
  DP_INTERNAL(7); DP_INTERNAL(8); DP_INTERNAL(9); DP_INTERNAL(10); DP_INTERNAL(11); DP_INTERNAL(12); DP_INTERNAL(13);
  DP_INTERNAL(14); DP_INTERNAL(15);
#undef DP_INTERNAL
}

template <class A, class Seen = Unseen>
DP_HD void permute(typename A::T (&s)[WIDTH], const Seen& seen = {}) {
  constexpr int FIRST = HALF_FULL * WIDTH;  // power of the partial rounds
  external<A>(s);
  DP_PRAGMA(unroll 1)
  for (int r = 0; r < HALF_FULL; ++r) full_round<A>(s, FULL_CONSTANTS + r * WIDTH, r * WIDTH, seen);
  DP_PRAGMA(unroll 1)
  for (int r = 0; r < PARTIAL; ++r) partial_round<A>(s, PARTIAL_CONSTANTS[r], FIRST + r, seen);
  DP_PRAGMA(unroll 1)
  for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r)
    full_round<A>(s, FULL_CONSTANTS + r * WIDTH, r * WIDTH + PARTIAL, seen);
}

}  // namespace poseidon2
}  // namespace dp
