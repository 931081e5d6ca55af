// Low-degree extensions, column by column: a column is interpolated into the memory of the last coset, then evaluated on
// each coset from there, on the last one in place. A coset that the columns are given on takes a copy of them. With fewer
// columns than threads the outermost stages are cut across the threads instead.
#include "goldilocks_lde.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "field/goldilocks.h"
#include "goldilocks_ntt.h"

namespace dp {

namespace {

// The factors of every pass, as goldilocks_ntt.h wants them for values on shift * <root>. roots[0] is not used.
std::vector<u64> root_table(const GoldilocksOps& ops, int log_n, u64 root, u64 shift) {
  const size_t n = (size_t)1 << log_n;
  std::vector<u64> roots(n);
  const auto multiply = [&](const u64* a, const u64* b, size_t step, u64* out, size_t count) {
    const GoldilocksOps& which = count % ops.lanes == 0 ? ops : GOLDILOCKS_PORTABLE;
    which.mul(a, b, step, out, count);
  };
  const NttPasses passes(log_n);
  std::vector<u64> powers[16];  // powers[m][j] = v_j^m
  for (int i = passes.count() - 1; i >= 0; --i) {
    const size_t h = (size_t)1 << passes.log_block(i), joined = (size_t)1 << passes.digit(i), lanes = std::min(ops.lanes, h);
    for (size_t m = 1; m < joined; ++m) powers[m].resize(h);
    u64* const v = powers[1].data();
    if (i == passes.count() - 1) {
      v[0] = shift;
      u64 power = root;
      for (size_t m = 1; m < h; m *= 2, power = gl::sqr(power)) multiply(v, &power, 0, v + m, m);
    }
    for (size_t m = 2; m < joined; ++m) multiply(powers[m - 1].data(), v, 1, powers[m].data(), h);
    u64* to = roots.data() + h;
    for (size_t j = 0; j < h; j += lanes)
      for (size_t k = 1; k < joined; ++k, to += lanes) {
        size_t reversed = 0;
        for (size_t bit = 1; bit < joined; bit *= 2) reversed = 2 * reversed + (k & bit ? 1 : 0);
        std::copy_n(powers[reversed].data() + j, lanes, to);
      }
    // (s^(n / Rh) w_Rh^j)^R = s^(n / h) w_h^j
    if (i) multiply(powers[joined - 1].data(), v, 1, v, (size_t)1 << passes.log_block(i - 1));
  }
  return roots;
}

// Tables of earlier calls, the newest last: a proof extends by the same ones again and again.
class RootTables {
 public:
  using Table = std::shared_ptr<const std::vector<u64>>;

  Table get(const GoldilocksOps& ops, int log_n, u64 root, u64 shift) {
    const auto same = [&](const Entry& e) {
      return e.lanes == ops.lanes && e.log_n == log_n && e.root == root && e.shift == shift;
    };
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto at = std::find_if(kept_.begin(), kept_.end(), same);
      if (at != kept_.end()) {
        std::rotate(at, at + 1, kept_.end());
        return kept_.back().table;
      }
    }
    const Table table = std::make_shared<const std::vector<u64>>(root_table(ops, log_n, root, shift));
    std::lock_guard<std::mutex> lock(mutex_);
    kept_.push_back({ops.lanes, log_n, root, shift, table});
    words_ += table->size();
    while (words_ > MOST_WORDS) {
      words_ -= kept_.front().table->size();
      kept_.pop_front();
    }
    return table;
  }

 private:
  static constexpr size_t MOST_WORDS = 1 << 22;  // 32 MiB
  struct Entry {
    size_t lanes;
    int log_n;
    u64 root, shift;
    Table table;
  };
  std::mutex mutex_;
  std::deque<Entry> kept_;
  size_t words_ = 0;
};

RootTables root_tables;

// Raises std::invalid_argument unless the roots within a pass are the powers of two that the passes take them for.
u64 checked(u64 root, int log_n) {
  const int level = std::min(log_n, 4);
  if (gl::pow(root, (u64)1 << (log_n - level)) != gl::pow(2, NttPasses::LOG_ROOT * (16 >> level)))
    throw std::invalid_argument("root: not the power of 7 that the transforms are made for");
  return root;
}

class Lde {
 public:
  Lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call)
      : pool_(pool),
        c_(call),
        n_((size_t)1 << call.log_n),
        ops_(n_ >= 8 * ops.lanes ? ops : GOLDILOCKS_PORTABLE),
        scale_(gl::inverse(n_ % gl::P)),
        inverse_(root_tables.get(ops_, call.log_n, gl::inverse(checked(call.root, call.log_n)), 1)),
        forward_(call.cosets) {
    pool.run(call.cosets, [&](size_t k, int) {
      if (!given(k)) forward_[k] = root_tables.get(ops_, call.log_n, call.root, call.shifts[k]);
    });
  }

