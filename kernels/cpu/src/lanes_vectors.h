// The code of lanes.h over a vector type V of eight lanes.
//
// V: T (a word for each lane), Mask; splat, add, sub, bit_and, bit_or, bit_xor, shifts srl<n> and sll<n>, and sra<n> of signed
// words; negative and zero, which give a Mask; either (of two), select (the first where it is set), bits (one for each lane);
// load, store; load_points and store_points, between eight addresses, with
// four words there and four at a distance, and these words by lane; and Product, made of a Field, which
// multiplies elements whose digits are all from 0 to 2^52 - 1: a b / 2^260, below a b / 2^260 + the modulus.
//
// As in goldilocks_ntt.h, V has internal linkage, because it is built with options that not every CPU runs.
#pragma once
#include <algorithm>
#include <cstring>

#include "lanes.h"

namespace dp {
namespace lanes {

constexpr u64 DIGIT = ((u64)1 << 52) - 1;

// Five digits of each lane; below 2^52 and not negative unless it says otherwise.
template <class T>
struct Digits {
  T d[5];
};

// Words of elements to digits and back, and carries between digits.
template <class V>
struct DigitForm {
  using T = typename V::T;
  using Element = Digits<T>;

  // Digits of any sign to digits below 2^52, of which the last keeps the sign.
  static Element carried(Element a) {
    for (int j = 0; j < 4; ++j) {
      a.d[j + 1] = V::add(a.d[j + 1], V::template sra<52>(a.d[j]));
      a.d[j] = V::bit_and(a.d[j], V::splat(DIGIT));
    }
    return a;
  }

  template <int SHIFT>  // the digit that begins at this bit of `low`
  static T joined(T low, T high) {
    return V::bit_and(V::bit_or(V::template srl<SHIFT>(low), V::template sll<64 - SHIFT>(high)), V::splat(DIGIT));
  }
  template <int UP = 0>  // times 2^UP
  static Element digits(const T* w) {
    return {{V::bit_and(V::template sll<UP>(w[0]), V::splat(DIGIT)), joined<52 - UP>(w[0], w[1]), joined<40 - UP>(w[1], w[2]),
             joined<28 - UP>(w[2], w[3]), V::template srl<16 - UP>(w[3])}};
  }
  static void words(const Element& a, T* w) {
    w[0] = V::bit_or(a.d[0], V::template sll<52>(a.d[1]));
    w[1] = V::bit_or(V::template srl<12>(a.d[1]), V::template sll<40>(a.d[2]));
    w[2] = V::bit_or(V::template srl<24>(a.d[2]), V::template sll<28>(a.d[3]));
    w[3] = V::bit_or(V::template srl<36>(a.d[3]), V::template sll<16>(a.d[4]));
  }
};

template <class V>
class Lanes : DigitForm<V> {
  using T = typename V::T;
  using Mask = typename V::Mask;
  using Element = Digits<T>;
  using DigitForm<V>::carried;
  using DigitForm<V>::digits;
  using DigitForm<V>::words;

 public:
  explicit Lanes(const Field& field) : field_(field), mul_(field) {
    for (int j = 0; j < 5; ++j) modulus_.d[j] = V::splat(field.modulus[j]);
  }

  void products(const u64* slots, const Pair* pairs, size_t n, u64* suffix, u64* out) const {
    Element product = {{V::splat(1), V::splat(0), V::splat(0), V::splat(0), V::splat(0)}};
    for (size_t begin = (n + LANES - 1) / LANES * LANES; begin > 0;) {
      begin -= LANES;
      for (int j = 0; j < 5; ++j) V::store(suffix + begin / LANES * SUFFIX_WORDS + LANES * j, product.d[j]);
      product = mul_(product, denominators(Operands(slots, pairs, begin, n)));
    }
    T w[4];
    words(canonical(product), w);
    for (int k = 0; k < 4; ++k) V::store(out + LANES * k, w[k]);
  }

