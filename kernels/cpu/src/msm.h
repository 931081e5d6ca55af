// Multi-scalar multiplication: Pippenger's buckets with signed digits and affine additions that share inversions.
//
// 1. A scalar above r/2 becomes r - scalar with its point negated, so that minus one and small negatives are short.
//    Zero scalars and infinite points are dropped.
// 2. Scalars are cut into signed digits of c bits; zero digits are dropped, the rest sorted by (window, |digit|). A pass
//    over the bit lengths of the scalars finds the c of least cost, so that 0/1-heavy witnesses get a window of their own.
// 3. Buckets are summed (grouped_sum.h).
// 4. sum_b (b + 1) B_b with b = hi 2^k + lo is sum_hi hi 2^k R_hi + sum_lo (lo + 1) C_lo, with R and C the sums of rows
//    and columns: two grouped sums, at 12 products a bucket where running sums in XYZZ need 24. Only R and C take
//    running sums.
// 5. The windows are joined by Horner's rule.
//
// More than MAX_POINTS points are taken in parts, which bounds the scratch memory.
#pragma once
#include <cstdlib>
#include <limits>
#include <memory_resource>
#include <vector>

#include "grouped_sum.h"

namespace dp {

template <class Fr, class F>
class Msm {
 public:
  // digits, entries and buckets lie in `scratch`, and beyond its size on the heap
  Msm(Pool& pool, const u8* points, const u8* scalars, u8* scratch, size_t scratch_bytes)
      : pool_(pool), sums_(pool), base_(points), points_(points), scalars_(scalars), scratch_(scratch, scratch_bytes) {}

  // What n scalars of full length take. Shorter ones take less, but for mixtures with many windows for a few.
  static size_t scratch_bytes(size_t n) {
    n = std::min(n, MAX_POINTS);
    Histogram lengths(BITS + 1, 0);
    lengths[BITS] = n;
    const int c = choose_window(lengths, BITS);
    const size_t windows = windows_for(BITS, c), buckets = windows << (c - 1);
    const size_t sorting = windows * n * (sizeof(short) + sizeof(u32)) + (buckets + 1) * sizeof(size_t);
    return sorting + buckets * sizeof(Affine<F>) + ALIGNMENTS;
  }

  XYZZ<F> run(size_t n) {
    XYZZ<F> total = XYZZ<F>::infinity();
    for (size_t begin = 0; begin < n; begin += MAX_POINTS) {
      total = total.add(part(begin, std::min(n, begin + MAX_POINTS)));
      scratch_.release();
    }
    return total;
  }

 private:
  static constexpr size_t MAX_POINTS = (size_t)1 << 20;
  static constexpr size_t ALIGNMENTS = 256;  // between the parts of the scratch
  static constexpr int MIN_WINDOW = 4;   // the signed digits of the longest scalar must not carry out: see `recode`
  static constexpr int MAX_WINDOW = 15;  // digits of either sign fit 16 bits
  static constexpr int LIMBS = Fr::LIMBS64;
  static constexpr int BITS = Fr::Params::BITS - 1;  // of the longest scalar, r / 2

  struct Scalar {
    u64 w[LIMBS + 1];
    bool negative;
  };
  using Histogram = std::vector<size_t>;  // scalars by bit length

  // |scalar| and its sign; zero for what contributes nothing
  Scalar load(size_t i) const {
    Scalar s{};
    const Fr v = In<Fr>(scalars_)[i];
    Fr minus;
    sub_n<LIMBS>(minus.v, Fr::modulus().v, v.v);
    Fr over;
    s.negative = sub_n<LIMBS>(over.v, minus.v, v.v) != 0;  // r - v < v
    const Fr& chosen = s.negative ? minus : v;
    for (int k = 0; k < LIMBS; ++k) s.w[k] = chosen.v[k];
    return s;
  }
  static int bit_length(const Scalar& s) {
    for (int k = LIMBS - 1; k >= 0; --k)
      if (s.w[k]) return 64 * k + 64 - __builtin_clzll(s.w[k]);
    return 0;
  }

