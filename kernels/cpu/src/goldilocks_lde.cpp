// Low-degree extensions, column by column: a column is interpolated into the memory of the last coset, then evaluated on
// each coset from there, on the last one in place. With fewer columns than threads the outermost stages are cut across
// the threads instead.
#include "goldilocks_lde.h"

#include "field/goldilocks.h"

namespace dp {

namespace {

// roots[h + j] = shift^(n / 2h) w_2h^j, see goldilocks_ntt.h; w_n = root. roots[0] is not used.
std::vector<u64> root_table(const GoldilocksOps& ops, int log_n, u64 root, u64 shift) {
  const size_t n = (size_t)1 << log_n;
  std::vector<u64> roots(std::max<size_t>(n, 2));
  const auto multiply = [&](const u64* a, const u64* b, size_t step, u64* out, size_t count) {
    const GoldilocksOps& which = count % ops.lanes == 0 ? ops : GOLDILOCKS_PORTABLE;
    which.mul(a, b, step, out, count);
  };
  if (n == 1) return roots;
  u64* const last = roots.data() + n / 2;
  last[0] = shift;
  u64 power = root;
  for (size_t m = 1; m < n / 2; m *= 2, power = gl::sqr(power)) multiply(last, &power, 0, last + m, m);
  // (shift^(n / 2h) w_2h^j)^2 = shift^(n / h) w_h^j
  for (size_t h = n / 4; h >= 1; h /= 2) multiply(roots.data() + 2 * h, roots.data() + 2 * h, 1, roots.data() + h, h);
  return roots;
}

class Lde {
 public:
  Lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call)
      : pool_(pool),
        c_(call),
        n_((size_t)1 << call.log_n),
        ops_(n_ >= 8 * ops.lanes ? ops : GOLDILOCKS_PORTABLE),
        scale_(gl::inverse(n_ % gl::P)),
        inverse_(root_table(ops, call.log_n, gl::inverse(call.root), 1)),
        forward_(call.cosets) {
    pool.run(call.cosets, [&](size_t k, int) { forward_[k] = root_table(ops, call.log_n, call.root, call.shifts[k]); });
  }

  void run() {
    // each round cuts a column into four pieces more; the pieces must stay worth a thread's while
    while ((c_.width << (2 * rounds_)) < 2 * (size_t)pool_.threads() && c_.log_n - 2 * rounds_ >= 12) ++rounds_;
    if (pool_.threads() > 1 && rounds_ > 0)
      across_threads();
    else
      pool_.run(c_.width, [&](size_t column, int) { one_column(column); });
  }

 private:
  const u64* in(size_t column) const { return c_.columns + column * n_; }
  u64* out(size_t column, size_t coset) const { return c_.out + (column * c_.cosets + coset) * n_; }

  void one_column(size_t column) const {
    u64* coefficients = out(column, c_.cosets - 1);
    ops_.inverse(in(column), coefficients, c_.log_n, inverse_.data(), scale_);
    for (size_t k = 0; k < c_.cosets; ++k)
      ops_.forward(coefficients, out(column, k), c_.log_n, forward_[k].data(), true);
  }

  void across_threads() const {
    for (int round = 0; round < rounds_; ++round)
      cut(round, c_.width, [&](size_t column, size_t block, size_t quarter, size_t begin, size_t end) {
        u64* to = out(column, c_.cosets - 1) + block;
        ops_.inverse_pass(round ? to : in(column) + block, to, quarter, begin, end, inverse_.data());
      });
    const size_t pieces = (size_t)1 << (2 * rounds_), piece = n_ / pieces;
    const int log_piece = c_.log_n - 2 * rounds_;
    pool_.run(c_.width * pieces, [&](size_t task, int) {
      u64* data = out(task / pieces, c_.cosets - 1) + task % pieces * piece;
      ops_.inverse(data, data, log_piece, inverse_.data(), scale_);
    });
    // the last coset overwrites the coefficients that the others are made from
    pool_.run(c_.width * pieces, [&](size_t task, int) {
      const size_t column = task / pieces, at = task % pieces * piece;
      for (size_t k = 0; k < c_.cosets; ++k)
        ops_.forward(out(column, c_.cosets - 1) + at, out(column, k) + at, log_piece, forward_[k].data(), false);
    });
    for (int round = rounds_ - 1; round >= 0; --round)
      cut(round, c_.width * c_.cosets, [&](size_t i, size_t block, size_t quarter, size_t begin, size_t end) {
        const size_t k = i % c_.cosets;
        ops_.forward_pass(out(i / c_.cosets, k) + block, quarter, begin, end, forward_[k].data(), round == 0);
      });
  }

  // body(vector, start of a block, a quarter of its length, begin, end) over all blocks of a round in each of `vectors`.
  template <class Body>
  void cut(int round, size_t vectors, const Body& body) const {
    constexpr size_t RANGE = 1024;
    const size_t blocks = (size_t)1 << (2 * round), quarter = n_ / blocks / 4;
    const size_t range = std::min(RANGE, quarter), ranges = quarter / range;
    pool_.run(vectors * blocks * ranges, [&](size_t task, int) {
      const size_t begin = task % ranges * range, block = task / ranges;
      body(block / blocks, block % blocks * 4 * quarter, quarter, begin, begin + range);
    });
  }

  Pool& pool_;
  const LdeCall& c_;
  size_t n_;
  const GoldilocksOps& ops_;
  u64 scale_;
  std::vector<u64> inverse_;
  std::vector<std::vector<u64>> forward_;
  int rounds_ = 0;
};

}  // namespace

void goldilocks_lde(Pool& pool, const GoldilocksOps& ops, const LdeCall& call) { Lde(pool, ops, call).run(); }

}  // namespace dp
