// Products with constants that were prepared: a constant w stands beside floor(w 2^(32 N) / p), which gives the quotient of
// w a by p without a Montgomery reduction (Shoup; Harvey, "Faster arithmetic for number-theoretic transforms", 2014).
//
// Such a product takes 99 wide multiplications and 16 of low words where a Montgomery product takes some 130 (93 and 15 for
// BLS12-381, whose modulus has a limb that saves a row): the quotient comes from the upper half of a product alone, and both
// w a and the multiple of p that is subtracted from it are needed modulo 2^(32 N) only.
//
// Values are not reduced fully: they stay below 2p, which is why fields whose 4p fits the limbs (254 bits in 256) do less.
// Device code only: 32-bit limbs.
#pragma once
#include "field/fp.h"

namespace dp {

// A constant w of the field, as an integer below p, and floor(w 2^(32 N) / p).
template <class P>
struct DP_ALIGN Twiddle {
  Fp<P> value, quotient;
};

namespace rows {

// q = floor(a b / 2^(32 N)), or one less. Partial products that end below limb N - 1 are left out: they are less than
// N 2^(32 (N - 1)) together.
template <int N>
DP_HD void mul_high(limb_t* q, const limb_t* a, const limb_t* b) {
  limb_t even[2 * N] = {}, odd[2 * N] = {};  // odd stands one limb higher
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int low = i < N - 2 ? N - 2 - i : 0;  // a[low] is the lowest limb whose product with b[i] counts
#pragma unroll
    for (int first = low; first < low + 2 && first < N; ++first) {
      limb_t* acc = ((i + first) & 1) ? odd - 1 : even;
      carry::mad_pair_start(acc + i + first, a[first], b[i], acc[i + first], acc[i + first + 1]);
#pragma unroll
      for (int j = first + 2; j < N; j += 2) carry::mad_pair(acc + i + j, a[j], b[i], acc[i + j], acc[i + j + 1]);
      // A chain that ends at limb N - 2 of `a` ends where the row before has been; the other begins a new pair there.
      if (((first ^ N) & 1) == 0 && i > 0) acc[i + N] = carry::add_end(acc[i + N], 0);
    }
  }
  carry::add_start(even[N - 1], odd[N - 2]);
#pragma unroll
  for (int i = 0; i < N - 1; ++i) q[i] = carry::add(even[N + i], odd[N + i - 1]);
  q[N - 1] = carry::add_end(even[2 * N - 1], odd[2 * N - 2]);
}

// even + 2^32 odd += a b modulo 2^(32 N); SKIP_SECOND says that b[1] is zero.
template <int N, bool SKIP_SECOND>
DP_HD void mad_low(limb_t* even, limb_t* odd, const limb_t* a, const limb_t* b) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (SKIP_SECOND && i == 1) continue;  // b[1] is zero
#pragma unroll
    for (int first = 0; first < 2 && i + first < N; ++first) {
      limb_t* acc = ((i + first) & 1) ? odd - 1 : even;
      if (i + first == N - 1) {
        acc[N - 1] += a[first] * b[i];
        continue;
      }
      carry::mad_pair_start(acc + i + first, a[first], b[i], acc[i + first], acc[i + first + 1]);
      int j = first + 2;
#pragma unroll
      for (; i + j < N - 1; j += 2) carry::mad_pair(acc + i + j, a[j], b[i], acc[i + j], acc[i + j + 1]);
      if (i + j == N - 1) acc[N - 1] = carry::mad_low_end(a[j], b[i], acc[N - 1]);
    }
  }
}

}  // namespace rows

// Arithmetic on values below 2p, in the Montgomery form that they come in: a constant in plain form leaves it as it is.
template <class P>
struct Loose {
  using F = Fp<P>;
  static constexpr int N = F::N;
  static constexpr bool ROOM = P::BITS + 2 <= 32 * N;  // 4p fits the limbs

  DP_HD static constexpr Words<P::LIMBS64> doubled() {
    Words<P::LIMBS64> p = P::words(), d{};
    for (int i = 0; i < P::LIMBS64; ++i) d.w[i] = (p.w[i] << 1) | (i ? p.w[i - 1] >> 63 : 0);
    return d;
  }
  DP_HD static constexpr Words<P::LIMBS64> negated() {
    Words<P::LIMBS64> p = P::words(), d{};
    u64 carry = 1;
    for (int i = 0; i < P::LIMBS64; ++i) {
      d.w[i] = ~p.w[i] + carry;
      carry = carry && d.w[i] == 0;
    }
    return d;
  }
  DP_HD static F twice_p() {
    constexpr Words<P::LIMBS64> c = doubled();
    return F::from_words(c);
  }

