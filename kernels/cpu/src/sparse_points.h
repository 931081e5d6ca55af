// Sparse matrix (CSR, canonical scalars from a dictionary) times a vector of affine points: what a proving key is made of.
//
// Most coefficients are 1, -1 or small, most rows short, a few rows very long. Row parts of up to SEGMENT entries are the
// tasks, so that long rows are shared between threads. Within a part, ones are mixed additions; the other entries go
// through Straus' method, GROUP at a time: signed windows (width-w NAF), doublings shared by the group.
#pragma once
#include <vector>

#include "curve/xyzz.h"
#include "ops.h"

namespace dp {

namespace sparse {

constexpr size_t SEGMENT = 4096, GROUP = 64;
constexpr int WINDOW = 5, TABLE = 1 << (WINDOW - 2), MAX_DIGITS = 260;

template <int N>
bool is_less(const Words<N>& a, const Words<N>& b) {
  for (int i = N - 1; i >= 0; --i)
    if (a.w[i] != b.w[i]) return a.w[i] < b.w[i];
  return false;
}

template <int N>
Words<N> subtract(const Words<N>& a, const Words<N>& b) {
  Words<N> r{};
  sub_n<N>(r.w, a.w, b.w);
  return r;
}

// A scalar of smallest absolute value, as odd signed digits below 2^(WINDOW - 1) with zeros between them.
struct Naf {
  signed char digit[MAX_DIGITS];
  int length;
  bool negative;
};

template <class Fr>
Naf recode(Words<Fr::LIMBS64> k) {
  constexpr int N = Fr::LIMBS64;
  Naf naf{};
  const Words<N> opposite = subtract<N>(Fr::Params::words(), k);
  naf.negative = is_less<N>(opposite, k);
  if (naf.negative) k = opposite;
  for (int i = 0;; ++i) {
    u64 rest = 0;
    for (int j = 0; j < N; ++j) rest |= k.w[j];
    if (!rest) return naf;
    if (k.w[0] & 1) {
      int d = (int)(k.w[0] & ((1 << WINDOW) - 1));
      if (d >= 1 << (WINDOW - 1)) d -= 1 << WINDOW;
      naf.digit[i] = (signed char)d;
      naf.length = i + 1;
      Words<N> step{};
      step.w[0] = (u64)(d < 0 ? -d : d);
      if (d > 0) sub_n<N>(k.w, k.w, step.w);
      else add_n<N>(k.w, k.w, step.w);
    }
    for (int j = 0; j < N; ++j) k.w[j] = (k.w[j] >> 1) | (j + 1 < N ? k.w[j + 1] << 63 : 0);
  }
}

// The entries of one group: their digits and their points' odd multiples.
template <class F, class Fr>
class Straus {
 public:
  void push(const Affine<F>& point, const Words<Fr::LIMBS64>& scalar) {
    if (point.is_infinity()) return;
    Entry& e = entries_[size_++];
    e.naf = recode<Fr>(scalar);
    e.odd[0] = XYZZ<F>::from_affine(e.naf.negative ? point.neg() : point);
    int largest = 0;
    for (int i = 0; i < e.naf.length; ++i) largest = std::max(largest, e.naf.digit[i] < 0 ? -e.naf.digit[i] : e.naf.digit[i]);
    const XYZZ<F> twice = largest > 1 ? e.odd[0].dbl() : XYZZ<F>::infinity();
    for (int i = 1; 2 * i + 1 <= largest; ++i) e.odd[i] = e.odd[i - 1].add(twice);
  }
  bool full() const { return size_ == GROUP; }
  XYZZ<F> take() {
    int length = 0;
    for (size_t i = 0; i < size_; ++i) length = std::max(length, entries_[i].naf.length);
    XYZZ<F> sum = XYZZ<F>::infinity();
    for (int bit = length - 1; bit >= 0; --bit) {
      sum = sum.dbl();
      for (size_t i = 0; i < size_; ++i) {
        const int d = bit < entries_[i].naf.length ? entries_[i].naf.digit[bit] : 0;
        if (d > 0) sum = sum.add(entries_[i].odd[d / 2]);
        if (d < 0) sum = sum.add(entries_[i].odd[-d / 2].neg());
      }
    }
    size_ = 0;
    return sum;
  }

