// Poseidon2 over the scalar field of BN254 on AVX-512 IFMA: sixteen messages at once, one in each lane of two vectors. Built with
// -mavx512f -mavx512dq -mavx512ifma.
//
// An element is five digits of 52 bits, in Montgomery form with the radix 2^260. Sums are not reduced before they are multiplied:
// values stay below 2^259, which a product takes. Each function gives its bound in multiples of r, of which 2^254 has 1.33. The
// two vectors fill each other's waits: of a partial round each step needs the one before.
#include <cstring>

#include "hash_ops.h"
#include "lanes_ifma.h"
#include "poseidon2_bn254_digits.h"

namespace dp {
namespace {

using lanes::Digits;
using lanes::Ifma;
using poseidon2_bn254::DIGITS;
using poseidon2_bn254::DigitConstants;
using T = Ifma::T;
using One = Digits<T>;

constexpr size_t VECTORS = 2, LANES = VECTORS * lanes::LANES;
constexpr int WIDTH = 3, RATE = 2, WORDS = 4, PACKED = 3, HALF_FULL = 4, PARTIAL = 56;
constexpr u64 SPONGE_TAG = 1;

// An element of each message.
struct Element {
  One v[VECTORS];
};

#define DP_EACH _Pragma("GCC unroll 2") for (size_t v = 0; v < VECTORS; ++v)
#define DP_DIGITS(j) _Pragma("GCC unroll 5") for (int j = 0; j < DIGITS; ++j)

T low(T sum, T a, T b) { return _mm512_madd52lo_epu64(sum, a, b); }
T high(T sum, T a, T b) { return _mm512_madd52hi_epu64(sum, a, b); }

class Poseidon2Bn254 {
 public:
  explicit Poseidon2Bn254(const DigitConstants& c) : c_(c), neg_inverse_(Ifma::splat(c.neg_inverse)) {
    DP_DIGITS(j) modulus_[j] = Ifma::splat(c.modulus[j]);
  }

  // The form of numbers below 2^256, of which word k of lane l is words[LANES * k + l]: below 1.1 r.
  Element form(const u64* words) const {
    const One scale = splat(c_.to_form);
    Element x;
    DP_EACH {
      T w[WORDS];
      for (int k = 0; k < WORDS; ++k) w[k] = Ifma::load(words + LANES * k + lanes::LANES * v);
      x.v[v] = carried(product(digits(w), scale));
    }
    return x;
  }
  Element form(u64 a, u64 b) const {
    u64 words[WORDS * LANES] = {};
    for (size_t l = 0; l < LANES; ++l) words[l] = a, words[LANES + l] = b;
    return form(words);
  }

  // The numbers below r of elements below 2^259, stored as `form` takes them.
  void number(const Element& x, u64* words) const {
    const One one = {{Ifma::splat(1), Ifma::splat(0), Ifma::splat(0), Ifma::splat(0), Ifma::splat(0)}};
    DP_EACH {
      const One n = carried(product(carried(x.v[v]), one));  // from 0 to r, r included
      One less = n;
      DP_DIGITS(j) less.d[j] = Ifma::sub(n.d[j], modulus_[j]);
      less = carried(less);
      const Ifma::Mask below = Ifma::negative(less.d[DIGITS - 1]);
      T d[DIGITS], w[WORDS];
      DP_DIGITS(j) d[j] = Ifma::select(below, n.d[j], less.d[j]);
      w[0] = Ifma::bit_or(d[0], Ifma::sll<52>(d[1]));
      w[1] = Ifma::bit_or(Ifma::srl<12>(d[1]), Ifma::sll<40>(d[2]));
      w[2] = Ifma::bit_or(Ifma::srl<24>(d[2]), Ifma::sll<28>(d[3]));
      w[3] = Ifma::bit_or(Ifma::srl<36>(d[3]), Ifma::sll<16>(d[4]));
      for (int k = 0; k < WORDS; ++k) Ifma::store(words + LANES * k + lanes::LANES * v, w[k]);
    }
  }

  // From elements below 5 r to elements below 5 r.
  [[gnu::noinline]] void permute(Element (&s)[WIDTH]) const {
    external(s);
    _Pragma("GCC unroll 1") for (int r = 0; r < HALF_FULL; ++r) full_round(s, c_.full + WIDTH * r);
    _Pragma("GCC unroll 1") for (int r = 0; r < PARTIAL; ++r) partial_round(s, c_.partial[r]);
    _Pragma("GCC unroll 1") for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r) full_round(s, c_.full + WIDTH * r);
  }

