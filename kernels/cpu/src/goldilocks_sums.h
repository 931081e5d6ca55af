// Products and their sums on vectors of Goldilocks elements, the same for every instruction set. goldilocks_avx2.h and
// goldilocks_avx512.h include it within their namespaces, for the register R with plus, times (of the lower halves), both
// (bits), left, right, upper, joined, carried and zero, and for V with sub and reduce128.

// What a factor of several products is prepared to.
struct Halves {
  R low, high;  // low: with anything above bit 32
};
inline Halves halves(V a) { return {a.v, upper(a.v)}; }

// a b as hi 2^64 + lo
inline void product(const Halves& a, const Halves& b, R& hi, R& lo) {
  const R ll = times(a.low, b.low), lh = times(a.low, b.high), hl = times(a.high, b.low), hh = times(a.high, b.high);
  const R m = plus(hl, right<32>(ll)), k = plus(lh, both(m, splat(EPSILON)));
  hi = plus(plus(hh, right<32>(m)), right<32>(k));
  lo = joined(ll, k);
}

inline V mul(V a, V b) {
  R hi, lo;
  product(halves(a), halves(b), hi, lo);
  return reduce128(hi, lo);
}

// The other factor of a long sum's products: 22, 22 and 20 bits. Products with a half are below 2^54, so that 1024 of them
// can be added in 64 bits.
struct Pieces {
  R part[3];
};
inline Pieces pieces(V a) {
  const R mask = splat((1 << 22) - 1);
  return {{both(a.v, mask), both(right<22>(a.v), mask), right<44>(a.v)}};
}

// A sum of up to 1024 products: six multiplications and additions each.
class Dot {
 public:
  void add(const Halves& a, const Pieces& b) {
    for (int i = 0; i < 3; ++i) {
      low_[i] = plus(low_[i], times(a.low, b.part[i]));
      high_[i] = plus(high_[i], times(a.high, b.part[i]));
    }
  }

  // L + 2^32 H, where H = hh 2^64 + hl: 2^96 = -1.
  V reduce() const {
    R lh, ll, hh, hl;
    join(low_, lh, ll);
    join(high_, hh, hl);
    const R shifted = left<32>(hl), lo = plus(ll, shifted), hi = plus(lh, right<32>(hl));
    return sub(reduce128(carried(hi, lo, shifted), lo), V{hh});  // hh < 2^44
  }

 private:
  // parts[0] + 2^22 parts[1] + 2^44 parts[2]
  static void join(const R* parts, R& hi, R& lo) {
    const R a = left<22>(parts[1]), b = left<44>(parts[2]), sum = plus(parts[0], a);
    lo = plus(sum, b);
    hi = plus(right<42>(parts[1]), right<20>(parts[2]));
    hi = carried(carried(hi, sum, a), lo, b);
  }

  R low_[3] = {zero(), zero(), zero()};
  R high_[3] = {zero(), zero(), zero()};
};
