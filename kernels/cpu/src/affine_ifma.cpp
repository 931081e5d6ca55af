// See affine_ifma.h. Built with -mavx512f -mavx512dq -mavx512ifma.
#include "affine_ifma.h"

#include <immintrin.h>

#include "transpose_avx512.h"

namespace dp {
namespace ifma {
namespace {

using V = __m512i;

constexpr u64 DIGIT = ((u64)1 << 52) - 1;
constexpr size_t POINT = 8;  // words

inline V splat(u64 x) { return _mm512_set1_epi64((long long)x); }
inline V add(V a, V b) { return _mm512_add_epi64(a, b); }
inline V sub(V a, V b) { return _mm512_sub_epi64(a, b); }

// Five digits of each lane; below 2^52 and not negative unless it says otherwise.
struct Element {
  V d[5];
};

struct Constants {
  V modulus[5], neg_inverse;
  explicit Constants(const Field& f) {
    for (int i = 0; i < 5; ++i) modulus[i] = splat(f.modulus[i]);
    neg_inverse = splat(f.neg_inverse);
  }
};

// a b / 2^260; below a b / 2^260 + the modulus
inline Element mul(const Constants& q, const Element& a, const Element& b) {
  V t[6] = {splat(0), splat(0), splat(0), splat(0), splat(0), splat(0)};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) t[j] = _mm512_madd52lo_epu64(t[j], a.d[j], b.d[i]);
    const V m = _mm512_madd52lo_epu64(splat(0), t[0], q.neg_inverse);
    for (int j = 0; j < 5; ++j) t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], a.d[j], b.d[i]);
    for (int j = 0; j < 5; ++j) t[j] = _mm512_madd52lo_epu64(t[j], m, q.modulus[j]);
    for (int j = 0; j < 5; ++j) t[j + 1] = _mm512_madd52hi_epu64(t[j + 1], m, q.modulus[j]);
    t[1] = add(t[1], _mm512_srli_epi64(t[0], 52));
    for (int j = 0; j < 5; ++j) t[j] = t[j + 1];
    t[5] = splat(0);
  }
  Element r;
  for (int j = 0; j < 5; ++j) {
    r.d[j] = j < 4 ? _mm512_and_si512(t[j], splat(DIGIT)) : t[j];
    if (j < 4) t[j + 1] = add(t[j + 1], _mm512_srli_epi64(t[j], 52));
  }
  return r;
}

// Digits of any sign to digits below 2^52, of which the last keeps the sign.
inline Element carried(Element a) {
  for (int j = 0; j < 4; ++j) {
    a.d[j + 1] = add(a.d[j + 1], _mm512_srai_epi64(a.d[j], 52));
    a.d[j] = _mm512_and_si512(a.d[j], splat(DIGIT));
  }
  return a;
}
inline __mmask8 negative(const Element& a) { return _mm512_movepi64_mask(a.d[4]); }

// a - b + the modulus, for canonical a and b
inline Element difference(const Constants& q, const Element& a, const Element& b) {
  Element r;
  for (int j = 0; j < 5; ++j) r.d[j] = add(sub(a.d[j], b.d[j]), q.modulus[j]);
  return carried(r);
}

// Canonical, from digits of any sign whose value is from minus two moduli on and below two.
inline Element canonical(const Constants& q, Element a) {
  a = carried(a);
  // Below zero one modulus more, else one less; then it is from minus one on and below one.
  const __mmask8 below = negative(a);
  for (int j = 0; j < 5; ++j) {
    const V more = add(a.d[j], q.modulus[j]);
    a.d[j] = _mm512_mask_blend_epi64(below, sub(a.d[j], q.modulus[j]), more);
  }
  a = carried(a);
  const __mmask8 still = negative(a);
  for (int j = 0; j < 5; ++j) a.d[j] = _mm512_mask_add_epi64(a.d[j], still, a.d[j], q.modulus[j]);
  return carried(a);
}

inline Element digits(const V* w) {
  const V mask = splat(DIGIT);
  const auto join = [&](V low, V high, int shift) {  // the digit that begins at bit `shift` of `low`
    const V a = _mm512_srli_epi64(low, shift), b = _mm512_slli_epi64(high, 64 - shift);
    return _mm512_and_si512(_mm512_or_si512(a, b), mask);
  };
  return {{_mm512_and_si512(w[0], mask), join(w[0], w[1], 52), join(w[1], w[2], 40), join(w[2], w[3], 28),
           _mm512_srli_epi64(w[3], 16)}};
}
inline void words(const Element& a, V* w) {
  for (int k = 0; k < 4; ++k)
    w[k] = _mm512_or_si512(_mm512_srli_epi64(a.d[k], 12 * k), _mm512_slli_epi64(a.d[k + 1], 52 - 12 * k));
}

// Two operands of each of eight pairs: words 0 to 3 of x and 4 to 7 of y. Lanes beyond the last pair take that once more.
struct Operands {
  V a[8], b[8];
  u32 left[8], out[8];

  Operands(const u64* slots, const Pair* pairs, size_t begin, size_t n) {
    for (size_t l = 0; l < LANES; ++l) {
      const Pair& p = pairs[begin + l < n ? begin + l : n - 1];
      left[l] = p.left;
      out[l] = p.out;
      a[l] = _mm512_loadu_si512(slots + POINT * p.left);
      b[l] = _mm512_loadu_si512(slots + POINT * (p.left + 1));
    }
    transpose_words(a);
    transpose_words(b);
  }