  void sums(u64* slots, const Pair* pairs, size_t n, const u64* suffix, const u64* inverses) const {
    T w[8];
    for (int k = 0; k < 4; ++k) w[k] = V::load(inverses + LANES * k);
    Element inverse = digits(w);
    for (size_t begin = 0; begin < n; begin += LANES) {
      const Operands o(slots, pairs, begin, n);
      const Element d = denominators(o);
      Element after;
      for (int j = 0; j < 5; ++j) after.d[j] = V::load(suffix + begin / LANES * SUFFIX_WORDS + LANES * j);
      const Element own = mul_(inverse, after);
      inverse = mul_(inverse, d);
      const Element ax = digits(o.a), ay = digits(o.a + 4), bx = digits(o.b), by = digits(o.b + 4);
      const Element slope = mul_(difference(by, ay), own);
      Element x = mul_(slope, slope);
      for (int j = 0; j < 5; ++j) x.d[j] = V::sub(V::sub(x.d[j], ax.d[j]), bx.d[j]);
      x = canonical(x);
      Element run;  // four times what the slope is multiplied by
      for (int j = 0; j < 5; ++j) run.d[j] = V::template sll<2>(V::add(V::sub(ax.d[j], x.d[j]), modulus_.d[j]));
      Element y = mul_(slope, carried(run));
      for (int j = 0; j < 5; ++j) y.d[j] = V::sub(y.d[j], ay.d[j]);
      y = canonical(y);
      words(x, w);
      words(y, w + 4);
      const unsigned special = V::bits(V::either(o.equal_x(), o.infinite()));
      if (__builtin_expect(special != 0, 0)) special_sums(o, own, special, w);
      u64* out[LANES];
      for (size_t l = 0; l < LANES; ++l) out[l] = slots + POINT * pairs[std::min(begin + l, n - 1)].out;
      V::store_points(w, out, ELEMENT);
    }
  }

  void butterflies(bool joining, u64* a, int log_half, const void* factors, size_t begin, size_t end) const {
    Element factor;
    size_t last = ~(size_t)0;  // block whose factor that is, where all lanes have one
    for (size_t i = begin; i < end; i += LANES) {
      u64* low[LANES];
      for (size_t l = 0; l < LANES; ++l) low[l] = a + ELEMENT * (i + l + ((i + l) >> log_half << log_half));
      const size_t block = (i + LANES - 1) >> log_half;
      if (block != last) factor = factors_of(factors, log_half, i);
      last = i >> log_half == block ? block : ~(size_t)0;
      T w[8];
      V::load_points(low, ELEMENT << log_half, w);
      const Element x = digits(w), y = digits(w + 4);
      Element sum, product;
      if (joining) {
        sum = y;
        product = mul_(difference(x, y), factor);
      } else {
        sum = product = mul_(y, factor);
        for (int j = 0; j < 5; ++j) product.d[j] = V::sub(x.d[j], product.d[j]);
      }
      // The first from minus one modulus on and below two, the other from minus two on and below two.
      for (int j = 0; j < 5; ++j) sum.d[j] = V::sub(V::add(x.d[j], sum.d[j]), modulus_.d[j]);
      words(canonical(sum), w);
      words(canonical(product), w + 4);
      V::store_points(w, low, ELEMENT << log_half);
    }
  }

 private:
  // Two operands of each of eight pairs: words 0 to 3 of x and 4 to 7 of y. Lanes beyond the last pair take that once more.
  struct Operands {
    T a[8], b[8];
    const u64 *left[LANES], *right[LANES];

    Operands(const u64* slots, const Pair* pairs, size_t begin, size_t n) {
      for (size_t l = 0; l < LANES; ++l) {
        left[l] = slots + POINT * pairs[std::min(begin + l, n - 1)].left;
        right[l] = left[l] + POINT;
      }
      V::load_points(left, ELEMENT, a);
      V::load_points(right, ELEMENT, b);
    }