  Histogram histogram(size_t begin, size_t end) {
    std::vector<Histogram> own(pool_.threads(), Histogram(BITS + 1, 0));
    const size_t block = 4096, blocks = (end - begin + block - 1) / block;
    pool_.run(blocks, [&](size_t k, int worker) {
      for (size_t i = begin + k * block; i < std::min(end, begin + (k + 1) * block); ++i) ++own[worker][bit_length(load(i))];
    });
    for (size_t k = 1; k < own.size(); ++k)
      for (int b = 0; b <= BITS; ++b) own[0][b] += own[k][b];
    return own[0];
  }

  // Bits to spare for the carry of signed digits: two in general, one where r / 2 is the bound (see `recode`).
  static int windows_for(int bits, int c) { return (bits + (bits < BITS ? 2 : 1) + c - 1) / c; }

  // Products in steps 3 and 4, both in affine additions: one for each digit, two for each bucket.
  static int choose_window(const Histogram& lengths, int longest) {
    int best = MIN_WINDOW;
    size_t least = std::numeric_limits<size_t>::max();
    for (int c = MIN_WINDOW; c <= MAX_WINDOW; ++c) {
      size_t cost = (size_t)windows_for(longest, c) * (((size_t)2 << (c - 1)) + 64);
      for (int b = 1; b <= longest; ++b) cost += lengths[b] * (size_t)((b + c) / c);
      if (cost < least) {
        least = cost;
        best = c;
      }
    }
    return best;
  }

  // Digit w of s + sum_w 2^(c - 1 + c w), less 2^(c - 1), is the signed digit w of s: no carry passes between windows. The sum
  // must stay below 2^m, m = c windows. Its second part is below 16/15 2^(m - 1) as c >= 4, and s below 2^(m - 2); or, with
  // m > BITS only, s < r / 2 < 0.91 2^(m - 1).
  void recode(size_t begin, size_t end, int c, int windows, std::pmr::vector<short>& digits) {
    u64 offset[LIMBS + 1] = {};
    for (int w = 0; w < windows; ++w) {
      const int bit = c * w + c - 1;
      offset[bit / 64] |= (u64)1 << (bit % 64);
    }
    const size_t n = end - begin;
    const u64 mask = ((u64)1 << c) - 1;
    const int half = 1 << (c - 1);
    pool_.ranges(n, 1024, [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        Scalar s = load(begin + i);
        if (points_[begin + i].is_infinity()) s = Scalar{};
        add_n<LIMBS + 1>(s.w, s.w, offset);
        const int sign = s.negative ? -1 : 1;
        for (int w = 0; w < windows; ++w) {
          const int bit = c * w, word = bit / 64, shift = bit % 64;
          u64 d = s.w[word] >> shift;
          if (shift + c > 64 && word < LIMBS) d |= s.w[word + 1] << (64 - shift);
          digits[w * n + i] = (short)(sign * ((int)(d & mask) - half));
        }
      }
    });
  }

  XYZZ<F> part(size_t begin, size_t end) {
    const Histogram lengths = histogram(begin, end);
    int longest = BITS;
    while (longest > 0 && lengths[longest] == 0) --longest;
    if (longest == 0) return XYZZ<F>::infinity();
    const int c = choose_window(lengths, longest), windows = windows_for(longest, c);
    const size_t buckets = (size_t)1 << (c - 1);

    std::pmr::vector<Affine<F>> sums(windows * buckets, &scratch_);
    {
      std::pmr::vector<size_t> offsets(&scratch_);
      const std::pmr::vector<u32> entries = sort(begin, end, c, windows, offsets);
      const In<Affine<F>> points(address(begin));
      sums_.run(points, entries.data(), offsets.data(), windows * buckets, sums.data());
    }
    const std::vector<XYZZ<F>> totals = weigh(sums, windows, c - 1);
    XYZZ<F> total = XYZZ<F>::infinity();
    for (int w = windows - 1; w >= 0; --w) {
      for (int k = 0; k < c; ++k) total = total.dbl();
      total = total.add(totals[w]);
    }
    return total;
  }

