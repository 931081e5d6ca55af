#include "goldilocks_rows.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "goldilocks_branchless.h"

namespace dp {
namespace rows {

namespace {

// Rows of a block of the interpreter: at most this many, fewer when a program keeps so many values alive that they would
// take more than PROGRAM_WORDS. Measured: short blocks lose more by the steps' dispatch than long ones by leaving the
// second-level cache (60,000 steps, 2,567 slots, AVX-512: 1.07 ns a step and row with 16 rows, 0.61 with 64, 0.58 with 128).
constexpr size_t PROGRAM_ROWS = 128;
constexpr size_t PROGRAM_WORDS = 1 << 19;
constexpr size_t LEAST_ROWS = 16;

// Columns and rows that `deep` gathers before it multiplies them.
constexpr size_t DEEP_COLUMNS = 64;
constexpr size_t DEEP_ROWS = 64;

// Columns and rows that `evaluate_at` gathers before it multiplies them.
constexpr size_t OPENING_COLUMNS = 2;
constexpr size_t OPENING_ROWS = 1024;
static_assert(OPENING_ROWS <= MAX_TERMS, "the rows of a block are summed before they are reduced");

// Rows that a thread takes at a time.
constexpr size_t TASK_ROWS = 1024;

// Words aligned to a cache line, uninitialised.
class Scratch {
 public:
  explicit Scratch(size_t words) : memory_(new u64[words + 8]) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.get());
    start_ = memory_.get() + (64 - at % 64) % 64 / sizeof(u64);
  }
  u64* get() { return start_; }

 private:
  std::unique_ptr<u64[]> memory_;
  u64* start_;
};

std::vector<Scratch> scratch_per_thread(const Pool& pool, size_t words) {
  std::vector<Scratch> all;
  all.reserve(pool.threads());
  for (int i = 0; i < pool.threads(); ++i) all.emplace_back(words);
  return all;
}

u64 root_of_unity(int log_n) { return gl::pow(gl::GENERATOR, (gl::P - 1) >> log_n); }

std::vector<u64> powers_of(u64 base, size_t count) {
  std::vector<u64> all(count);
  u64 power = 1;
  for (u64& p : all) {
    p = power;
    power = gl::mul(power, base);
  }
  return all;
}

Ext negated(const Ext& a) { return {{gl::neg(a.c[0]), gl::neg(a.c[1]), gl::neg(a.c[2])}}; }

Ext power(Ext a, u64 exponent) {
  Ext result = gl::embed(1);
  for (; exponent; exponent >>= 1, a = gl::mul(a, a))
    if (exponent & 1) result = gl::mul(result, a);
  return result;
}

Pole pole_at(const Ext& z) {
  Pole pole{};
  pole.z0 = z.c[0];
  pole.a1 = gl::neg(z.c[1]);
  pole.a2 = gl::neg(z.c[2]);
  const u64 t = gl::add(pole.a1, pole.a2);
  pole.t_a1 = gl::mul(t, pole.a1);
  pole.t_a2 = gl::mul(t, pole.a2);
  pole.a1_a1 = gl::sqr(pole.a1);
  pole.twice_a1_a2 = gl::mul(gl::add(pole.a1, pole.a1), pole.a2);
  pole.fixed = gl::add(gl::mul(pole.a2, pole.t_a2), gl::mul(pole.a1, pole.a1_a1));
  return pole;
}

// The rows of all cosets, cut into tasks that never cross from one coset to another.
struct Tasks {
  size_t rows, per_coset, count;
  Tasks(size_t cosets, size_t n, size_t most) : rows(std::min(n, most)), per_coset(n / rows), count(cosets * per_coset) {}
  size_t coset(size_t task) const { return task / per_coset; }
  size_t first(size_t task) const { return task % per_coset * rows; }
};

}  // namespace

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all = {&SCALAR_KERNELS};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) all.push_back(&AVX2_KERNELS);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) all.push_back(&AVX512_KERNELS);
#endif
  return all;
}

const Kernels& kernels_named(const char* name) {
  for (const Kernels* kernels : all_kernels())
    if (std::strcmp(name, kernels->name) == 0) return *kernels;
  throw std::invalid_argument(std::string("no row kernels ") + name + " on this processor");
}