  void run() {
    // each round cuts a column into eight pieces more; the pieces must stay worth a thread's while
    while ((c_.width << (3 * rounds_)) < 2 * (size_t)pool_.threads() && c_.log_n - 3 * rounds_ >= 13) ++rounds_;
    if (pool_.threads() > 1 && rounds_ > 0)
      across_threads();
    else
      pool_.run(c_.width, [&](size_t column, int) { one_column(column); });
  }

 private:
  const u64* in(size_t column) const { return c_.columns + column * n_; }
  u64* out(size_t column, size_t coset) const { return c_.out + (column * c_.cosets + coset) * n_; }
  // Whether the columns are the values on this coset. In place they have become coefficients by then.
  bool given(size_t coset) const { return c_.shifts[coset] == 1 && c_.out != c_.columns; }
  void copy(size_t column, size_t coset) const { std::copy_n(in(column), n_, out(column, coset)); }

  void one_column(size_t column) const {
    u64* coefficients = out(column, c_.cosets - 1);
    ops_.inverse(in(column), coefficients, c_.log_n, inverse_->data(), scale_);
    for (size_t k = 0; k < c_.cosets; ++k)
      given(k) ? copy(column, k) : ops_.forward(coefficients, out(column, k), c_.log_n, forward_[k]->data(), true);
  }

  void across_threads() const {
    for (int round = 0; round < rounds_; ++round)
      cut(round, c_.width, [&](size_t column, size_t block, size_t eighth, size_t begin, size_t end) {
        u64* to = out(column, c_.cosets - 1) + block;
        ops_.inverse_pass(round ? to : in(column) + block, to, eighth, begin, end, inverse_->data());
      });
    const size_t pieces = (size_t)1 << (3 * rounds_), piece = n_ / pieces;
    const int log_piece = c_.log_n - 3 * rounds_;
    pool_.run(c_.width * pieces, [&](size_t task, int) {
      u64* data = out(task / pieces, c_.cosets - 1) + task % pieces * piece;
      ops_.inverse(data, data, log_piece, inverse_->data(), scale_);
    });
    // the last coset overwrites the coefficients that the others are made from
    pool_.run(c_.width * pieces, [&](size_t task, int) {
      const size_t column = task / pieces, at = task % pieces * piece;
      for (size_t k = 0; k < c_.cosets; ++k)
        if (!given(k))
          ops_.forward(out(column, c_.cosets - 1) + at, out(column, k) + at, log_piece, forward_[k]->data(), false);
    });
    for (int round = rounds_ - 1; round >= 0; --round)
      cut(round, c_.width * c_.cosets, [&](size_t i, size_t block, size_t eighth, size_t begin, size_t end) {
        const size_t k = i % c_.cosets;
        if (!given(k))
          ops_.forward_pass(out(i / c_.cosets, k) + block, eighth, begin, end, forward_[k]->data(), round == 0);
      });
    pool_.run(c_.width * c_.cosets, [&](size_t i, int) {
      if (given(i % c_.cosets)) copy(i / c_.cosets, i % c_.cosets);
    });
  }

  // body(vector, start of a block, an eighth of its length, begin, end) over all blocks of a round in each of `vectors`.
  template <class Body>
  void cut(int round, size_t vectors, const Body& body) const {
    constexpr size_t RANGE = 1024;
    const size_t blocks = (size_t)1 << (3 * round), eighth = n_ / blocks / 8;
    const size_t range = std::min(RANGE, eighth), ranges = eighth / range;
    pool_.run(vectors * blocks * ranges, [&](size_t task, int) {
      const size_t begin = task % ranges * range, block = task / ranges;
      body(block / blocks, block % blocks * 8 * eighth, eighth, begin, begin + range);
    });
  }

  Pool& pool_;
  const LdeCall& c_;
  size_t n_;
  const GoldilocksOps& ops_;
  u64 scale_;
  RootTables::Table inverse_;
  std::vector<RootTables::Table> forward_;
  int rounds_ = 0;
};

}  // namespace

NttRoots ntt_roots(const GoldilocksOps& ops, int log_n, u64 root, u64 shift) {
  return root_tables.get(ops, log_n, checked(root, log_n), shift);
}

void goldilocks_lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call) { Lde(pool, ops, call).run(); }

}  // namespace dp
