// Poseidon2 over the scalar field of BN254, for every CPU: one message at a time.
#include "hash/poseidon2_bn254.h"

#include <cstring>

#include "hash_ops.h"
#include "poseidon2_bn254_digits.h"

namespace dp {
namespace poseidon2_bn254 {
namespace {

// Digits of a number of four words.
void put_digits(const u64* words, u64* out) {
  for (int j = 0; j < DIGITS; ++j) {
    const int word = DIGIT_BITS * j / 64, shift = DIGIT_BITS * j % 64;
    out[j] = words[word] >> shift;
    if (shift > 64 - DIGIT_BITS && word + 1 < WORDS) out[j] |= words[word + 1] << (64 - shift);
    out[j] &= ((u64)1 << DIGIT_BITS) - 1;
  }
}

// The digits of an element's Montgomery form for the radix 2^260, from that for 2^256.
void put_form(Fr x, u64* out) {
  for (int i = 256; i < DIGITS * DIGIT_BITS; ++i) x = x.dbl();
  const Words<WORDS> words = number(x.to_montgomery());
  put_digits(words.w, out);
}

DigitConstants made_constants() {
  DigitConstants c{};
  u64 modulus[WORDS];
  for (int i = 0; i < WORDS; ++i) modulus[i] = Bn254FrParams::modulus(i);
  put_digits(modulus, c.modulus);
  constexpr u64 DIGIT = ((u64)1 << DIGIT_BITS) - 1;
  c.neg_inverse = Bn254FrParams::inv64() & DIGIT;
  for (int j = 0; j < DIGITS; ++j) c.complement[j] = DIGIT - c.modulus[j];
  c.complement[0] += 1;  // the modulus is odd
  c.quotient = ((u64)1 << DIGIT_BITS) / (c.modulus[DIGITS - 1] + 1) - 1;
  Fr radix = Fr::one().to_montgomery();  // 2^256
  for (int i = 256; i < DIGITS * DIGIT_BITS; ++i) radix = radix.dbl();
  put_form(radix, c.to_form);
  for (int k = 0; k < 2 * HALF_FULL * WIDTH; ++k) put_form(montgomery(FULL_CONSTANTS + WORDS * k), c.full[k]);
  for (int k = 0; k < PARTIAL; ++k) put_form(montgomery(PARTIAL_CONSTANTS + WORDS * k), c.partial[k]);
  return c;
}

}  // namespace

const DigitConstants& digit_constants() {
  static const DigitConstants made = made_constants();
  return made;
}

}  // namespace poseidon2_bn254
namespace {

using namespace poseidon2_bn254;

Fr digest_at(const u64* at, size_t stride) { return element(at[0], at[stride], at[2 * stride], at[3 * stride]); }

void put(const Words<WORDS>& digest, u64* out, size_t stride) {
  for (int w = 0; w < WORDS; ++w) out[w * stride] = digest.w[w];
}

// The sponge over `count` words, of which word(k) is the k-th: each block of two elements replaces the rate, the last one filled
// with zeros.
template <class Word>
Words<WORDS> sponge(size_t count, const Word& word) {
  Fr s[WIDTH] = {Fr::zero(), Fr::zero(), capacity(SPONGE_TAG, count)};
  const auto given = [&](size_t k) { return k < count ? word(k) : 0; };
  for (size_t at = 0; at < count; at += RATE * PACKED) {
    for (size_t i = 0; i < RATE; ++i) {
      const size_t k = at + PACKED * i;
      s[i] = element(given(k), given(k + 1), given(k + 2), 0);
    }
    permute(s);
  }
  return number(s[0]);
}

void leaves(const u64* const* columns, size_t count, const u64* header, size_t headers, size_t offset, size_t n, u64* out,
            size_t stride) {
  for (size_t i = 0; i < n; ++i) {
    const auto digest = sponge(headers + count, [&](size_t k) {
      return k < headers ? header[k] : columns[k - headers][offset + i];
    });
    put(digest, out + i, stride);
  }
}

void pairs(u64 tag, const u64* a, size_t a_stride, const u64* b, size_t b_stride, size_t n, u64* out, size_t stride) {
  for (size_t i = 0; i < n; ++i) put(node(tag, digest_at(a + i, a_stride), digest_at(b + i, b_stride)), out + i, stride);
}

void rows(const u8* rows, size_t length, size_t n, u8* out) {
  for (size_t i = 0; i < n; ++i) {
    const auto digest = sponge(length / 8, [&](size_t k) {
      u64 word;
      std::memcpy(&word, rows + i * length + 8 * k, 8);
      return word;
    });
    std::memcpy(out + 32 * i, digest.w, 32);
  }
}

size_t grind(u64 tag, const u64* seed, u64 first, size_t n, int bits) {
  const u64 mask = bits < 64 ? ((u64)1 << bits) - 1 : ~(u64)0;
  for (size_t i = 0; i < n; ++i)
    if (works(tag, seed, first + i, mask)) return i;
  return n;
}

}  // namespace

extern const HashOps POSEIDON2_BN254 = {1, nullptr, &leaves, &pairs, nullptr, &rows, &grind, nullptr};

}  // namespace dp