void RowOps::evaluate(const RowCode& code, const std::vector<Matrix>& inputs, const Ext* scalars, size_t cosets, size_t n,
                      const u64* factors, u64* out) const {
  const size_t live = code.slots() + 3;
  size_t rows = PROGRAM_ROWS;
  while (rows > LEAST_ROWS && rows * live > PROGRAM_WORDS) rows /= 2;
  const Tasks tasks(cosets, n, TASK_ROWS);
  rows = std::min(rows, tasks.rows);
  const Kernels& kernels = kernels_for(rows);

  const RowCode::Bound bound = code.bind(scalars);
  std::vector<Weight> weights(bound.fold_weights.size());
  kernels.split(bound.fold_weights.data(), weights.size(), weights.data());
  std::vector<size_t> strides;
  for (const Matrix& m : inputs) strides.push_back(m.cosets * m.n);

  std::vector<Scratch> scratch = scratch_per_thread(pool_, live * rows);
  pool_.run(tasks.count, [&](size_t task, int worker) {
    const size_t coset = tasks.coset(task);
    std::vector<const u64*> columns;
    for (const Matrix& m : inputs) columns.push_back(m.column(0, coset * (m.cosets / cosets)));
    Block block{};
    block.steps = code.steps().data();
    block.step_count = code.steps().size();
    block.uniforms = bound.uniforms.data();
    block.folded = code.folded().data();
    block.weights = weights.data();
    block.slots = scratch[worker].get();
    block.sum = code.folds() ? block.slots + code.slots() * rows : nullptr;
    block.matrices = columns.data();
    block.column_strides = strides.data();
    block.out = out + coset * n;
    block.out_stride = cosets * n;
    block.scaled = factors != nullptr;
    block.out_factor = factors ? factors[coset] : 1;
    block.rows = rows;
    block.n = n;
    for (size_t done = 0; done < tasks.rows; done += rows) {
      block.first = tasks.first(task) + done;
      if (block.sum)
        for (size_t k = 0; k < 3; ++k) std::fill_n(block.sum + k * rows, rows, bound.fold_start.c[k]);
      kernels.execute(block);
      const auto fill = [&](size_t column, u64 value) {
        std::fill_n(block.out + column * block.out_stride + block.first, rows, gl::mul(value, block.out_factor));
      };
      for (size_t i = 0; i < bound.fixed.size(); ++i)
        for (u32 k = 0; k < code.fixed_outputs()[i].width; ++k) fill(code.fixed_outputs()[i].column + k, bound.fixed[i].c[k]);
    }
  });
}

void RowOps::divide(const u64* a, const u64* b, u64* out, size_t m, size_t n) const {
  const Tasks tasks(m, n, INVERSION_ROWS);
  const Kernels& kernels = kernels_for(tasks.rows);
  pool_.run(tasks.count, [&](size_t task, int) {
    const size_t at = 3 * tasks.coset(task) * n + tasks.first(task);
    kernels.divide(a + at, b + at, out + at, n, tasks.rows);
  });
}

void RowOps::selectors(int log_n, int log_blowup, int log_cosets, u64* out) const {
  const size_t n = (size_t)1 << log_n, cosets = (size_t)1 << log_cosets;
  const Tasks tasks(cosets, n, INVERSION_ROWS);
  const Kernels& kernels = kernels_for(tasks.rows);
  const u64 root = root_of_unity(log_n), end = gl::inverse(root);
  const u64 step = gl::pow(root_of_unity(log_n + log_blowup), (u64)1 << (log_blowup - log_cosets));
  const std::vector<u64> powers = powers_of(root, tasks.rows);
  pool_.run(tasks.count, [&](size_t task, int) {
    const size_t first = tasks.first(task);
    const u64 shift = gl::mul(gl::GENERATOR, gl::pow(step, tasks.coset(task)));
    const u64 vanishing = gl::sub(gl::pow(shift, n), 1);
    const Points points{powers.data(), gl::mul(shift, gl::pow(root, first))};
    u64* column = out + tasks.coset(task) * n + first;
    kernels.selectors(points, vanishing, end, tasks.rows, column, column + cosets * n, column + 2 * cosets * n);
  });
}

