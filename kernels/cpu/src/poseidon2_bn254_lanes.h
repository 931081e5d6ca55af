// Poseidon2 over the scalar field of BN254 on lanes, a message in each, and the table of functions made of it.
//
// An element is five digits of 52 bits, in Montgomery form with the radix 2^260. Sums are not reduced before they are multiplied:
// values stay below 2^259, which a product takes. Bounds are given in multiples of r; 2^254 is 1.33 r.
//
// A: the arithmetic, made of the constants, over vectors V as in lanes_vectors.h. VECTORS of them are worked on together, so that
// each fills the other's waits: in a partial round every step needs the one before. product and square take elements whose digits
// are below 2^52, and give a b / 2^260 + r at most, in digits below 2^57. quotient(a, c) is a c / 2^52, rounded down, for a below
// 2^52 and c below 2^7. add_multiple(a, q, c) adds q times the digits c to a, for q below 2^7; its digits grow by less than 2^60.
// Rounding is an object that is there while this computes.
//
// As in lanes_vectors.h, A has internal linkage, because it is built with options that not every CPU runs.
#pragma once
#include <cstring>

#include "hash_ops.h"
#include "lanes_vectors.h"
#include "poseidon2_bn254_digits.h"

namespace dp {
namespace {

#define DP_EACH _Pragma("GCC unroll 2") for (size_t v = 0; v < VECTORS; ++v)
#define DP_DIGITS(j) _Pragma("GCC unroll 5") for (int j = 0; j < DIGITS; ++j)

template <class A>
class Poseidon2Bn254Lanes : lanes::DigitForm<typename A::V> {
  using V = typename A::V;
  using T = typename V::T;
  using One = lanes::Digits<T>;  // an element of each message of a vector
  using DigitForm = lanes::DigitForm<V>;
  using Constants = poseidon2_bn254::DigitConstants;
  using DigitForm::carried;
  using DigitForm::digits;
  static constexpr int DIGITS = poseidon2_bn254::DIGITS, WIDTH = poseidon2_bn254::WIDTH, RATE = poseidon2_bn254::RATE;
  static constexpr int WORDS = poseidon2_bn254::WORDS, PACKED = poseidon2_bn254::PACKED;
  static constexpr int HALF_FULL = poseidon2_bn254::HALF_FULL, PARTIAL = poseidon2_bn254::PARTIAL;
  static constexpr size_t VECTORS = A::VECTORS, LANES = VECTORS * lanes::LANES;

  struct Element {
    One v[VECTORS];
  };

 public:
  static constexpr HashOps ops(const HashOps* narrower) {
    return {LANES, narrower, &leaves, &pairs, nullptr, &rows, &grind, nullptr};
  }

 private:
  explicit Poseidon2Bn254Lanes(const Constants& c) : c_(c), arithmetic_(c) {}

  // -- elements -----------------------------------------------------------------------------------------------------

  static One splat(const u64* digits) {
    One x;
    DP_DIGITS(j) x.d[j] = V::splat(digits[j]);
    return x;
  }
  static One add(const One& a, const One& b) {
    One x;
    DP_DIGITS(j) x.d[j] = V::add(a.d[j], b.d[j]);
    return x;
  }

  // The form of numbers below 2^256, of which word k of lane l is words[LANES * k + l]: below 1.1 r.
  Element form(const u64* words) const {
    const One scale = splat(c_.to_form);
    Element x;
    DP_EACH {
      T w[WORDS];
      for (int k = 0; k < WORDS; ++k) w[k] = V::load(words + LANES * k + lanes::LANES * v);
      x.v[v] = arithmetic_.product(digits(w), scale);
    }
    return x;
  }
  // The same for all messages, by its two lowest words.
  Element form(u64 first, u64 second) const {
    u64 words[WORDS * LANES] = {};
    for (size_t l = 0; l < LANES; ++l) words[l] = first, words[LANES + l] = second;
    return form(words);
  }

