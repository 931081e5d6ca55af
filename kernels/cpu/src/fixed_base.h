// scalars[i] * base for one base: a table of multiples d 2^(c w) base, then for each scalar one addition per window, the
// additions of many scalars batched (batch_add.h), so that the results come out affine.
#pragma once
#include <vector>

#include "batch_add.h"
#include "threads.h"
#include "views.h"

namespace dp {

template <class Fr, class F>
class FixedBase {
 public:
  FixedBase(Pool& pool, const Affine<F>& base, size_t n) : pool_(pool) {
    c_ = choose_window(n);
    windows_ = (Fr::Params::BITS + c_ - 1) / c_;
    build(base);
  }

  // The multiples d 2^(c w) base for each d below 2^c and each w below `windows`, in this order.
  static std::vector<Affine<F>> multiples(Pool& pool, const Affine<F>& base, int c, int windows) {
    FixedBase made(pool, c, windows);
    made.build(base);
    return std::move(made.table_);
  }

  // scalars: canonical integers
  void run(const u8* scalars, size_t n, u8* out) const {
    pool_.ranges((n + BLOCK - 1) / BLOCK, 1, [&](size_t begin, size_t end) {
      std::vector<F> suffix(BLOCK + 1);
      std::vector<Affine<F>> sums(BLOCK);
      for (size_t k = begin; k < end; ++k) {
        const size_t first = k * BLOCK, count = std::min(BLOCK, n - first);
        for (size_t i = 0; i < count; ++i) sums[i] = entry(0, digit(scalars, first + i, 0));
        for (int w = 1; w < windows_; ++w) {
          batch_add(
              count, suffix.data(),
              [&](size_t i, auto& a, auto& b) {
                take(sums[i], a);
                take(entry(w, digit(scalars, first + i, w)), b);
              },
              [&](size_t i, const Affine<F>& sum) { sums[i] = sum; });
        }
        for (size_t i = 0; i < count; ++i) Out<Affine<F>>(out).put(first + i, sums[i]);
      }
    });
  }

 private:
  FixedBase(Pool& pool, int c, int windows) : pool_(pool), c_(c), windows_(windows) {}

  static constexpr size_t BLOCK = 1024;
  static constexpr int MAX_WINDOW = 14;  // BLS12-381 G2: 19 windows of 2^14 points of 192 bytes, 60 MB

  // Additions: 2^c for each window of the table, one for each window of a scalar.
  static int choose_window(size_t n) {
    int best = 1;
    for (int c = 2; c <= MAX_WINDOW; ++c)
      if (cost(n, c) < cost(n, best)) best = c;
    return best;
  }
  static size_t cost(size_t n, int c) { return (n + ((size_t)1 << c)) * (size_t)((Fr::Params::BITS + c - 1) / c); }

  const Affine<F>& entry(int window, size_t d) const { return table_[((size_t)window << c_) + d]; }

  size_t digit(const u8* scalars, size_t i, int window) const {
    const Fr s = In<Fr>(scalars)[i];
    const int bit = c_ * window, word = bit / 64, shift = bit % 64;
    u64 d = s.v[word] >> shift;
    if (shift + c_ > 64 && word + 1 < Fr::N) d |= s.v[word + 1] << (64 - shift);
    return d & (((u64)1 << c_) - 1);
  }

  void build(const Affine<F>& base) {
    table_.assign((size_t)windows_ << c_, Affine<F>::infinity());
    XYZZ<F> power = XYZZ<F>::from_affine(base);
    for (int w = 0; w < windows_; ++w) {
      table_[((size_t)w << c_) + 1] = power.to_affine();
      for (int k = 0; k < c_; ++k) power = power.dbl();
    }
    // multiples m to 2m - 1 from those below: m = m/2 + m/2, m + j = m + j
    pool_.ranges(windows_, 1, [&](size_t begin, size_t end) {
      std::vector<F> suffix(((size_t)1 << c_) + 1);
      for (size_t w = begin; w < end; ++w) {
        Affine<F>* t = &table_[w << c_];
        for (size_t m = 2; m < (size_t)1 << c_; m *= 2) {
          t[m] = XYZZ<F>::from_affine(t[m / 2]).dbl().to_affine();
          batch_add(
              m - 1, suffix.data(),
              [&](size_t i, auto& a, auto& b) {
                take(t[m], a);
                take(t[i + 1], b);
              },
              [&](size_t i, const Affine<F>& sum) { t[m + i + 1] = sum; });
        }
      }
    });
  }

  Pool& pool_;
  int c_ = 1, windows_ = 0;
  std::vector<Affine<F>> table_;
};

}  // namespace dp
