#include "multilinear_lanes.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

namespace dp {

namespace {

using gl::Ext;
using namespace gl::steps;
using rows::MultilinearKernels;
using rows::Out;
using rows::Vectors;

constexpr size_t GRAIN = 1 << 11;  // items; below, waking a thread costs more than it saves
constexpr size_t BLOCK = 256;      // items of a block whose values stay in the first-level cache

// body(first, count) for neighbouring items below `items`, a multiple of `lanes`, in blocks that never cross a multiple of
// `within`, a power of two and a multiple of `lanes`.
template <class Body>
void blocks(Pool& pool, size_t items, size_t within, const Body& body) {
  const size_t block = std::min(within, BLOCK);
  pool.ranges((items + block - 1) / block, std::max<size_t>(1, GRAIN / block), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) body(i * block, std::min(block, items - i * block));
  });
}

size_t whole(size_t items, size_t lanes) { return items - items % lanes; }

Ranges rest(size_t done, size_t items) {
  if (done == items) return {};
  return {{done, items}};
}

// What a block adds to, which is added to the total when the blocks of a thread are done: `count` sums, lane by lane.
class Sums {
 public:
  Sums(const Lanes& lanes, size_t count) : lanes_(lanes.kernels->lanes), total_(count, gl::embed(0)) {}

  std::vector<u64> own() const { return std::vector<u64>(total_.size() * 3 * lanes_, 0); }
  void add(const std::vector<u64>& own) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < total_.size(); ++i)
      for (size_t c = 0; c < 3; ++c)
        for (size_t l = 0; l < lanes_; ++l) total_[i].c[c] = gl::add(total_[i].c[c], own[(3 * i + c) * lanes_ + l]);
  }
  void add_to(std::vector<Ext>& total) const {
    for (size_t i = 0; i < total_.size(); ++i) total[i] = gl::add(total[i], total_[i]);
  }

 private:
  size_t lanes_;
  std::vector<Ext> total_;
  std::mutex mutex_;
};

// As `blocks`, with sums: body(first, count, sums).
template <class Body>
void summed(const Lanes& lanes, size_t items, size_t within, Sums& sums, const Body& body) {
  const size_t block = std::min(within, BLOCK);
  lanes.pool.ranges((items + block - 1) / block, std::max<size_t>(1, GRAIN / block), [&](size_t begin, size_t end) {
    std::vector<u64> own = sums.own();
    for (size_t i = begin; i < end; ++i) body(i * block, std::min(block, items - i * block), own.data());
    sums.add(own);
  });
}

// A vector of weights that are products of an entry of a table and a factor that is the same for many neighbours.
struct Weights {
  const u64 *low, *high;  // elements side by side; `high` is null without a factor
  size_t low_count;       // a power of two

  static Weights of(const Products& products) { return {products.low, products.high, (size_t)1 << products.log_low}; }
  static Weights of(const RowWeights& weights, u64 first) {
    if (first >= weights.middle) {
      const size_t count = (size_t)1 << (weights.end - first);
      return {weights.high + 3 * count, nullptr, count};
    }
    const size_t count = (size_t)1 << (weights.middle - first);
    return {weights.low + 3 * count, weights.high + (3ull << (weights.end - weights.middle)), count};
  }
  const u64* at(size_t j) const { return low + 3 * (j & (low_count - 1)); }
  Ext factor(size_t j) const { return high ? side_by_side(high + 3 * (j / low_count)) : gl::embed(1); }
};

}  // namespace

const MultilinearKernels* multilinear_kernels(const std::string& set) {
#if DP_X86_VECTORS
  if (set == "avx2") return &rows::AVX2_MULTILINEAR;
  if (set == "avx512" && __builtin_cpu_supports("avx512dq")) return &rows::AVX512_MULTILINEAR;
  if (set == "avx512") return &rows::AVX2_MULTILINEAR;
#endif
  (void)set;
  return nullptr;
}

Ranges Lanes::each(const Tabulate& step, size_t items) const {
  const Weights table = Weights::of(step.table);
  if (!kernels || table.low_count < kernels->lanes) return {{0, items}};
  const size_t done = whole(items, kernels->lanes);
  blocks(pool, done, table.low_count, [&](size_t j, size_t count) {
    kernels->tabulate(table.at(j), table.factor(j), count, step.add_to != 0, {step.out + j, step.pitch});
  });
  return rest(done, items);
}