Ext RowOps::running_sum(const u64* terms, size_t m, size_t n, u64* sums) const {
  const Tasks tasks(1, n, TASK_ROWS);
  const Kernels& kernels = kernels_for(tasks.rows);
  std::vector<Scratch> scratch = scratch_per_thread(pool_, 3 * tasks.rows);
  // Each task's own total first; then every task knows where it starts.
  std::vector<Ext> starts(tasks.count);
  pool_.run(tasks.count, [&](size_t task, int worker) {
    u64* sum = scratch[worker].get();
    kernels.sum_terms(terms + tasks.first(task), m, n, gl::embed(0), tasks.rows, sum);
    Ext total = gl::embed(0);
    for (size_t k = 0; k < 3; ++k)
      for (size_t i = 0; i < tasks.rows; ++i) total.c[k] = gl::branchless::add(total.c[k], sum[k * tasks.rows + i]);
    starts[task] = total;
  });
  Ext total = gl::embed(0);
  for (const Ext& t : starts) total = gl::add(total, t);
  const Ext share = negated(gl::mul(total, gl::inverse(n)));  // of one row
  const Ext task_share = gl::mul(share, (u64)tasks.rows);
  Ext running = gl::embed(0);
  for (Ext& start : starts) {
    const Ext own = start;
    start = running;
    running = gl::add(running, gl::add(own, task_share));
  }
  pool_.run(tasks.count, [&](size_t task, int worker) {
    u64* sum = scratch[worker].get();
    kernels.sum_terms(terms + tasks.first(task), m, n, share, tasks.rows, sum);
    for (size_t k = 0; k < 3; ++k) {
      u64 value = starts[task].c[k];
      u64* out = sums + k * n + tasks.first(task);
      for (size_t i = 0; i < tasks.rows; ++i) {
        out[i] = value;
        value = gl::branchless::add(value, sum[k * tasks.rows + i]);
      }
    }
  });
  return total;
}

// With x_j = 7 w^j: f(z) = (z^n - 7^n) / (n 7^n) sum_j f(x_j) x_j / (z - x_j), and since w z stands to x_j as z to x_{j-1},
// f(w z) has the same weights, one row on.
void RowOps::evaluate_at(const std::vector<Matrix>& matrices, const Ext& point, bool next_row, u64* out) const {
  std::vector<const u64*> all;  // coset 0 of every column
  for (const Matrix& m : matrices)
    for (size_t c = 0; c < m.width; ++c) all.push_back(m.column(c));
  const size_t columns = all.size();
  if (columns == 0) return;
  const size_t n = matrices[0].n, points = next_row ? 2 : 1;
  int log_n = 0;
  while ((size_t)1 << log_n < n) ++log_n;
  const Tasks tasks(1, n, TASK_ROWS);
  const size_t rows = std::min(tasks.rows, OPENING_ROWS);
  const Kernels& kernels = kernels_for(rows);
  const u64 root = root_of_unity(log_n);
  const std::vector<u64> powers = powers_of(root, tasks.rows);
  const Pole pole = pole_at(point);

  std::vector<Scratch> scratch = scratch_per_thread(pool_, 3 * tasks.rows + (OPENING_COLUMNS + 1) * rows);
  const auto accumulate = [&](const u64* column, const u64* weights, Ext& sum) {
    u64 lanes[3 * MAX_LANES];
    kernels.dot(column, weights, tasks.rows, rows, lanes);
    for (size_t k = 0; k < 3; ++k) {
      unsigned __int128 total = sum.c[k];
      for (size_t i = 0; i < kernels.lanes; ++i) total += lanes[k * kernels.lanes + i];
      sum.c[k] = gl::reduce128((u64)(total >> 64), (u64)total);
    }
  };
  std::vector<std::vector<Ext>> partial(pool_.threads(), std::vector<Ext>(columns * points, gl::embed(0)));
  pool_.run(tasks.count, [&](size_t task, int worker) {
    u64* weights = scratch[worker].get();
    u64* gathered = weights + 3 * tasks.rows;
    u64* shifted = gathered + OPENING_COLUMNS * rows;
    const Points xs{powers.data(), gl::mul(gl::GENERATOR, gl::pow(root, tasks.first(task)))};
    kernels.point_inverses(xs, pole, true, tasks.rows, weights);
    for (size_t done = 0; done < tasks.rows; done += rows) {
      const size_t first = tasks.first(task) + done;
      for (size_t begin = 0; begin < columns; begin += OPENING_COLUMNS) {
        const size_t count = std::min(OPENING_COLUMNS, columns - begin);
        const u64* parts[OPENING_COLUMNS];
        for (size_t c = 0; c < count; ++c) parts[c] = all[begin + c] + first;
        kernels.gather(parts, count, rows, gathered);
        for (size_t c = 0; c < count; ++c) {
          const u64* column = gathered + c * rows;
          Ext* sums = partial[worker].data() + (begin + c) * points;
          accumulate(column, weights + done, sums[0]);
          if (!next_row) continue;
          std::copy(column + 1, column + rows, shifted);
          shifted[rows - 1] = first + rows < n ? parts[c][rows] : all[begin + c][0];
          accumulate(shifted, weights + done, sums[1]);
        }
      }
    }
  });
  const u64 shift = gl::pow(gl::GENERATOR, n);
  // The weights were x / (x - z): minus those of the formula.
  const Ext vanishing = gl::sub(gl::embed(shift), power(point, n));
  const Ext scale = gl::mul(vanishing, gl::inverse(gl::mul(shift, (u64)n)));
  for (size_t i = 0; i < columns * points; ++i) {
    Ext sum = gl::embed(0);
    for (const std::vector<Ext>& p : partial) sum = gl::add(sum, p[i]);
    const Ext value = gl::mul(sum, scale);
    std::copy(value.c, value.c + 3, out + 3 * i);
  }
}