 private:
  static One splat(const u64* digits) {
    One x;
    DP_DIGITS(j) x.d[j] = Ifma::splat(digits[j]);
    return x;
  }
  static One add(const One& a, const One& b) {
    One x;
    DP_DIGITS(j) x.d[j] = Ifma::add(a.d[j], b.d[j]);
    return x;
  }
  static One digits(const T* w) {
    const T mask = Ifma::splat(lanes::DIGIT);
    const auto joined = [&](T a, T b) { return Ifma::bit_and(Ifma::bit_or(a, b), mask); };
    return {{Ifma::bit_and(w[0], mask), joined(Ifma::srl<52>(w[0]), Ifma::sll<12>(w[1])),
             joined(Ifma::srl<40>(w[1]), Ifma::sll<24>(w[2])), joined(Ifma::srl<28>(w[2]), Ifma::sll<36>(w[3])),
             Ifma::srl<16>(w[3])}};
  }
  // Digits of any sign to digits below 2^52, of which the last keeps the sign.
  static One carried(One a) {
    const T mask = Ifma::splat(lanes::DIGIT);
    _Pragma("GCC unroll 4") for (int j = 0; j < DIGITS - 1; ++j) {
      a.d[j + 1] = Ifma::add(a.d[j + 1], Ifma::sra<52>(a.d[j]));
      a.d[j] = Ifma::bit_and(a.d[j], mask);
    }
    return a;
  }

  // Digits of a sum of at most 12 products of digits in each of ten columns, divided by 2^260: below that + r. Below 2^57 each.
  One reduced(T (&t)[2 * DIGITS]) const {
    DP_DIGITS(i) {
      const T m = low(Ifma::splat(0), t[i], neg_inverse_);
      DP_DIGITS(j) t[i + j] = low(t[i + j], m, modulus_[j]);
      DP_DIGITS(j) t[i + j + 1] = high(t[i + j + 1], m, modulus_[j]);
      t[i + 1] = Ifma::add(t[i + 1], Ifma::srl<52>(t[i]));
    }
    One r;
    DP_DIGITS(j) r.d[j] = t[DIGITS + j];
    return r;
  }
  // a b / 2^260 + r at most, not carried. Factors have digits below 2^52.
  One product(const One& a, const One& b) const {
    T t[2 * DIGITS];
    for (T& x : t) x = Ifma::splat(0);
    DP_DIGITS(i) {
      DP_DIGITS(j) t[i + j] = low(t[i + j], a.d[i], b.d[j]);
      DP_DIGITS(j) t[i + j + 1] = high(t[i + j + 1], a.d[i], b.d[j]);
    }
    return reduced(t);
  }
  One square(const One& a) const {
    T t[2 * DIGITS];
    for (T& x : t) x = Ifma::splat(0);
    DP_DIGITS(i) _Pragma("GCC unroll 5") for (int j = i + 1; j < DIGITS; ++j) {
      t[i + j] = low(t[i + j], a.d[i], a.d[j]);
      t[i + j + 1] = high(t[i + j + 1], a.d[i], a.d[j]);
    }
    for (T& x : t) x = Ifma::add(x, x);
    DP_DIGITS(i) {
      t[2 * i] = low(t[2 * i], a.d[i], a.d[i]);
      t[2 * i + 1] = high(t[2 * i + 1], a.d[i], a.d[i]);
    }
    return reduced(t);
  }