  // The numbers below r of elements below 2^259, stored as `form` takes them.
  void number(const Element& x, u64* words) const {
    const u64 one[DIGITS] = {1};
    DP_EACH {
      const One n = carried(arithmetic_.product(carried(x.v[v]), splat(one)));  // from 0 to r, r included
      One less;
      DP_DIGITS(j) less.d[j] = V::sub(n.d[j], V::splat(c_.modulus[j]));
      less = carried(less);
      const auto below = V::negative(less.d[DIGITS - 1]);
      DP_DIGITS(j) less.d[j] = V::select(below, n.d[j], less.d[j]);
      T w[WORDS];
      DigitForm::words(less, w);
      for (int k = 0; k < WORDS; ++k) V::store(words + LANES * k + lanes::LANES * v, w[k]);
    }
  }

  // Less a multiple of r, for values below 64 r with digits below 2^60: below 3 r, with digits below 2^52 + 2^12. What the
  // quotient leaves is zero or at least 2^208, so no digit is negative.
  One shortened(One a) const {
    const T q = arithmetic_.quotient(a.d[DIGITS - 1], c_.quotient);
    arithmetic_.add_multiple(a, q, c_.complement);  // q (2^260 - r)
    a.d[DIGITS - 1] = V::sub(a.d[DIGITS - 1], V::template sll<52>(q));
    One r;
    DP_DIGITS(j) r.d[j] = j + 1 < DIGITS ? V::bit_and(a.d[j], V::splat(lanes::DIGIT)) : a.d[j];
    for (int j = 0; j + 1 < DIGITS; ++j) r.d[j + 1] = V::add(r.d[j + 1], V::template srl<52>(a.d[j]));
    return r;
  }

  // -- the permutation ----------------------------------------------------------------------------------------------

  // (x + constant)^5: below 1.4 r for sums below 21 r.
  Element power5(const Element& x, const u64* constant) const {
    Element a, b;
    DP_EACH a.v[v] = carried(add(x.v[v], splat(constant)));
    DP_EACH b.v[v] = carried(arithmetic_.square(a.v[v]));
    DP_EACH b.v[v] = carried(arithmetic_.square(b.v[v]));
    DP_EACH b.v[v] = arithmetic_.product(b.v[v], a.v[v]);
    return b;
  }

  // Multiplies by circ(2, 1, 1).
  static void external(Element (&s)[WIDTH]) {
    DP_EACH {
      const One sum = add(s[0].v[v], add(s[1].v[v], s[2].v[v]));
      for (int i = 0; i < WIDTH; ++i) s[i].v[v] = add(s[i].v[v], sum);
    }
  }
  void full_round(Element (&s)[WIDTH], const u64 (*constants)[DIGITS]) const {
    for (int i = 0; i < WIDTH; ++i) s[i] = power5(s[i], constants[i]);
    external(s);
  }

  // Multiplies by the matrix of ones plus the diagonal 1, 1, 2 after the power.
  void partial_round(Element (&s)[WIDTH], const u64* constant) const {
    s[0] = power5(s[0], constant);
    DP_EACH {
      const One sum = add(s[0].v[v], add(s[1].v[v], s[2].v[v]));
      s[0].v[v] = add(s[0].v[v], sum);
      s[1].v[v] = shortened(add(s[1].v[v], sum));
      s[2].v[v] = shortened(add(add(s[2].v[v], s[2].v[v]), sum));
    }
  }

  // From elements below 6 r to elements below 6 r.
  [[gnu::noinline]] void permute(Element (&s)[WIDTH]) const {
    external(s);
    for (int r = 0; r < HALF_FULL; ++r) full_round(s, c_.full + WIDTH * r);
    for (int r = 0; r < PARTIAL; ++r) partial_round(s, c_.partial[r]);
    for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r) full_round(s, c_.full + WIDTH * r);
  }

  // -- hashes -------------------------------------------------------------------------------------------------------

  // The sponge over `count` words, of which put(k, to) stores the k-th of all messages: each block of two elements replaces the
  // rate, the last one filled with zeros.
  template <class Put>
  void sponge(size_t count, const Put& put, u64* digests) const {
    Element s[WIDTH] = {form(0, 0), form(0, 0), form(poseidon2_bn254::SPONGE_TAG, count)};
    for (size_t at = 0; at < count; at += RATE * PACKED) {
      for (int i = 0; i < RATE; ++i) {
        u64 words[WORDS * LANES] = {};
        const size_t first = at + PACKED * i;
        for (size_t k = 0; k < PACKED && first + k < count; ++k) put(first + k, words + LANES * k);
        s[i] = form(words);
      }
      permute(s);
    }
    number(s[0], digests);
  }

