// Codewords by the transforms of goldilocks_ntt.h, whose coefficients lie in the order that their inverse leaves: bit-reversed, and
// transposed within each group of 8 vectors. Products are summed in 128 bits and a count of carries, and reduced once.
#include "goldilocks_multilinear.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "field/goldilocks.h"
#include "goldilocks_lde.h"
#include "multilinear_lanes.h"

namespace dp {

namespace {

using u128 = unsigned __int128;

struct Sum {
  u128 low = 0;
  u64 carries = 0;  // of 2^128

  void add(u64 a, u64 b) {
    const u128 product = (u128)a * b;
    low += product;
    carries += low < product;
  }
  // 2^128 = (2^32 - 1)^2 = 2^64 - 2^33 + 1 = -2^32 modulo p
  u64 reduced() const {
    const u64 value = gl::reduce128((u64)(low >> 64), (u64)low);
    return gl::sub(value, gl::mul(carries % gl::P, (u64)1 << 32));
  }
};

size_t reversed(size_t i, int bits) {
  size_t out = 0;
  for (int b = 0; b < bits; ++b, i >>= 1) out = out << 1 | (i & 1);
  return out;
}

// One group of the transforms' order, from the coefficients in bit-reversed order.
void grouped(const u64* in, u64* out, size_t lanes) {
  for (size_t i = 0; i < 8; ++i)
    for (size_t l = 0; l < lanes; ++l) out[i * lanes + l] = in[l * 8 + i];
}

// Copies coefficients in natural order to the order of the transforms. Large columns go in tiles of 64 by 64 elements, whose
// rows are whole cache lines on both sides.
void permute(const u64* in, u64* out, int log_n, size_t lanes) {
  constexpr int TILE = 6;
  constexpr size_t SIDE = (size_t)1 << TILE;
  const size_t n = (size_t)1 << log_n, group = 8 * lanes;
  if (log_n < 2 * TILE) {
    std::vector<u64> natural(n);
    for (size_t i = 0; i < n; ++i) natural[i] = in[reversed(i, log_n)];
    if (n < group) std::copy(natural.begin(), natural.end(), out);
    else
      for (size_t at = 0; at < n; at += group) grouped(natural.data() + at, out + at, lanes);
    return;
  }
  const int middle = log_n - 2 * TILE;
  size_t flipped[SIDE];
  for (size_t i = 0; i < SIDE; ++i) flipped[i] = reversed(i, TILE);
  std::vector<u64> tile(SIDE * SIDE);
  for (size_t m = 0; m < (size_t)1 << middle; ++m) {
    for (size_t high = 0; high < SIDE; ++high) {
      const u64* row = in + ((high << middle | m) << TILE);
      for (size_t low = 0; low < SIDE; ++low) tile[flipped[low] * SIDE + flipped[high]] = row[low];
    }
    const size_t to = reversed(m, middle);
    for (size_t low = 0; low < SIDE; ++low) {
      u64* row = out + ((low << middle | to) << TILE);
      for (size_t at = 0; at < SIDE; at += group) grouped(tile.data() + low * SIDE + at, row + at, lanes);
    }
  }
}

}  // namespace

void goldilocks_encode(Pool& pool, const GoldilocksOps& all, const EncodeCall& call) {
  const size_t n = (size_t)1 << call.log_n;
  const GoldilocksOps& ops = n >= 8 * all.lanes ? all : GOLDILOCKS_PORTABLE;
  std::vector<NttRoots> roots(call.cosets);
  pool.run(call.cosets, [&](size_t k, int) { roots[k] = ntt_roots(ops, call.log_n, call.root, call.shifts[k]); });
  const auto out = [&](size_t column, size_t k) { return call.out + (column * call.cosets + k) * n; };
  const auto forward = [&](size_t column, size_t k) {
    ops.forward(out(column, call.cosets - 1), out(column, k), call.log_n, roots[k]->data(), true);
  };
  pool.run(call.width, [&](size_t column, int) {
    permute(call.coefficients + column * n, out(column, call.cosets - 1), call.log_n, ops.lanes);
  });
  const size_t before = call.cosets - 1;
  pool.run(call.width * before, [&](size_t i, int) { forward(i / before, i % before); });
  pool.run(call.width, [&](size_t column, int) { forward(column, before); });
}

void goldilocks_interpolate_runs(Pool& pool, const GoldilocksOps& all, u64* data, size_t runs, int log_run, u64 root) {
  const u64 scale = gl::inverse((u64)1 << log_run), inverse_root = gl::inverse(root);
  if (3 <= log_run && log_run <= 5) {
    const GoldilocksOps& ops = runs % all.lanes ? GOLDILOCKS_PORTABLE : all;
    return pool.ranges(runs / ops.lanes, 64, [&](size_t begin, size_t end) {
      ops.interpolate(data + (begin * ops.lanes << log_run), (end - begin) * ops.lanes, log_run, scale);
    });
  }
  const size_t size = (size_t)1 << log_run;
  std::vector<u64> powers(size);
  for (size_t i = 0; i < size; ++i) powers[i] = gl::pow(inverse_root, i);
  pool.ranges(runs, 64, [&](size_t begin, size_t end) {
    std::vector<u64> values(size);
    for (size_t i = begin; i < end; ++i) {
      u64* const run = data + i * size;
      for (size_t a = 0; a < size; ++a) values[reversed(a, log_run)] = run[a];
      for (size_t half = 1, apart = size / 2; half < size; half *= 2, apart /= 2)
        for (size_t first = 0; first < size; first += 2 * half)
          for (size_t j = 0; j < half; ++j) {
            u64 &a = values[first + j], &b = values[first + j + half];
            const u64 even = a, odd = gl::mul(b, powers[j * apart]);
            a = gl::add(even, odd), b = gl::sub(even, odd);
          }
      for (size_t k = 0; k < size; ++k) run[k] = gl::mul(values[k], scale);
    }
  });
}

namespace {

constexpr size_t RUNS = 64;  // a thread takes so many at a time, at least

// Whether loops over runs of `size` elements fill the lanes.
bool on_lanes(const rows::MultilinearKernels* kernels, size_t size, size_t most) {
  return kernels && size % kernels->lanes == 0 && size <= most;
}

// Values over the powers of `root` at a point: the value at root^a counts so much.
std::vector<u64> lagrange(size_t size, u64 root, u64 point) {
  std::vector<u64> weights(size);
  const u64 share = gl::inverse(size), inverse_root = gl::inverse(root);
  for (size_t a = 0; a < size; ++a, point = gl::mul(point, inverse_root)) {
    u64 sum = 0;
    for (size_t k = size; k-- > 0;) sum = gl::add(gl::mul(sum, point), share);
    weights[a] = sum;
  }
  return weights;
}

// These cells, none of them a next column.
void move_cells(Pool& pool, const GoldilocksOps& all, const MoveCall& call, const std::vector<size_t>& cells) {
  const size_t size = (size_t)1 << call.log_run, count = cells.size(), grain = std::max<size_t>(1, RUNS / call.runs);
  const auto in = [&](size_t cell) { return call.in + (cell * call.all_runs + call.first) * size; };
  const auto out = [&](size_t cell) { return call.out + cell * call.runs * size; };
  if (3 <= call.log_run && call.log_run <= 5) {
    const GoldilocksOps& ops = call.runs % all.lanes ? GOLDILOCKS_PORTABLE : all;
    std::vector<u64> factors(size);
    u64 power = gl::inverse(size);
    for (size_t k = 0; k < size; ++k, power = gl::mul(power, call.shift)) factors[reversed(k, call.log_run)] = power;
    return pool.ranges(count, grain, [&](size_t from, size_t to) {
      for (size_t k = from; k < to; ++k)
        ops.move(in(cells[k]), out(cells[k]), call.runs, call.log_run, factors.data());
    });
  }
  std::vector<std::vector<u64>> rows(size);
  for (size_t a = 0; a < size; ++a) rows[a] = lagrange(size, call.root, gl::mul(call.shift, gl::pow(call.root, a)));
  pool.ranges(count, grain, [&](size_t from, size_t to) {
    for (size_t k = from; k < to; ++k)
      for (size_t i = 0; i < call.runs; ++i)
        for (size_t r = 0; r < size; ++r) {
          Sum sum;
          for (size_t a = 0; a < size; ++a) sum.add(rows[r][a], in(cells[k])[i * size + a]);
          out(cells[k])[i * size + r] = sum.reduced();
        }
  });
}

}  // namespace

// A next column is f(w Z) on a run, but for its last value, which is the next run's first one in place of its own.
void goldilocks_move_runs(Pool& pool, const GoldilocksOps& all, const MoveCall& call) {
  const rows::MultilinearKernels* kernels = multilinear_kernels(all.name);
  const size_t size = (size_t)1 << call.log_run;
  const size_t others = call.columns + call.next_count;
  std::vector<bool> wanted(call.width);
  for (size_t cell = 0; cell < call.width; ++cell) wanted[cell] = call.read[cell] != 0;
  for (size_t k = 0; k < call.next_count; ++k)
    if (wanted[call.columns + k]) wanted[call.next[k]] = true;
  std::vector<size_t> cells;
  for (size_t cell = 0; cell < call.width; ++cell)
    if (wanted[cell] && (cell < call.columns || cell >= others)) cells.push_back(cell);
  move_cells(pool, all, call, cells);
  std::vector<u64> last(size);  // what the last value of a run counts
  for (size_t a = 0; a < size; ++a)
    last[a] = lagrange(size, call.root, gl::mul(call.shift, gl::pow(call.root, a)))[size - 1];
  pool.ranges(call.next_count, std::max<size_t>(1, RUNS / call.runs), [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      if (!wanted[call.columns + k]) continue;
      const u64* const in = call.in + call.next[k] * call.all_runs * size;
      const u64* const moved = call.out + call.next[k] * call.runs * size;
      u64* const out = call.out + (call.columns + k) * call.runs * size;
      size_t done = 0;
      if (on_lanes(kernels, size, rows::MAX_RUN)) {
        done = std::min(call.runs, call.all_runs - 1 - call.first);
        kernels->next_runs(in + call.first * size, moved, last.data(), done, size, out);
      }
      for (size_t i = done; i < call.runs; ++i) {
        const size_t run = call.first + i;
        const u64 step = gl::sub(in[(run + 1) % call.all_runs * size], in[run * size]);
        for (size_t a = 0; a < size; ++a)
          out[i * size + a] = gl::add(moved[i * size + (a + 1) % size], gl::mul(last[a], step));
      }
    }
  });
}