void RowOps::combine(const std::vector<Matrix>& matrices, const u64* weights, size_t n, u64* out) const {
  std::vector<const u64*> all;  // the first coset of every column
  for (const Matrix& m : matrices)
    for (size_t c = 0; c < m.width; ++c) all.push_back(m.column(c));
  const Tasks tasks(1, n, DEEP_ROWS);
  const size_t rows = tasks.rows;
  const Kernels& kernels = kernels_for(rows);
  std::vector<Weight> split(3 * all.size());
  kernels.split(weights, split.size(), split.data());

  std::vector<Scratch> scratch = scratch_per_thread(pool_, (DEEP_COLUMNS + 3) * rows);
  pool_.run(tasks.count, [&](size_t task, int worker) {
    u64* sum = scratch[worker].get();
    u64* gathered = sum + 3 * rows;
    std::fill_n(sum, 3 * rows, 0);
    const u64* columns[DEEP_COLUMNS];
    for (size_t begin = 0; begin < all.size(); begin += DEEP_COLUMNS) {
      const size_t count = std::min(DEEP_COLUMNS, all.size() - begin);
      for (size_t c = 0; c < count; ++c) columns[c] = all[begin + c] + tasks.first(task);
      kernels.gather(columns, count, rows, gathered);
      kernels.combine(gathered, count, split.data() + 3 * begin, rows, sum);
    }
    for (size_t k = 0; k < 3; ++k) std::copy_n(sum + k * rows, rows, out + k * n + tasks.first(task));
  });
}