  static void put_digests(const u64* digests, u64* out, size_t stride) {
    for (int w = 0; w < WORDS; ++w) std::memcpy(out + w * stride, digests + LANES * w, LANES * sizeof(u64));
  }

  [[gnu::noinline]] void all_leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset,
                                    size_t n, u64* out, size_t stride) const {
    for (size_t i = 0; i < n; i += LANES) {
      u64 digests[WORDS * LANES];
      const auto put = [&](size_t k, u64* to) {
        if (k >= headers) std::memcpy(to, columns[k - headers] + offset + i, LANES * sizeof(u64));
        else
          for (size_t l = 0; l < LANES; ++l) to[l] = header[k];
      };
      sponge(headers + count, put, digests);
      put_digests(digests, out + i, stride);
    }
  }

  [[gnu::noinline]] void all_pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out,
                                   size_t stride) const {
    const auto digests = [&](const u64* from, size_t from_stride) {
      u64 words[WORDS * LANES];
      for (int w = 0; w < WORDS; ++w) std::memcpy(words + LANES * w, from + w * from_stride, LANES * sizeof(u64));
      return form(words);
    };
    const Element capacity = form(tag, 0);
    for (size_t i = 0; i < n; i += LANES) {
      Element s[WIDTH] = {digests(a + i, a_stride), digests(b + i, b_stride), capacity};
      permute(s);
      u64 words[WORDS * LANES];
      number(s[0], words);
      put_digests(words, out + i, stride);
    }
  }

  [[gnu::noinline]] void all_rows(const u8* rows, size_t length, size_t n, u8* out) const {
    for (size_t i = 0; i < n; i += LANES) {
      u64 digests[WORDS * LANES];
      const auto put = [&](size_t k, u64* to) {
        for (size_t l = 0; l < LANES; ++l) std::memcpy(to + l, rows + (i + l) * length + 8 * k, 8);
      };
      sponge(length / 8, put, digests);
      for (size_t l = 0; l < LANES; ++l)
        for (int w = 0; w < WORDS; ++w) std::memcpy(out + 32 * (i + l) + 8 * w, digests + LANES * w + l, 8);
    }
  }

  [[gnu::noinline]] size_t least_nonce(u64 tag, const u64* seed, u64 first, size_t n, int bits) const {
    const u64 mask = bits < 64 ? ((u64)1 << bits) - 1 : ~(u64)0;
    u64 words[WORDS * LANES];
    for (size_t k = 0; k < WORDS * LANES; ++k) words[k] = seed[k / LANES];
    const Element seeds = form(words), capacity = form(tag, 0);
    for (size_t i = 0; i < n; i += LANES) {
      u64 nonces[WORDS * LANES] = {};
      for (size_t l = 0; l < LANES; ++l) nonces[l] = first + i + l;
      Element s[WIDTH] = {seeds, form(nonces), capacity};
      permute(s);
      number(s[0], words);
      for (size_t l = 0; l < LANES; ++l)
        if ((words[l] & mask) == 0) return i + l;
    }
    return n;
  }

  // -- the table's functions, which work under A's rounding ---------------------------------------------------------

  static void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n,
                     u64* out, size_t stride) {
    const typename A::Rounding rounding;
    made().all_leaves(columns, count, header, headers, offset, n, out, stride);
  }
  static void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out, size_t stride) {
    const typename A::Rounding rounding;
    made().all_pairs(tag, a, a_stride, b, b_stride, n, out, stride);
  }
  static void rows(const u8* rows, size_t length, size_t n, u8* out) {
    const typename A::Rounding rounding;
    made().all_rows(rows, length, n, out);
  }
  static size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
    const typename A::Rounding rounding;
    return made().least_nonce(tag, seed, first, n, bits);
  }
  static Poseidon2Bn254Lanes made() { return Poseidon2Bn254Lanes(poseidon2_bn254::digit_constants()); }

  const Constants& c_;
  const A arithmetic_;
};

#undef DP_EACH
#undef DP_DIGITS

}  // namespace
}  // namespace dp
