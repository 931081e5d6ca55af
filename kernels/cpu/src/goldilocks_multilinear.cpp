// Codewords by the transforms of goldilocks_ntt.h, whose coefficients lie in the order that their inverse leaves: bit-reversed, and
// transposed within each group of 8 vectors. Products are summed in 128 bits and a count of carries, and reduced once.
#include "goldilocks_multilinear.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "field/goldilocks.h"
#include "goldilocks_lde.h"

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
  void add(const Sum& other) {
    low += other.low;
    carries += (low < other.low) + other.carries;
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
  if (log_run == 3 || log_run == 4) {
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

void goldilocks_apply_runs(Pool& pool, const u64* in, size_t runs, size_t size, const u64* matrix, size_t rows, u64* out) {
  pool.ranges(runs, 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      for (size_t r = 0; r < rows; ++r) {
        Sum sum;
        for (size_t a = 0; a < size; ++a) sum.add(matrix[r * size + a], in[i * size + a]);
        out[i * rows + r] = sum.reduced();
      }
  });
}

void goldilocks_sum_runs(Pool& pool, const u64* in, size_t runs, size_t size, const u64* weights, size_t sets, u64* out) {
  std::vector<Sum> total(sets * size);
  std::mutex mutex;
  pool.ranges(runs, 1024, [&](size_t begin, size_t end) {
    std::vector<Sum> own(sets * size);
    for (size_t c = 0; c < sets; ++c)
      for (size_t i = begin; i < end; ++i) {
        const u64 weight = weights[c * runs + i];
        if (weight == 0) continue;
        for (size_t a = 0; a < size; ++a) own[c * size + a].add(weight, in[i * size + a]);
      }
    std::lock_guard<std::mutex> lock(mutex);
    for (size_t k = 0; k < total.size(); ++k) total[k].add(own[k]);
  });
  for (size_t k = 0; k < total.size(); ++k) out[k] = total[k].reduced();
}

}  // namespace dp
