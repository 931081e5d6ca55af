// The four prime fields: the modulus is typed in; everything else that Montgomery arithmetic needs (R, R^2, -p^-1) is
// computed from it by the compiler. tests/kernels checks the values.
#pragma once
#include "platform.h"

namespace dp {

template <int N>
struct Words {  // N little-endian 64-bit words
  u64 w[N];
};

namespace detail {

template <int N>
DP_HD constexpr Words<N> double_mod(Words<N> a, Words<N> p) {
  Words<N> d{}, s{};
  u64 top = a.w[N - 1] >> 63;
  for (int i = 0; i < N; ++i) d.w[i] = (a.w[i] << 1) | (i ? a.w[i - 1] >> 63 : 0);
  u64 borrow = 0;
  for (int i = 0; i < N; ++i) {
    u64 t = d.w[i] - p.w[i];
    u64 b = d.w[i] < p.w[i];
    s.w[i] = t - borrow;
    borrow = b | (t < borrow);
  }
  return (top || !borrow) ? s : d;
}

// 2^bits mod p
template <int N>
DP_HD constexpr Words<N> power_of_two(Words<N> p, int bits) {
  Words<N> a{};
  a.w[0] = 1;
  for (int i = 0; i < bits; ++i) a = double_mod<N>(a, p);
  return a;
}

// -p^-1 mod 2^64, by Newton's iteration (each step doubles the correct bits)
DP_HD constexpr u64 neg_inverse(u64 p0) {
  u64 x = 1;
  for (int i = 0; i < 6; ++i) x *= 2 - p0 * x;
  return ~x + 1;
}

}  // namespace detail

// Common to all fields: Derived gives BITS and words().
template <class Derived, int N>
struct FieldParams {
  static constexpr int LIMBS64 = N;
  DP_HD static constexpr u64 modulus(int i) { return Derived::words().w[i]; }
  DP_HD static constexpr Words<N> r() { return detail::power_of_two<N>(Derived::words(), 64 * N); }
  DP_HD static constexpr Words<N> r2() { return detail::power_of_two<N>(Derived::words(), 128 * N); }
  DP_HD static constexpr u64 inv64() { return detail::neg_inverse(Derived::words().w[0]); }
};

struct Bn254FrParams : FieldParams<Bn254FrParams, 4> {
  static constexpr int BITS = 254;
  DP_HD static constexpr Words<4> words() {
    return {{0x43e1f593f0000001ULL, 0x2833e84879b97091ULL, 0xb85045b68181585dULL, 0x30644e72e131a029ULL}};
  }
};

struct Bn254FqParams : FieldParams<Bn254FqParams, 4> {
  static constexpr int BITS = 254;
  DP_HD static constexpr Words<4> words() {
    return {{0x3c208c16d87cfd47ULL, 0x97816a916871ca8dULL, 0xb85045b68181585dULL, 0x30644e72e131a029ULL}};
  }
};

struct Bls12381FrParams : FieldParams<Bls12381FrParams, 4> {
  static constexpr int BITS = 255;
  DP_HD static constexpr Words<4> words() {
    return {{0xffffffff00000001ULL, 0x53bda402fffe5bfeULL, 0x3339d80809a1d805ULL, 0x73eda753299d7d48ULL}};
  }
};

struct Bls12381FqParams : FieldParams<Bls12381FqParams, 6> {
  static constexpr int BITS = 381;
  DP_HD static constexpr Words<6> words() {
    return {{0xb9feffffffffaaabULL, 0x1eabfffeb153ffffULL, 0x6730d2a0f6b0f624ULL, 0x64774b84f38512bfULL,
             0x4b1ba7b6434bacd7ULL, 0x1a0111ea397fe69aULL}};
  }
};

}  // namespace dp