    Mask equal_x() const {
      T differs = V::bit_xor(a[0], b[0]);
      for (int k = 1; k < 4; ++k) differs = V::bit_or(differs, V::bit_xor(a[k], b[k]));
      return V::zero(differs);
    }
    // Lanes with an infinite operand, whose y is 0.
    Mask infinite() const {
      T y = a[4], z = b[4];
      for (int k = 5; k < 8; ++k) {
        y = V::bit_or(y, a[k]);
        z = V::bit_or(z, b[k]);
      }
      return V::either(V::zero(y), V::zero(z));
    }
  };

  // a - b + the modulus, for canonical a and b
  Element difference(const Element& a, const Element& b) const {
    Element r;
    for (int j = 0; j < 5; ++j) r.d[j] = V::add(V::sub(a.d[j], b.d[j]), modulus_.d[j]);
    return carried(r);
  }

  // Canonical, from digits of any sign whose value is from minus two moduli on and below two.
  Element canonical(Element a) const {
    a = carried(a);
    // Below zero one modulus more, else one less; then it is from minus one on and below one.
    const Mask below = V::negative(a.d[4]);
    for (int j = 0; j < 5; ++j) {
      const T& q = modulus_.d[j];
      a.d[j] = V::select(below, V::add(a.d[j], q), V::sub(a.d[j], q));
    }
    a = carried(a);
    const Mask still = V::negative(a.d[4]);
    for (int j = 0; j < 5; ++j) a.d[j] = V::add(a.d[j], V::select(still, modulus_.d[j], V::splat(0)));
    return carried(a);
  }

  // Of the butterflies from i on, times 16.
  static Element factors_of(const void* factors, int log_half, size_t i) {
    u64 all[ELEMENT * LANES];
    for (size_t l = 0; l < LANES; ++l) {
      u64 one[ELEMENT];
      std::memcpy(one, static_cast<const char*>(factors) + sizeof one * ((i + l) >> log_half), sizeof one);
      for (size_t k = 0; k < ELEMENT; ++k) all[LANES * k + l] = one[k];
    }
    T w[ELEMENT];
    for (size_t k = 0; k < ELEMENT; ++k) w[k] = V::load(all + LANES * k);
    return DigitForm<V>::template digits<4>(w);
  }

  Element denominators(const Operands& o) const {
    const Element d = difference(digits(o.b), digits(o.a));
    const unsigned equal = V::bits(o.equal_x());
    return __builtin_expect(equal != 0, 0) ? replaced(d, o, equal) : d;
  }
  __attribute__((noinline)) Element replaced(const Element& d, const Operands& o, unsigned equal) const {
    T w[4];
    words(d, w);
    change_lanes(w, equal, [&](size_t l, u64* own) { field_.scalar.denominator(o.left[l], o.right[l], own); });
    return digits(w);
  }

  // The sums of the lanes of `special` over what is in w.
  __attribute__((noinline)) void special_sums(const Operands& o, const Element& inverse, unsigned special, T (&w)[8]) const {
    u64 inverses[4 * LANES];
    T i[4];
    words(canonical(inverse), i);
    for (int k = 0; k < 4; ++k) V::store(inverses + LANES * k, i[k]);
    change_lanes(w, special, [&](size_t l, u64* sum) {
      const u64 own[4] = {inverses[l], inverses[LANES + l], inverses[2 * LANES + l], inverses[3 * LANES + l]};
      field_.scalar.sum(o.left[l], o.right[l], own, sum);
    });
  }
  template <size_t N, class Make>
  static void change_lanes(T (&w)[N], unsigned which, const Make& make) {
    u64 all[N * LANES], own[N];
    for (size_t k = 0; k < N; ++k) V::store(all + LANES * k, w[k]);
    for (size_t l = 0; l < LANES; ++l) {
      if (!(which >> l & 1)) continue;
      make(l, own);
      for (size_t k = 0; k < N; ++k) all[LANES * k + l] = own[k];
    }
    for (size_t k = 0; k < N; ++k) w[k] = V::load(all + LANES * k);
  }

  const Field& field_;
  const typename V::Product mul_;
  Element modulus_;
};

}  // namespace lanes
}  // namespace dp