  // The non-zero digits as entries ordered by bucket, all windows one after the other; bucket g = w 2^(c - 1) + |digit| - 1 has
  // those from offsets[g] to offsets[g + 1].
  std::pmr::vector<u32> sort(size_t begin, size_t end, int c, int windows, std::pmr::vector<size_t>& offsets) {
    const size_t n = end - begin, buckets = (size_t)1 << (c - 1);
    std::pmr::vector<short> digits(windows * n, &scratch_);
    recode(begin, end, c, windows, digits);
    offsets.assign(windows * buckets + 1, 0);
    pool_.run(windows, [&](size_t w, int) {
      std::vector<u32> count(buckets + 1, 0);  // by |digit|
      for (const short *d = &digits[w * n], *last = d + n; d < last; ++d) ++count[std::abs(*d)];
      std::copy(count.begin() + 1, count.end(), &offsets[w * buckets]);
    });
    size_t total = 0;
    for (size_t g = 0; g < windows * buckets; ++g) {
      const size_t count = offsets[g];
      offsets[g] = total;
      total += count;
    }
    offsets[windows * buckets] = total;
    std::pmr::vector<u32> entries(total, &scratch_);
    pool_.run(windows, [&](size_t w, int) {
      std::vector<size_t> next(&offsets[w * buckets], &offsets[w * buckets] + buckets);
      for (size_t i = 0; i < n; ++i) {
        const int d = digits[w * n + i];
        if (d != 0) entries[next[std::abs(d) - 1]++] = make_entry(i, d < 0);
      }
    });
    return entries;
  }

  // sum_b (b + 1) B_b for each window of 2^log_buckets buckets
  std::vector<XYZZ<F>> weigh(const std::pmr::vector<Affine<F>>& buckets, int windows, int log_buckets) {
    const int k = log_buckets / 2;
    const size_t columns = (size_t)1 << k, rows = (size_t)1 << (log_buckets - k), size = rows * columns;
    const size_t groups = rows + columns;
    std::vector<u32> entries;
    std::vector<size_t> offsets;
    entries.reserve(2 * buckets.size());
    offsets.reserve(windows * groups + 1);
    auto push = [&](size_t i) {
      if (!buckets[i].is_infinity()) entries.push_back(make_entry(i, false));
    };
    for (int w = 0; w < windows; ++w) {
      for (size_t row = 0; row < rows; ++row) {
        offsets.push_back(entries.size());
        for (size_t column = 0; column < columns; ++column) push(w * size + row * columns + column);
      }
      for (size_t column = 0; column < columns; ++column) {
        offsets.push_back(entries.size());
        for (size_t row = 0; row < rows; ++row) push(w * size + row * columns + column);
      }
    }
    offsets.push_back(entries.size());
    std::vector<Affine<F>> sums(windows * groups);
    sums_.run(In<Affine<F>>(reinterpret_cast<const u8*>(buckets.data())), entries.data(), offsets.data(), sums.size(),
              sums.data());
    std::vector<XYZZ<F>> totals(windows);
    pool_.run(windows, [&](size_t w, int) {
      const Affine<F>* r = &sums[w * groups];
      XYZZ<F> total = running_sum(r + 1, rows - 1);  // row 0 has weight 0
      for (int i = 0; i < k; ++i) total = total.dbl();
      totals[w] = total.add(running_sum(r + rows, columns));
    });
    return totals;
  }

  // sum_i (i + 1) p[i]
  static XYZZ<F> running_sum(const Affine<F>* p, size_t n) {
    XYZZ<F> tail = XYZZ<F>::infinity(), total = tail;
    for (size_t i = n; i-- > 0;) {
      tail = tail.add(p[i]);
      total = total.add(tail);
    }
    return total;
  }

  const u8* address(size_t i) const { return base_ + i * sizeof(Affine<F>); }

  Pool& pool_;
  GroupedSum<F> sums_;
  const u8* base_;
  In<Affine<F>> points_;
  const u8* scalars_;
  std::pmr::monotonic_buffer_resource scratch_;
};

}  // namespace dp