  __mmask8 equal_x() const {
    V differs = splat(0);
    for (int k = 0; k < 4; ++k) differs = _mm512_or_si512(differs, _mm512_xor_si512(a[k], b[k]));
    return _mm512_testn_epi64_mask(differs, differs);
  }
  // Lanes with an infinite operand, whose y is 0.
  __mmask8 infinite() const {
    V y = splat(0), z = splat(0);
    for (int k = 4; k < 8; ++k) {
      y = _mm512_or_si512(y, a[k]);
      z = _mm512_or_si512(z, b[k]);
    }
    return _mm512_testn_epi64_mask(y, y) | _mm512_testn_epi64_mask(z, z);
  }

  Element denominators(const Constants& q, const Field& field, const u64* slots) const {
    Element d = difference(q, digits(b), digits(a));
    const __mmask8 equal = equal_x();
    if (__builtin_expect(equal != 0, 0)) d = replaced(d, field, slots, equal);
    return d;
  }

 private:
  __attribute__((noinline)) Element replaced(Element d, const Field& field, const u64* slots, __mmask8 equal) const {
    V w[4];
    words(d, w);
    for (size_t l = 0; l < LANES; ++l) {
      if (!(equal >> l & 1)) continue;
      u64 one[4];
      field.scalar.denominator(slots + POINT * left[l], slots + POINT * (left[l] + 1), one);
      for (int k = 0; k < 4; ++k) w[k] = _mm512_mask_set1_epi64(w[k], (__mmask8)(1 << l), (long long)one[k]);
    }
    return digits(w);
  }
};

inline void store(u64* p, const Element& a) {
  for (int j = 0; j < 5; ++j) _mm512_storeu_si512(p + LANES * j, a.d[j]);
}
inline Element load(const u64* p) {
  Element a;
  for (int j = 0; j < 5; ++j) a.d[j] = _mm512_loadu_si512(p + LANES * j);
  return a;
}

// The sums of the lanes of `special`, from their operands in the slots, over what is in w.
__attribute__((noinline)) void special_sums(const Constants& q, const Field& field, const u64* slots, const Operands& o,
                                            const Element& inverse, __mmask8 special, V (&w)[8]) {
  u64 inverses[4 * LANES], sum[POINT];
  V i[4];
  words(canonical(q, inverse), i);
  for (int k = 0; k < 4; ++k) _mm512_storeu_si512(inverses + LANES * k, i[k]);
  for (size_t l = 0; l < LANES; ++l) {
    if (!(special >> l & 1)) continue;
    const u64 own[4] = {inverses[l], inverses[LANES + l], inverses[2 * LANES + l], inverses[3 * LANES + l]};
    field.scalar.sum(slots + POINT * o.left[l], slots + POINT * (o.left[l] + 1), own, sum);
    for (size_t k = 0; k < POINT; ++k) w[k] = _mm512_mask_set1_epi64(w[k], (__mmask8)(1 << l), (long long)sum[k]);
  }
}

}  // namespace

void products(const Field& field, const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* out) {
  const Constants q(field);
  Element product = {{splat(1), splat(0), splat(0), splat(0), splat(0)}};
  for (size_t begin = (n + LANES - 1) / LANES * LANES; begin > 0;) {
    begin -= LANES;
    store(suffix + begin / LANES * SUFFIX_WORDS, product);
    product = mul(q, product, Operands(slots, pairs, begin, n).denominators(q, field, slots));
  }
  V w[4];
  words(canonical(q, product), w);
  for (int k = 0; k < 4; ++k) _mm512_storeu_si512(out + LANES * k, w[k]);
}

void sums(const Field& field, u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* inverses) {
  const Constants q(field);
  V w[8];
  for (int k = 0; k < 4; ++k) w[k] = _mm512_loadu_si512(inverses + LANES * k);
  Element inverse = digits(w);
  for (size_t begin = 0; begin < n; begin += LANES) {
    const Operands o(slots, pairs, begin, n);
    const Element d = o.denominators(q, field, slots);
    const Element own = mul(q, inverse, load(suffix + begin / LANES * SUFFIX_WORDS));
    inverse = mul(q, inverse, d);
    const Element ax = digits(o.a), ay = digits(o.a + 4), bx = digits(o.b), by = digits(o.b + 4);
    const Element slope = mul(q, difference(q, by, ay), own);
    Element x = mul(q, slope, slope);
    for (int j = 0; j < 5; ++j) x.d[j] = sub(sub(x.d[j], ax.d[j]), bx.d[j]);
    x = canonical(q, x);
    Element run;  // four times what the slope is multiplied by
    for (int j = 0; j < 5; ++j) run.d[j] = _mm512_slli_epi64(add(sub(ax.d[j], x.d[j]), q.modulus[j]), 2);
    Element y = mul(q, slope, carried(run));
    for (int j = 0; j < 5; ++j) y.d[j] = sub(y.d[j], ay.d[j]);
    y = canonical(q, y);
    words(x, w);
    words(y, w + 4);
    const __mmask8 special = o.equal_x() | o.infinite();
    if (__builtin_expect(special != 0, 0)) special_sums(q, field, slots, o, own, special, w);
    transpose_words(w);
    for (size_t l = 0; l < LANES; ++l) _mm512_storeu_si512(slots + POINT * o.out[l], w[l]);
  }
}

}  // namespace ifma
}  // namespace dp