Ranges Lanes::each(const Layer& step, size_t items) const {
  if (!kernels) return {{0, items}};
  const size_t done = whole(std::min<size_t>(items, step.n / 2), kernels->lanes);
  const size_t pitch = 2 * step.n, above = 2 * step.half;
  blocks(pool, done, BLOCK, [&](size_t j, size_t count) {
    const u64* const p = step.in + 2 * j;
    u64* const out = step.out + j;
    kernels->layer({p, pitch}, {p + step.n, pitch}, count, {out, above}, {out + step.half, above});
  });
  return rest(done, items);
}

// Copies.
Ranges Lanes::each(const Leaves& step, size_t items) const {
  const size_t n = (size_t)1 << step.log_n, total = step.total;
  pool.ranges(items, GRAIN, [&](size_t begin, size_t end) {
    while (begin < end) {
      const size_t j = begin & (n - 1), count = std::min(n - j, end - begin);
      const u64* const place = step.places + 2 * (begin >> step.log_n);
      const u64 *const numerators = step.found + place[0] * n + j, *const denominators = step.found + (step.uses + 3 * place[0]) * n + j;
      u64* const out = step.out + place[1] + j;
      std::memcpy(out, numerators, count * sizeof(u64));
      for (size_t c = 1; c < 3; ++c) std::memset(out + 2 * c * total, 0, count * sizeof(u64));
      for (size_t c = 0; c < 3; ++c) std::memcpy(out + (2 * c + 1) * total, denominators + c * n, count * sizeof(u64));
      begin += count;
    }
  });
  return {};
}

// Copies, but for selectors and for what wraps around.
Ranges Lanes::each(const FurtherCells& step, size_t items) const {
  Ranges left;
  for (size_t t = 0; t < step.count; ++t) {
    const u64 *const table = step.tables + t * FurtherCells::WORDS, *const next = step.tables + table[4];
    u64* const cells = reinterpret_cast<u64*>(table[0]);
    const size_t n = (size_t)1 << table[1], moved = table[3], first = table[5];
    const size_t end = t + 1 < step.count ? step.tables[(t + 1) * FurtherCells::WORDS + 5] : items;
    pool.ranges(moved, std::max<size_t>(1, GRAIN / n), [&](size_t from, size_t to) {
      for (size_t k = from; k < to; ++k) {
        const u64* const column = cells + next[k] * n;
        u64* const out = cells + (table[2] + k) * n;
        std::memcpy(out, column + 1, (n - 1) * sizeof(u64));
        out[n - 1] = column[0];
      }
    });
    if (first + moved * n < end) left.push_back({first + moved * n, end});
  }
  return left;
}

Ranges Lanes::each(const RowFold& step, size_t items) const {
  if (!kernels) return {{0, items}};
  const Ext r = step.state->drawn[step.state->round];
  const size_t done = whole(std::min<size_t>(items, step.kept), kernels->lanes);
  blocks(pool, done, BLOCK, [&](size_t j, size_t count) {
    kernels->between({step.in + 2 * j, step.n}, r, count, {step.out + j, step.kept});
  });
  return rest(done, items);
}

Ranges Lanes::each(const Fold& step, size_t items) const {
  if (!kernels || step.half == 0) return {{0, items}};
  const Ext r = load(step.drawn, 1);
  const size_t done = whole(step.half, kernels->lanes);
  Ranges left;
  for (size_t k = 0; k < items / step.half; ++k) {
    blocks(pool, done, BLOCK, [&](size_t j, size_t count) {
      kernels->fold({step.in + k * step.apart + 2 * j, step.pitch}, r, count,
                    {step.out + k * (step.apart / 2) + j, step.pitch / 2});
    });
    if (done < step.half) left.push_back({k * step.half + done, (k + 1) * step.half});
  }
  return left;
}