void goldilocks_bind_runs(Pool& pool, const GoldilocksOps& all, const u64* in, size_t runs, size_t size, const u64* weights,
                          u64* out) {
  const rows::MultilinearKernels* kernels = multilinear_kernels(all.name);
  const size_t lanes = on_lanes(kernels, size, rows::MAX_TERMS) ? kernels->lanes : 0, whole = lanes ? runs / lanes : 0;
  if (whole) {
    std::vector<rows::Weight> split(3 * size);
    kernels->split(weights, split.size(), split.data());
    pool.ranges(whole, RUNS, [&](size_t begin, size_t end) {
      const size_t at = begin * lanes;
      kernels->bind_runs(in + at * size, (end - begin) * lanes, size, split.data(), {out + at, runs});
    });
  }
  const size_t left = whole * lanes;
  pool.ranges(runs - left, RUNS, [&](size_t begin, size_t end) {
    for (size_t i = left + begin; i < left + end; ++i)
      for (size_t r = 0; r < 3; ++r) {
        Sum sum;
        for (size_t a = 0; a < size; ++a) sum.add(weights[3 * a + r], in[i * size + a]);
        out[r * runs + i] = sum.reduced();
      }
  });
}

void goldilocks_sum_runs(Pool& pool, const GoldilocksOps& all, const u64* in, size_t runs, size_t size, const u64* weights,
                         size_t sets, u64* out) {
  constexpr size_t BLOCK = 256;  // runs, which stay in the first-level cache for all sets
  const rows::MultilinearKernels* kernels = multilinear_kernels(all.name);
  if (!on_lanes(kernels, size, rows::MAX_TERMS)) kernels = nullptr;
  std::fill_n(out, sets * size, 0);
  std::mutex mutex;
  pool.ranges(runs, 4 * BLOCK, [&](size_t begin, size_t end) {
    std::vector<u64> own(sets * size, 0);
    for (size_t first = begin; first < end; first += BLOCK) {
      const size_t count = std::min(BLOCK, end - first);
      for (size_t c = 0; c < sets; c += 3) {
        const u64* const w = weights + c * runs + first;
        const auto zero = [&](size_t k) { return std::all_of(w + k * runs, w + k * runs + count, [](u64 x) { return x == 0; }); };
        if (zero(0) && zero(1) && zero(2)) continue;  // most columns have no next column
        u64* const to = own.data() + c * size;
        if (kernels) {
          kernels->sum_runs(in + first * size, count, size, w, runs, to);
          continue;
        }
        for (size_t k = 0; k < 3; ++k)
          for (size_t a = 0; a < size; ++a) {
            Sum sum;
            for (size_t i = 0; i < count; ++i) sum.add(w[k * runs + i], in[(first + i) * size + a]);
            to[k * size + a] = gl::add(to[k * size + a], sum.reduced());
          }
      }
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t k = 0; k < own.size(); ++k) out[k] = gl::add(out[k], own[k]);
  });
}

}  // namespace dp
