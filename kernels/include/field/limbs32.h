// Arithmetic on 32-bit limbs, as the device does it. Included by field/limbs.h alone.
//
// The integer units multiply 32 x 32 bits and add into 64 (IMAD.WIDE); ptxas forms that instruction from a mad.lo /
// mad.hi pair of the same operands. A row of products therefore goes into two accumulators: `even` takes the products
// at even limbs, side by side as 64-bit words with one carry chain, and `odd` those at odd limbs, which stands one limb
// higher. A Montgomery product of N limbs costs 2 N^2 + N multiplications and is bound by them: the additions issue in
// the shadow of the multiplier, which takes a warp's instruction every four cycles.
#pragma once
#include "field/carry.h"

namespace dp {

template <int N>
DP_HD limb_t add_n(limb_t* r, const limb_t* a, const limb_t* b) {
  r[0] = carry::add_start(a[0], b[0]);
#pragma unroll
  for (int i = 1; i < N; ++i) r[i] = carry::add(a[i], b[i]);
  return carry::add_end(0, 0);
}

template <int N>
DP_HD limb_t sub_n(limb_t* r, const limb_t* a, const limb_t* b) {
  r[0] = carry::sub_start(a[0], b[0]);
#pragma unroll
  for (int i = 1; i < N; ++i) r[i] = carry::sub(a[i], b[i]);
  return carry::sub_end(0, 0) & 1;
}

namespace rows {

// acc = the products of a[0], a[2], ... with b, side by side
template <int N>
DP_HD void mul_row(limb_t* acc, const limb_t* a, limb_t b) {
#pragma unroll
  for (int j = 0; j < N; j += 2) carry::mul_pair(acc + j, a[j], b);
}

// acc += the products of a[0], a[2], ... with b; the carry out stays in the flag
template <int N>
DP_HD void mad_row(limb_t* acc, const limb_t* a, limb_t b) {
  carry::mad_pair_start(acc, a[0], b, acc[0], acc[1]);
#pragma unroll
  for (int j = 2; j < N; j += 2) carry::mad_pair(acc + j, a[j], b, acc[j], acc[j + 1]);
}

// acc = acc / 2^64 + the products of a[0], a[2], ... with b + the carry flag; nothing carries out
template <int N>
DP_HD void shift_mad_row(limb_t* acc, const limb_t* a, limb_t b) {
#pragma unroll
  for (int j = 0; j < N - 2; j += 2) carry::mad_pair(acc + j, a[j], b, acc[j + 2], acc[j + 3]);
  carry::mad_pair(acc + N - 2, a[N - 2], b, 0, 0);
}

template <class P, int N>
struct Modulus {
  limb_t p[N];
  DP_HD Modulus() {
    constexpr Words<P::LIMBS64> w = P::words();
#pragma unroll
    for (int i = 0; i < N; ++i) p[i] = limb_of<P::LIMBS64>(w, i);
  }
};

// even + 2^32 odd += a * b, where the sum is below 2^(32 (N + 1))
template <int N>
DP_HD void add_row(limb_t* even, limb_t* odd, const limb_t* a, limb_t b) {
  mad_row<N>(odd, a + 1, b);
  mad_row<N>(even, a, b);
  odd[N - 1] = carry::add_end(odd[N - 1], 0);
}

// Adds m * p, with m such that the lowest limb of even + 2^32 odd becomes zero.
template <class P, int N>
DP_HD void cancel_lowest(limb_t* even, limb_t* odd, const Modulus<P, N>& m) {
  add_row<N>(even, odd, m.p, even[0] * (limb_t)P::inv64());
}

// One row of a product: (even + 2^32 odd) / 2^32 + a * b. The caller divides by 2^32 by exchanging the two names: what
// it called even, whose lowest limb the row before made zero, is `odd` here, one limb too high still, which add_start and
// shift_mad_row mend.
template <int N>
DP_HD void product_row(limb_t* even, limb_t* odd, const limb_t* a, limb_t b) {
  even[0] = carry::add_start(even[0], odd[1]);
  shift_mad_row<N>(odd, a + 1, b);
  mad_row<N>(even, a, b);
  odd[N - 1] = carry::add_end(odd[N - 1], 0);
}

// One row of a reduction: the same without a product.
template <class P, int N>
DP_HD void reduction_row(limb_t* even, limb_t* odd, const Modulus<P, N>& m) {
  even[0] = carry::add_start(even[0], odd[1]);
  limb_t k = even[0] * (limb_t)P::inv64();
  shift_mad_row<N>(odd, m.p + 1, k);
  mad_row<N>(even, m.p, k);
  odd[N - 1] = carry::add_end(odd[N - 1], 0);
}

// r = even + odd / 2^32, which is below 2^(32 N)
template <int N>
DP_HD void join(limb_t* r, const limb_t* even, const limb_t* odd) {
  r[0] = carry::add_start(even[0], odd[1]);
#pragma unroll
  for (int i = 1; i < N - 1; ++i) r[i] = carry::add(even[i], odd[i + 1]);
  r[N - 1] = carry::add_end(even[N - 1], 0);
}

// r = t mod p for t < 2p
template <class P, int N>
DP_HD void subtract_once(limb_t* r, const limb_t* t, const Modulus<P, N>& m) {
  limb_t s[N];
  limb_t borrow = sub_n<N>(s, t, m.p);
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = borrow ? t[i] : s[i];
}

// t[0..2N) = a^2: the products above the diagonal, doubled, and the squares of the limbs.
template <int N>
DP_HD void square_wide(limb_t* t, const limb_t* a) {
  limb_t even[2 * N] = {}, odd[2 * N] = {};  // odd stands one limb higher
#pragma unroll
  for (int i = 0; i < N - 1; ++i) {
    // a[i] a[j] stands at limb i + j: odd distances j - i go to `odd`, even ones to `even`
    carry::mad_pair_start(odd + 2 * i, a[i], a[i + 1], odd[2 * i], odd[2 * i + 1]);
#pragma unroll
    for (int j = i + 3; j < N; j += 2) carry::mad_pair(odd + i + j - 1, a[i], a[j], odd[i + j - 1], odd[i + j]);
    odd[(N - i) & 1 ? i + N - 1 : i + N] = carry::add_end(odd[(N - i) & 1 ? i + N - 1 : i + N], 0);
    if (i + 2 < N) {
      carry::mad_pair_start(even + 2 * i + 2, a[i], a[i + 2], even[2 * i + 2], even[2 * i + 3]);
#pragma unroll
      for (int j = i + 4; j < N; j += 2) carry::mad_pair(even + i + j, a[i], a[j], even[i + j], even[i + j + 1]);
      even[(N - i) & 1 ? i + N + 1 : i + N] = carry::add_end(even[(N - i) & 1 ? i + N + 1 : i + N], 0);
    }
  }
  limb_t s[2 * N];
  s[0] = 0;
  s[1] = carry::add_start(even[1], odd[0]);
#pragma unroll
  for (int i = 2; i < 2 * N - 1; ++i) s[i] = carry::add(even[i], odd[i - 1]);
  s[2 * N - 1] = carry::add_end(even[2 * N - 1], odd[2 * N - 2]);
#pragma unroll
  for (int i = 2 * N - 1; i > 0; --i) s[i] = (s[i] << 1) | (s[i - 1] >> 31);
  carry::mad_pair_start(t, a[0], a[0], s[0], s[1]);
#pragma unroll
  for (int i = 1; i < N; ++i) carry::mad_pair(t + 2 * i, a[i], a[i], s[2 * i], s[2 * i + 1]);
}

// t[0..2N) = a * b
template <int N>
DP_HD void mul_wide(limb_t* t, const limb_t* a, const limb_t* b) {
  limb_t even[2 * N] = {}, odd[2 * N] = {};
  mul_row<N>(even, a, b[0]);
  mul_row<N>(odd, a + 1, b[0]);
#pragma unroll
  for (int i = 1; i < N; ++i) {
    // row i stands i limbs higher, so for odd i the products at even limbs fall on `odd`
    limb_t* lower = (i & 1) ? odd + i - 1 : even + i;
    limb_t* upper = (i & 1) ? even + i + 1 : odd + i;
    mad_row<N>(lower, a, b[i]);
    lower[N] = carry::add_end(lower[N], 0);
    mad_row<N>(upper, a + 1, b[i]);
    if (i + 1 < N) upper[N] = carry::add_end(upper[N], 0);
  }
  t[0] = even[0];
  t[1] = carry::add_start(even[1], odd[0]);
#pragma unroll
  for (int i = 2; i < 2 * N - 1; ++i) t[i] = carry::add(even[i], odd[i - 1]);
  t[2 * N - 1] = carry::add_end(even[2 * N - 1], odd[2 * N - 2]);
}

}  // namespace rows

// r = t / 2^(32 N) mod p for t < p 2^(32 N)
template <class P, int N>
DP_HD void mont_reduce(limb_t* r, const limb_t* t) {
  rows::Modulus<P, N> m;
  limb_t even[N], odd[N];
#pragma unroll
  for (int i = 0; i < N; ++i) even[i] = t[i];
  limb_t k = even[0] * (limb_t)P::inv64();
  rows::mul_row<N>(odd, m.p + 1, k);
  rows::mad_row<N>(even, m.p, k);
  odd[N - 1] = carry::add_end(odd[N - 1], 0);
#pragma unroll
  for (int i = 1; i < N; ++i) {
    if (i & 1) rows::reduction_row<P, N>(odd, even, m);
    else rows::reduction_row<P, N>(even, odd, m);
  }
  limb_t s[N], u[N];
  rows::join<N>(s, even, odd);
  add_n<N>(u, s, t + N);
  rows::subtract_once<P, N>(r, u, m);
}

// r = (a[0] b[0] + ... + a[K - 1] b[K - 1]) / 2^(32 N) mod p: one reduction where products by themselves take K. Rows
// stay below (K + 1) p, and what they leave below p + K p^2 / 2^(32 N).
template <class P, int N, int K>
DP_HD void mont_sum(limb_t* r, const limb_t* const (&a)[K], const limb_t* const (&b)[K]) {
  static_assert(N % 2 == 0, "rows are added two limbs at a time");
  static_assert(K == 1 || (K == 2 && P::BITS + 2 <= 32 * N), "three times the modulus fits the limbs");
  rows::Modulus<P, N> m;
  limb_t even[N], odd[N];
  rows::mul_row<N>(even, a[0], b[0][0]);
  rows::mul_row<N>(odd, a[0] + 1, b[0][0]);
#pragma unroll
  for (int k = 1; k < K; ++k) rows::add_row<N>(even, odd, a[k], b[k][0]);
  rows::cancel_lowest<P, N>(even, odd, m);
#pragma unroll
  for (int i = 1; i < N; ++i) {
    limb_t* const lower = (i & 1) ? odd : even;
    limb_t* const upper = (i & 1) ? even : odd;
    rows::product_row<N>(lower, upper, a[0], b[0][i]);
#pragma unroll
    for (int k = 1; k < K; ++k) rows::add_row<N>(lower, upper, a[k], b[k][i]);
    rows::cancel_lowest<P, N>(lower, upper, m);
  }
  limb_t t[N];
  // N is even: the last row was an odd one, so the names stand exchanged once more
  rows::join<N>(t, even, odd);
  rows::subtract_once<P, N>(r, t, m);
}

template <class P, int N>
DP_HD void mont_mul(limb_t* r, const limb_t* a, const limb_t* b) {
  mont_sum<P, N, 1>(r, {a}, {b});
}

template <class P, int N>
DP_HD void mont_sqr(limb_t* r, const limb_t* a) {
  limb_t t[2 * N];
  rows::square_wide<N>(t, a);
  mont_reduce<P, N>(r, t);
}

}  // namespace dp