Ranges Lanes::each(const OpenedWeights& step, size_t items) const {
  const size_t rows = (size_t)1 << step.log_rows, entries = items / rows, total = step.total;
  const Weights eq = Weights::of(step.eq);
  if (!kernels || eq.low_count < kernels->lanes) return {{0, items}};
  // eq, and what a next column's correction has: (eq(x - 1) - eq(x)) last
  std::vector<u64> here(3 * rows), corrections;
  blocks(pool, rows, eq.low_count, [&](size_t j, size_t count) {
    kernels->tabulate(eq.at(j), eq.factor(j), count, false, {here.data() + j, rows});
  });
  const auto factors = [&](size_t entry, size_t k) { return side_by_side(step.entries + 7 * entry + k); };
  const auto zero = [](const Ext& x) { return (x.c[0] | x.c[1] | x.c[2]) == 0; };
  for (size_t entry = 0; entry < entries && corrections.empty(); ++entry)
    if (!zero(factors(entry, 4))) corrections.resize(3 * rows);
  if (!corrections.empty()) {
    for (size_t c = 0; c < 3; ++c)
      for (size_t x = 0; x < rows; ++x)
        corrections[c * rows + x] = gl::sub(here[c * rows + ((x - 1) & (rows - 1))], here[c * rows + x]);
    kernels->scale({corrections.data(), rows}, step.last, rows, {corrections.data(), rows});
  }
  blocks(pool, entries * rows, rows, [&](size_t i, size_t count) {
    const size_t entry = i >> step.log_rows, x = i & (rows - 1);
    const Ext factor = factors(entry, 1), after = factors(entry, 4);
    u64* const at = step.out + step.entries[7 * entry] + x;
    kernels->scale({here.data() + x, rows}, factor, count, {at, total});
    if (zero(after)) return;
    kernels->scale({here.data() + x, rows}, after, count, {at + 3 * total, total});
    kernels->scale({corrections.data() + x, rows}, after, count, {at + 6 * total, total});
  });
  return rest(entries * rows, items);
}

Ranges Lanes::each(const Expand& step, size_t items) const {
  if (!kernels || step.log_low != 0) return {{0, items}};
  std::vector<Ext> factors;
  for (size_t k = 0; k < step.count; ++k) factors.push_back(side_by_side(step.low + 3 * k));
  const size_t done = whole(items, kernels->lanes);
  blocks(pool, done, BLOCK, [&](size_t j, size_t count) {
    kernels->combine({step.high + j, step.n}, 3 * step.n, factors.data(), factors.size(), count, {step.out + j, step.n});
  });
  return rest(done, items);
}

Ranges Lanes::each(const Between& step, size_t items) const {
  const size_t n = (size_t)1 << step.log_n;
  if (!kernels || n < kernels->lanes) return {{0, items}};
  blocks(pool, items, n, [&](size_t i, size_t count) {
    const size_t row = i >> step.log_n, j = i & (n - 1);
    kernels->between_base(step.in + 2 * i, step.at, step.points, count, step.out + (row * step.points << step.log_n) + j, n);
  });
  return {};
}

Ranges Lanes::sums(const Dot& step, size_t items, int, std::vector<Ext>& total) const {
  const Weights weights = Weights::of(step.weights);
  if (!kernels || weights.low_count < kernels->lanes) return {{0, items}};
  Sums sums(*this, 1);
  summed(*this, whole(items, kernels->lanes), weights.low_count, sums, [&](size_t j, size_t count, u64* own) {
    kernels->weigh({step.values + j, step.n}, weights.at(j), weights.factor(j), count, own);
  });
  sums.add_to(total);
  return rest(whole(items, kernels->lanes), items);
}

Ranges Lanes::sums(const RunSums& step, size_t items, int log_classes, std::vector<Ext>& total) const {
  const size_t size = (size_t)1 << log_classes, runs = items / size;
  if (!kernels || size < kernels->lanes || (u64)log_classes != step.log_run) return {{0, items}};
  const Weights weights = Weights::of(step.eq, 0);
  const size_t block = std::min<size_t>(weights.low_count, BLOCK / 4);
  std::mutex mutex;
  pool.ranges((runs + block - 1) / block, std::max<size_t>(1, GRAIN / (block * size)), [&](size_t begin, size_t end) {
    std::vector<u64> own(3 * size, 0);
    for (size_t i = begin; i < end; ++i) {
      const size_t x = i * block, count = std::min(block, runs - x);
      kernels->weigh_runs({step.values + size * x, step.n}, weights.at(x), weights.factor(x), count, size, own.data());
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t a = 0; a < size; ++a) total[a] = gl::add(total[a], load(own.data() + a, size));
  });
  return {};
}