void RowOps::deep(const std::vector<std::vector<Matrix>>& groups, const std::vector<Opening>& openings, size_t blowup,
                  size_t n, u64* out) const {
  const Tasks tasks(blowup, n, INVERSION_ROWS);
  const size_t rows = std::min(tasks.rows, DEEP_ROWS);
  const Kernels& kernels = kernels_for(rows);
  int log_n = 0, log_blowup = 0;
  while ((size_t)1 << log_n < n) ++log_n;
  while ((size_t)1 << log_blowup < blowup) ++log_blowup;
  const u64 root = root_of_unity(log_n), step = root_of_unity(log_n + log_blowup);
  const std::vector<u64> powers = powers_of(root, tasks.rows);

  std::vector<size_t> widths;
  for (const std::vector<Matrix>& group : groups) {
    widths.push_back(0);
    for (const Matrix& m : group) widths.back() += m.width;
  }
  std::vector<std::vector<Weight>> weights;
  size_t most = 0;  // openings of one group
  for (size_t first = 0; first < openings.size();) {
    size_t last = first;
    while (last < openings.size() && openings[last].group == openings[first].group) ++last;
    most = std::max(most, last - first);
    first = last;
  }
  // Several openings at one point share its inverses.
  std::vector<Ext> points;
  std::vector<Pole> poles;
  std::vector<size_t> pole_of;
  for (const Opening& o : openings) {
    size_t i = 0;
    while (i < points.size() && !std::equal(o.point.c, o.point.c + 3, points[i].c)) ++i;
    pole_of.push_back(i);
    if (i == points.size()) {
      points.push_back(o.point);
      poles.push_back(pole_at(o.point));
    }
    weights.emplace_back(3 * widths[o.group]);
    kernels.split(o.weights, weights.back().size(), weights.back().data());
  }

  const size_t inverse_words = 3 * tasks.rows * poles.size();
  std::vector<Scratch> scratch = scratch_per_thread(pool_, inverse_words + DEEP_COLUMNS * rows + 3 * rows * most);
  pool_.run(tasks.count, [&](size_t task, int worker) {
    const size_t coset = tasks.coset(task);
    u64* inverses = scratch[worker].get();
    u64* gathered = inverses + inverse_words;
    u64* sums = gathered + DEEP_COLUMNS * rows;
    const Points xs{powers.data(),
                    gl::mul(gl::mul(gl::GENERATOR, gl::pow(step, coset)), gl::pow(root, tasks.first(task)))};
    for (size_t p = 0; p < poles.size(); ++p)
      kernels.point_inverses(xs, poles[p], false, tasks.rows, inverses + 3 * tasks.rows * p);

    for (size_t done = 0; done < tasks.rows; done += rows) {
      const size_t at = tasks.first(task) + done;
      for (size_t first = 0; first < openings.size();) {
        size_t last = first;
        while (last < openings.size() && openings[last].group == openings[first].group) ++last;
        std::fill_n(sums, 3 * rows * (last - first), 0);

        const u64* columns[DEEP_COLUMNS];
        size_t count = 0, combined = 0;
        const auto combine = [&] {
          kernels.gather(columns, count, rows, gathered);
          for (size_t p = first; p < last; ++p)
            kernels.combine(gathered, count, weights[p].data() + 3 * combined, rows, sums + 3 * rows * (p - first));
          combined += count;
          count = 0;
        };
        for (const Matrix& m : groups[openings[first].group])
          for (size_t c = 0; c < m.width; ++c) {
            columns[count++] = m.column(c, coset) + at;
            if (count == DEEP_COLUMNS) combine();
          }
        combine();
        for (size_t p = first; p < last; ++p)
          kernels.add_quotient(sums + 3 * rows * (p - first), openings[p].value,
                               inverses + 3 * tasks.rows * pole_of[p] + done, tasks.rows, rows,
                               out + coset * n + at, blowup * n);
        first = last;
      }
    }
  });
}

void RowOps::fold(const u64* codeword, int log_blowup, int log_n, int log_arity, const Ext& beta, const u64* add,
                  u64* out) const {
  const size_t n = (size_t)1 << log_n, blowup = (size_t)1 << log_blowup, shorter = n >> log_arity;
  const Tasks tasks(blowup, shorter, TASK_ROWS);
  const Kernels& kernels = kernels_for(tasks.rows);
  const u64 root = gl::inverse(root_of_unity(log_n)), step = gl::inverse(root_of_unity(log_n + log_blowup));
  const std::vector<u64> powers = powers_of(root, tasks.rows);
  const std::vector<u64> twiddles =
      powers_of(gl::inverse(root_of_unity(log_arity)), ((size_t)1 << log_arity) / 2);
  Ext betas[MAX_LOG_ARITY + 1] = {beta};
  for (int i = 0; i < log_arity; ++i) betas[i + 1] = gl::mul(betas[i], betas[i]);
  const u64 scale = gl::inverse((u64)1 << log_arity);

  pool_.run(tasks.count, [&](size_t task, int) {
    const size_t coset = tasks.coset(task), first = tasks.first(task);
    Fold f{};
    f.in = codeword + coset * n + first;
    f.in_stride = blowup * n;
    f.in_step = shorter;
    f.log_arity = log_arity;
    f.powers = powers.data();
    f.start = gl::mul(gl::pow(step, coset), gl::pow(root, first));
    f.twiddles = twiddles.data();
    f.betas = betas;
    f.scale = scale;
    const size_t at = coset * shorter + first;
    f.add = add ? add + at : nullptr;
    f.out = out + at;
    f.out_stride = blowup * shorter;
    f.rows = tasks.rows;
    kernels.fold(f);
  });
}

}  // namespace rows
}  // namespace dp