 private:
  struct Entry {
    Naf naf;
    XYZZ<F> odd[TABLE];
  };
  Entry entries_[GROUP];
  size_t size_ = 0;
};

}  // namespace sparse

// out[row] = sum of values[value_index[k]] * points[columns[k]] over the row's entries, affine. Indices are known to be in
// range and values to be below the group's order.
template <class F, class Fr>
void sparse_points(Pool& pool, const CsrView& m, const u8* points, u8* out) {
  using Scalar = Words<Fr::LIMBS64>;
  struct Segment {
    size_t row, begin, end;
  };
  const In<u32> row_ptr(m.row_ptr), columns(m.columns), value_index(m.value_index);
  const In<Scalar> values(m.values);
  const In<Affine<F>> in(points);

  enum Kind : u8 { ZERO, PLUS, MINUS, OTHER };
  std::vector<u8> kinds(m.distinct, OTHER);
  Scalar zero{}, one{};
  one.w[0] = 1;
  const Scalar minus_one = sparse::subtract<Fr::LIMBS64>(Fr::Params::words(), one);
  auto equal = [](const Scalar& a, const Scalar& b) { return std::memcmp(&a, &b, sizeof(Scalar)) == 0; };
  for (size_t i = 0; i < m.distinct; ++i) {
    if (equal(values[i], zero)) kinds[i] = ZERO;
    if (equal(values[i], one)) kinds[i] = PLUS;
    if (equal(values[i], minus_one)) kinds[i] = MINUS;
  }

  std::vector<Segment> segments;
  std::vector<size_t> tasks{0};  // first segment of each task: tasks of about SEGMENT entries, handed out one at a time
  segments.reserve(m.rows);
  size_t weight = 0;
  for (size_t row = 0; row < m.rows; ++row) {
    size_t begin = row_ptr[row];
    const size_t end = row_ptr[row + 1];
    do {
      const size_t stop = std::min(end, begin + sparse::SEGMENT);
      segments.push_back({row, begin, stop});
      weight += 1 + stop - begin;
      if (weight >= sparse::SEGMENT) {
        tasks.push_back(segments.size());
        weight = 0;
      }
      begin = stop;
    } while (begin < end);
  }
  if (tasks.back() != segments.size()) tasks.push_back(segments.size());

  std::vector<XYZZ<F>> partial(segments.size());
  std::vector<sparse::Straus<F, Fr>> scratch(pool.threads());
  pool.run(tasks.size() - 1, [&](size_t task, int worker) {
    sparse::Straus<F, Fr>& straus = scratch[worker];
    for (size_t s = tasks[task]; s < tasks[task + 1]; ++s) {
      XYZZ<F> sum = XYZZ<F>::infinity();
      for (size_t k = segments[s].begin; k < segments[s].end; ++k) {
        const u32 v = value_index[k];
        const Affine<F> p = in[columns[k]];
        if (kinds[v] == PLUS) sum = sum.add(p);
        else if (kinds[v] == MINUS) sum = sum.add(p.neg());
        else if (kinds[v] == OTHER) straus.push(p, values[v]);
        if (straus.full()) sum = sum.add(straus.take());
      }
      partial[s] = sum.add(straus.take());
    }
  });

  // Segments of a row follow one another.
  std::vector<XYZZ<F>> sums(m.rows, XYZZ<F>::infinity());
  for (size_t s = 0; s < segments.size(); ++s) sums[segments[s].row] = sums[segments[s].row].add(partial[s]);

  // One inversion for each block of rows: x = X ZZ^2 / ZZZ^2 (since ZZ^3 = ZZZ^2), y = Y / ZZZ.
  pool.ranges(m.rows, 256, [&](size_t first, size_t last) {
    std::vector<F> before(last - first);
    F product = F::one();
    for (size_t i = first; i < last; ++i) {
      before[i - first] = product;
      if (!sums[i].is_infinity()) product = product * sums[i].zzz;
    }
    F inverse = product.inverse();
    for (size_t i = last; i-- > first;) {
      const XYZZ<F>& p = sums[i];
      Affine<F> a = Affine<F>::infinity();
      if (!p.is_infinity()) {
        const F z = inverse * before[i - first];
        inverse = inverse * p.zzz;
        const F t = p.zz * z;
        a = {p.x * t.sqr(), p.y * z};
      }
      Out<Affine<F>>(out).put(i, a);
    }
  });
}

}  // namespace dp