Ranges Lanes::sums(const PointSums& step, size_t items, int, std::vector<Ext>& total) const {
  const Weights weights = Weights::of(step.eq, step.first);
  if (!kernels || weights.low_count < kernels->lanes) return {{0, items}};
  const size_t done = whole(items, kernels->lanes), own_sum = 3 * kernels->lanes;
  Sums sums(*this, step.points);
  summed(*this, done, weights.low_count, sums, [&](size_t j, size_t count, u64* own) {
    const Ext factor = weights.factor(j);
    for (size_t k = 0; k < step.points; ++k)
      kernels->weigh({step.values + k * step.n + j, step.points * step.n}, weights.at(j), factor, count, own + k * own_sum);
  });
  sums.add_to(total);
  return rest(done, items);
}

Ranges Lanes::sums(const PairRounds& step, size_t items, int, std::vector<Ext>& total) const {
  if (!kernels) return {{0, items}};
  Sums sums(*this, PairRounds::SUMS);
  Ranges left;
  const size_t begins[SCOPES] = {0, std::min<size_t>(step.first, items)}, ends[SCOPES] = {begins[1], items};
  for (size_t s = 0; s < SCOPES; ++s) {
    const PairRound& own = step.stacks[s];
    const size_t count = ends[s] - begins[s], done = whole(count, kernels->lanes), n = own.n;
    const Ext r = own.fold && done ? step.state->drawn[step.state->round - 1] : gl::embed(0);
    summed(*this, done, BLOCK, sums, [&](size_t j, size_t pairs, u64* to) {
      if (!own.fold) {
        kernels->pair_sums({own.in + 2 * j, n}, {own.in + 3 * n + 2 * j, n}, pairs, to);
        return;
      }
      const size_t half = n / 2;
      const Out v{own.folded + 2 * j, half}, u{own.folded + 3 * half + 2 * j, half};
      kernels->fold({own.in + 4 * j, n}, r, 2 * pairs, v);
      kernels->fold({own.in + 3 * n + 4 * j, n}, r, 2 * pairs, u);
      kernels->pair_sums(v.in(), u.in(), pairs, to);
    });
    if (done < count) left.push_back({begins[s] + done, ends[s]});
  }
  sums.add_to(total);
  return left;
}

Ranges Lanes::sums(const LayerRound& step, size_t items, int, std::vector<Ext>& total) const {
  if (!kernels) return {{0, items}};
  const LayerState& state = *step.rows.state;
  const Ext batch = state.batch, r = step.fold ? state.drawn[state.round - 1] : gl::embed(0);
  Sums sums(*this, LayerRound::SUMS);
  Ranges left;
  for (size_t scope = 0, first = 0; scope < step.rows.scopes; ++scope) {
    const Segment& segment = step.in[scope];
    const size_t pairs = step.pairs(scope), n = segment.n, half = step.length(scope);
    const gl::steps::LayerRows& all = step.rows;
    const Weights weights = Weights::of(RowWeights{all.eq, all.high(scope), all.middle(), all.rows()}, state.round + 1);
    // Items all of whose fractions are stored.
    const size_t stored = (segment.folded ? n : n / 2) / (step.fold ? 4 : 2);
    const size_t done = weights.low_count < kernels->lanes ? 0 : whole(std::min(stored, pairs), kernels->lanes);
    const size_t block = std::min<size_t>(weights.low_count, BLOCK / 4);
    summed(*this, done, block, sums, [&](size_t j, size_t count, u64* to) {
      u64 room[12 * BLOCK];
      const size_t rows_count = 2 * count, wide = step.fold ? 2 * rows_count : rows_count;
      rows::LayerRows rows{room, wide, 3 * wide};
      const size_t at = (step.fold ? 4 : 2) * j;  // the first row that is read
      if (!segment.folded) {
        const u64* const p = segment.in + 2 * at;
        kernels->unzip({p, 2 * n}, wide, rows[0], rows[1]);
        kernels->unzip({p + n, 2 * n}, wide, rows[2], rows[3]);
      } else {
        rows = {const_cast<u64*>(segment.in) + at, 4 * n, n};
      }
      if (step.fold) {
        const rows::LayerRows folded{step.folded[scope] + 2 * j, 4 * half, half};
        for (size_t k = 0; k < 4; ++k) kernels->between(rows[k].in(), r, rows_count, folded[k]);
        rows = folded;
      }
      if (!segment.folded) kernels->add_scaled(rows[3].in(), batch, rows_count, rows[1]);
      kernels->layer_sums(rows, weights.at(j), weights.factor(j), count, to);
    });
    if (done < pairs) left.push_back({first + done, first + pairs});
    first += pairs;
  }
  sums.add_to(total);
  return left;
}

}  // namespace dp
