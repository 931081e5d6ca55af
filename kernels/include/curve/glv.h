// sum_i k_i P_i in G1 with half the doublings: the curve's endomorphism cuts every scalar into two of half its length.
// Gallant, Lambert, Vanstone: Faster point multiplication on elliptic curves with efficient endomorphisms, CRYPTO 2001.
// Host only, not constant time. Its scalars are the blinding of a proof.
#pragma once
#include <vector>

#include "curve/endomorphism.h"
#include "curve/linear_combination.h"

namespace dp {

// phi(x, y) = (beta x, y), negated where NEGATED, multiplies points of order r by lambda. (A1, -B1) and (A2, B2) are short
// vectors (a, b) with a + b lambda = 0 modulo r, of determinant r. G_i is floor(2^256 B_i / r).
template <class Tower>
struct Glv;

template <>
struct Glv<Bn254Tower> {  // with the curve's parameter x: A1 = 6x^2 + 2x, B1 = A2 = 2x + 1, B2 = 6x^2 + 4x + 1
  static constexpr bool NEGATED = false;
  static constexpr Words<2> A1{{0x8211bbeb7d4f1128, 0x6f4d8248eeb859fc}}, A2{{0x89d3256894d213e3, 0}};
  static constexpr Words<2> B1{{0x89d3256894d213e3, 0}}, B2{{0x0be4e1541221250b, 0x6f4d8248eeb859fd}};
  static constexpr Words<3> G1{{0xd91d232ec7e0b3d7, 0x2, 0x0}}, G2{{0x5398fd0300ff6565, 0x4ccef014a773d2d2, 0x2}};
  static const Bn254::Fq& beta() {
    static const Bn254::Fq beta =
        Bn254::Fq::from_words({{0xe4bd44e5607cfd48, 0xc28f069fbb966e3d, 0x5e6dd9e7e0acccb0, 0x30644e72e131a029}})
            .to_montgomery();
    return beta;
  }
};

template <>
struct Glv<Bls12381Tower> {  // A1 = lambda = x^2, B1 = A2 = 1, B2 = x^2 - 1
  static constexpr bool NEGATED = true;
  static constexpr Words<2> A1{{0x0000000100000000, 0xac45a4010001a402}}, A2{{1, 0}};
  static constexpr Words<2> B1{{1, 0}}, B2{{0x00000000ffffffff, 0xac45a4010001a402}};
  static constexpr Words<3> G1{{0x2, 0x0, 0x0}}, G2{{0x63f6e522f6cfee2e, 0x7c6becf1e01faadd, 0x1}};
  static const Bls12381::Fq& beta() { return bls12381_beta().e; }
};

// An integer below 2^128 in absolute value.
struct SignedHalf {
  Words<2> magnitude;
  bool negative;
};

// The lowest L words of a b
template <int L, int N, int M>
Words<L> product(const Words<N>& a, const Words<M>& b) {
  Words<L> r{};
  for (int i = 0; i < N; ++i) {
    u64 carry = 0;
    for (int j = 0; i + j < L; ++j) {
      const unsigned __int128 t = (unsigned __int128)a.w[i] * (j < M ? b.w[j] : 0) + r.w[i + j] + carry;
      r.w[i + j] = (u64)t;
      carry = (u64)(t >> 64);
    }
  }
  return r;
}

template <int N>
Words<N> difference(const Words<N>& a, const Words<N>& b) {
  Words<N> r;
  u64 borrow = 0;
  for (int i = 0; i < N; ++i) {
    const unsigned __int128 t = (unsigned __int128)a.w[i] - b.w[i] - borrow;
    r.w[i] = (u64)t;
    borrow = (u64)(t >> 64) & 1;
  }
  return r;
}

// k = halves[0] + halves[1] lambda modulo r, for k < r: what is left of (k, 0) when the nearest lattice point, c1 (A1, -B1) +
// c2 (A2, B2), is taken away. A c is off by at most 1/2 for being rounded and 1/2 for G, so that halves are at most A1 + A2 and
// B1 + B2, which are below 2^128.
template <class Tower>
void halve(const Words<4>& k, SignedHalf halves[2]) {
  using G = Glv<Tower>;
  auto rounded = [&](const Words<3>& g) {  // k g / 2^256
    Words<7> p = product<7>(k, g);
    const u64 up = p.w[3] >> 63;
    p.w[4] += up;
    p.w[5] += up && p.w[4] == 0;
    return Words<2>{{p.w[4], p.w[5]}};
  };
  const Words<2> c1 = rounded(G::G2), c2 = rounded(G::G1);
  auto half = [](Words<3> value) {  // modulo 2^192, in two's complement
    const bool negative = value.w[2] >> 63;
    if (negative) value = difference(Words<3>{}, value);
    return SignedHalf{{{value.w[0], value.w[1]}}, negative};
  };
  const Words<3> low{{k.w[0], k.w[1], k.w[2]}};
  halves[0] = half(difference(difference(low, product<3>(c1, G::A1)), product<3>(c2, G::A2)));
  halves[1] = half(difference(product<3>(c1, G::B1), product<3>(c2, G::B2)));
}

// sum_i scalars[i] points[i] for points of order r and scalars below r
template <class Tower, class F>
XYZZ<F> sum_by_halves(const Affine<F>* points, const Words<4>* scalars, size_t n) {
  constexpr int WINDOW = 5;
  using Digits = SignedDigits<2, WINDOW>;
  std::vector<SignedTerm<2, WINDOW>> terms;
  std::vector<XYZZ<F>> multiples;
  for (size_t i = 0; i < n; ++i) {
    SignedHalf halves[2];
    halve<Tower>(scalars[i], halves);
    const size_t first = multiples.size();
    terms.push_back({Digits(halves[0].magnitude), first, halves[0].negative});
    terms.push_back({Digits(halves[1].magnitude), first, halves[1].negative != Glv<Tower>::NEGATED});
    append_odd_multiples(points[i], std::max(terms.end()[-1].digits.largest, terms.end()[-2].digits.largest), multiples);
  }
  std::vector<Affine<F>> table;
  normalize(multiples, table);
  const size_t images = table.size();  // of the multiples, behind them
  for (size_t i = 0; i < images; ++i) table.push_back({table[i].x * Glv<Tower>::beta(), table[i].y});
  for (size_t i = 1; i < terms.size(); i += 2) terms[i].first += images;
  return straus(terms, table);
}

}  // namespace dp