  // (x + constant)^5, not carried: below 1.4 r for sums below 21 r.
  Element power5(const Element& x, const u64* constant) const {
    Element a, b, c;
    DP_EACH a.v[v] = carried(add(x.v[v], splat(constant)));
    DP_EACH b.v[v] = carried(square(a.v[v]));
    DP_EACH c.v[v] = carried(square(b.v[v]));
    DP_EACH b.v[v] = product(c.v[v], a.v[v]);
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

  // Less a multiple of r, for values below 64 r with digits below 2^60: below 3 r, with digits below 2^52 + 2^12.
  One shortened(One a) const {
    const T q = high(Ifma::splat(0), a.d[DIGITS - 1], Ifma::splat(c_.quotient));
    // q (2^260 - r), and q 2^260 is taken off
    DP_DIGITS(j) a.d[j] = low(a.d[j], q, Ifma::splat(c_.complement[j]));
    _Pragma("GCC unroll 4") for (int j = 0; j < DIGITS - 1; ++j)
        a.d[j + 1] = high(a.d[j + 1], q, Ifma::splat(c_.complement[j]));
    a.d[DIGITS - 1] = Ifma::sub(a.d[DIGITS - 1], Ifma::sll<52>(q));
    One r;
    DP_DIGITS(j) r.d[j] = j + 1 < DIGITS ? Ifma::bit_and(a.d[j], Ifma::splat(lanes::DIGIT)) : a.d[j];
    _Pragma("GCC unroll 4") for (int j = 0; j < DIGITS - 1; ++j) r.d[j + 1] = Ifma::add(r.d[j + 1], Ifma::srl<52>(a.d[j]));
    return r;
  }
  // Multiplies by the matrix of ones plus the diagonal 1, 1, 2.
  void partial_round(Element (&s)[WIDTH], const u64* constant) const {
    s[0] = power5(s[0], constant);
    DP_EACH {
      const One sum = add(s[0].v[v], add(s[1].v[v], s[2].v[v]));
      s[0].v[v] = add(s[0].v[v], sum);
      s[1].v[v] = shortened(add(s[1].v[v], sum));
      s[2].v[v] = shortened(add(add(s[2].v[v], s[2].v[v]), sum));
    }
  }

  const DigitConstants& c_;
  const T neg_inverse_;
  T modulus_[DIGITS];
};

Poseidon2Bn254 made() { return Poseidon2Bn254(poseidon2_bn254::digit_constants()); }

// The sponge over `count` words, of which word(k, l) is the k-th of message l: each block of two elements replaces the rate, the
// last one filled with zeros.
template <class Word>
void sponge(const Poseidon2Bn254& hash, size_t count, const Word& word, u64* digests) {
  Element s[WIDTH] = {hash.form(0, 0), hash.form(0, 0), hash.form(SPONGE_TAG, count)};
  for (size_t at = 0; at < count; at += RATE * PACKED) {
    for (int i = 0; i < RATE; ++i) {
      u64 words[WORDS * LANES] = {};
      for (size_t k = 0; k < PACKED && at + PACKED * i + k < count; ++k) word(at + PACKED * i + k, words + LANES * k);
      s[i] = hash.form(words);
    }
    hash.permute(s);
  }
  hash.number(s[0], digests);
}

void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n, u64* out,
            size_t stride) {
  const Poseidon2Bn254 hash = made();
  for (size_t i = 0; i < n; i += LANES) {
    u64 digests[WORDS * LANES];
    sponge(hash, headers + count, [&](size_t k, u64* to) {
      if (k >= headers) std::memcpy(to, columns[k - headers] + offset + i, LANES * sizeof(u64));
      else
        for (size_t l = 0; l < LANES; ++l) to[l] = header[k];
    }, digests);
    for (int w = 0; w < WORDS; ++w) std::memcpy(out + w * stride + i, digests + LANES * w, LANES * sizeof(u64));
  }
}

void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out, size_t stride) {
  const Poseidon2Bn254 hash = made();
  const auto digests = [&](const u64* from, size_t stride) {
    u64 words[WORDS * LANES];
    for (int w = 0; w < WORDS; ++w) std::memcpy(words + LANES * w, from + w * stride, LANES * sizeof(u64));
    return hash.form(words);
  };
  const Element capacity = hash.form(tag, 0);
  for (size_t i = 0; i < n; i += LANES) {
    Element s[WIDTH] = {digests(a + i, a_stride), digests(b + i, b_stride), capacity};
    hash.permute(s);
    u64 words[WORDS * LANES];
    hash.number(s[0], words);
    for (int w = 0; w < WORDS; ++w) std::memcpy(out + w * stride + i, words + LANES * w, LANES * sizeof(u64));
  }
}

void rows(const u8* rows, size_t length, size_t n, u8* out) {
  const Poseidon2Bn254 hash = made();
  for (size_t i = 0; i < n; i += LANES) {
    u64 digests[WORDS * LANES];
    sponge(hash, length / 8, [&](size_t k, u64* to) {
      for (size_t l = 0; l < LANES; ++l) std::memcpy(to + l, rows + (i + l) * length + 8 * k, 8);
    }, digests);
    for (size_t l = 0; l < LANES; ++l)
      for (int w = 0; w < WORDS; ++w) std::memcpy(out + 32 * (i + l) + 8 * w, digests + LANES * w + l, 8);
  }
}

size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
  const Poseidon2Bn254 hash = made();
  const u64 mask = bits < 64 ? ((u64)1 << bits) - 1 : ~(u64)0;
  u64 words[WORDS * LANES];
  for (size_t k = 0; k < WORDS * LANES; ++k) words[k] = seed[k / LANES];
  const Element seeds = hash.form(words), capacity = hash.form(tag, 0);
  for (size_t i = 0; i < n; i += LANES) {
    u64 nonces[WORDS * LANES] = {};
    for (size_t l = 0; l < LANES; ++l) nonces[l] = first + i + l;
    Element s[WIDTH] = {seeds, hash.form(nonces), capacity};
    hash.permute(s);
    hash.number(s[0], words);
    for (size_t l = 0; l < LANES; ++l)
      if ((words[l] & mask) == 0) return i + l;
  }
  return n;
}

}  // namespace

extern const HashOps POSEIDON2_BN254_IFMA = {LANES, &POSEIDON2_BN254, &leaves, &pairs, nullptr, &rows, &grind, nullptr};

}  // namespace dp