  // a + b below 2p
  DP_HD static F add(const F& a, const F& b) {
    F s, t, m = twice_p();
    if constexpr (ROOM) {
      add_n<N>(s.v, a.v, b.v);
      limb_t borrow = sub_n<N>(t.v, s.v, m.v);
#pragma unroll
      for (int i = 0; i < N; ++i) s.v[i] = borrow ? s.v[i] : t.v[i];
    } else {
      limb_t over = add_n<N>(s.v, a.v, b.v);
      limb_t borrow = sub_n<N>(t.v, s.v, m.v);
#pragma unroll
      for (int i = 0; i < N; ++i) s.v[i] = borrow > over ? s.v[i] : t.v[i];
    }
    return s;
  }
  // a - b below 2p
  DP_HD static F sub(const F& a, const F& b) {
    F s, t, m = twice_p();
    limb_t borrow = sub_n<N>(s.v, a.v, b.v);
#pragma unroll
    for (int i = 0; i < N; ++i) m.v[i] = borrow ? m.v[i] : 0;
    add_n<N>(t.v, s.v, m.v);
    return t;
  }
  // a + b and a - b for a product with a twiddle: below 4p where that fits
  DP_HD static F add_open(const F& a, const F& b) {
    if constexpr (!ROOM) return add(a, b);
    F s;
    add_n<N>(s.v, a.v, b.v);
    return s;
  }
  DP_HD static F sub_open(const F& a, const F& b) {
    if constexpr (!ROOM) return sub(a, b);
    F s, t, m = twice_p();
    add_n<N>(s.v, a.v, m.v);
    sub_n<N>(t.v, s.v, b.v);
    return t;
  }
  // a w below 2p, for any a that add_open and sub_open leave: the quotient that is subtracted is less than the true one by
  // less than 1 + a / 2^(32 N) + N / 2^32, which is below 2 for a < 4p with ROOM and for a < 2p without.
  DP_HD static F mul(const F& a, const Twiddle<P>& w) {
    limb_t q[N];
    rows::mul_high<N>(q, w.quotient.v, a.v);
    constexpr Words<P::LIMBS64> c = negated();
    const F minus_p = F::from_words(c);
    constexpr bool zero = (c.w[0] >> 32) == 0;
    limb_t even[N] = {}, odd[N] = {};
    rows::mad_low<N, false>(even, odd, w.value.v, a.v);
    rows::mad_low<N, zero>(even, odd, q, minus_p.v);
    F r;
    r.v[0] = even[0];
    r.v[1] = carry::add_start(even[1], odd[0]);
#pragma unroll
    for (int i = 2; i < N - 1; ++i) r.v[i] = carry::add(even[i], odd[i - 1]);
    r.v[N - 1] = carry::add_end(even[N - 1], odd[N - 2]);
    return r;
  }
  // the canonical form of what add_open and sub_open leave
  DP_HD static F reduced(const F& a) {
    F s = a, t, m = twice_p(), p = F::modulus();
    if constexpr (ROOM) {
      limb_t borrow = sub_n<N>(t.v, s.v, m.v);
#pragma unroll
      for (int i = 0; i < N; ++i) s.v[i] = borrow ? s.v[i] : t.v[i];
    }
    limb_t borrow = sub_n<N>(t.v, s.v, p.v);
#pragma unroll
    for (int i = 0; i < N; ++i) s.v[i] = borrow ? s.v[i] : t.v[i];
    return s;
  }
  // The prepared constant for a value in Montgomery form, m = w 2^(32 N) mod p: as w 2^(32 N) = m + p quotient, the quotient is
  // -m / p modulo 2^(32 N).
  DP_HD static Twiddle<P> prepare(const F& m, const F& minus_inverse) {
    Twiddle<P> w;
    w.value = m.from_montgomery();
    limb_t even[N] = {}, odd[N] = {};
    rows::mad_low<N, false>(even, odd, m.v, minus_inverse.v);
    w.quotient.v[0] = even[0];
    w.quotient.v[1] = carry::add_start(even[1], odd[0]);
#pragma unroll
    for (int i = 2; i < N - 1; ++i) w.quotient.v[i] = carry::add(even[i], odd[i - 1]);
    w.quotient.v[N - 1] = carry::add_end(even[N - 1], odd[N - 2]);
    return w;
  }
};

}  // namespace dp
