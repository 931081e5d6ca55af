#include "babybear_sumcheck.h"

#include <mutex>

namespace dp {

namespace {

constexpr size_t GRAIN = 1 << 10;

struct Element {
  u32 c[4];

  static Element at(const u32* words) { return {{words[0], words[1], words[2], words[3]}}; }
  void to(u32* words) const {
    for (int i = 0; i < 4; ++i) words[i] = c[i];
  }
  friend Element operator+(const Element& a, const Element& b) {
    Element r;
    for (int i = 0; i < 4; ++i) r.c[i] = bb::add(a.c[i], b.c[i]);
    return r;
  }
  friend Element operator-(const Element& a, const Element& b) {
    Element r;
    for (int i = 0; i < 4; ++i) r.c[i] = bb::sub(a.c[i], b.c[i]);
    return r;
  }
  friend Element operator*(const Element& a, const Element& b) {
    Element r;
    bb::ext_mul(a.c, b.c, r.c);
    return r;
  }
};

// The value at 1 of the line through entries 2 i and 2 i + 1 of a table, and what each further step adds.
struct Line {
  Element value, step;

  Line(const u32* table, size_t i) : value(Element::at(table + 8 * i + 4)), step(value - Element::at(table + 8 * i)) {}
  void advance() { value = value + step; }
};

// Adds up term(i, sums of a piece) over i < n, and writes the sums.
template <int POINTS, class Term>
void sum(Pool& pool, size_t n, const Term& term, u32* out) {
  Element total[POINTS] = {};
  std::mutex mutex;
  pool.ranges(n, GRAIN, [&](size_t begin, size_t end) {
    Element own[POINTS] = {};
    for (size_t i = begin; i < end; ++i) term(i, own);
    std::lock_guard<std::mutex> lock(mutex);
    for (int x = 0; x < POINTS; ++x) total[x] = total[x] + own[x];
  });
  for (int x = 0; x < POINTS; ++x) total[x].to(out + 4 * x);
}

}  // namespace

void babybear_fold(Pool& pool, const u32* table, const u32* at, size_t n, u32* out) {
  const Element by = Element::at(at);
  pool.ranges(n, GRAIN, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Element low = Element::at(table + 8 * i), high = Element::at(table + 8 * i + 4);
      (low + by * (high - low)).to(out + 4 * i);
    }
  });
}

void babybear_pair_round(Pool& pool, const u32* a, const u32* b, size_t n, u32* sums) {
  sum<2>(
      pool, n,
      [&](size_t i, Element* own) {
        Line x(a, i), y(b, i);
        own[0] = own[0] + x.value * y.value;
        x.advance();
        y.advance();
        own[1] = own[1] + x.value * y.value;
      },
      sums);
}

void babybear_layer_round(Pool& pool, const u32* eq, const u32* halves, const u32* batch, size_t n, u32* sums) {
  const Element by = Element::at(batch);
  const u32 *p0 = halves, *p1 = p0 + 8 * n, *q0 = p1 + 8 * n, *q1 = q0 + 8 * n;
  sum<3>(
      pool, n,
      [&](size_t i, Element* own) {
        Line weight(eq, i), a(p0, i), b(p1, i), c(q0, i), d(q1, i);
        for (int x = 0; x < 3; ++x) {
          own[x] = own[x] + weight.value * ((a.value + by * c.value) * d.value + b.value * c.value);
          for (Line* line : {&weight, &a, &b, &c, &d}) line->advance();
        }
      },
      sums);
}

}  // namespace dp
