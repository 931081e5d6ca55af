// Number-theoretic transforms of length n = 2^log_n.
//
// There are two networks, which differ by a bit reversal, so that neither has to permute:
//   decimate:   natural input -> bit-reversed output. Butterfly (a + w b, a - w b), blocks halving.
//   accumulate: bit-reversed input -> natural output. Butterfly (a + b, w (a - b)), blocks doubling.
// Both use one factor per block of a stage, and block j of every stage has the same factor, entry j of one table of roots in
// bit-reversed order: the table for 2^k contains those of all smaller sizes, and is read in sequence. The inverse is the same
// networks with the table of the inverse root.
//
// Beyond the table's length the factor of block j = q * T + j' (T entries in the table) is the table's j' times a factor of q.
#pragma once
#include <vector>

#include "bit_reversal.h"
#include "field/fp.h"
#include "field_lanes.h"
#include "ops.h"
#include "vectors.h"

namespace dp {

// out[j] = root^rev(j), j < 2^(log_n - 1), rev in log_n - 1 bits, for a primitive 2^log_n-th root (log_n >= 1).
template <class F>
void root_table(const F& root, int log_n, u8* out) {
  const size_t length = (size_t)1 << (log_n - 1);
  std::vector<F> steps(log_n);
  F r = root;
  for (int b = log_n - 2; b >= 0; --b, r = r.sqr()) steps[b] = r;  // index bit b: root^(2^(log_n - 2 - b))
  Out<F> table(out);
  table.put(0, F::one());
  for (size_t i = 1, b = 0; i < length; ++i) {
    if (i >> (b + 1)) ++b;
    table.put(i, table[i - ((size_t)1 << b)] * steps[b]);
  }
}

template <class F>
void bit_reverse(Pool& pool, F* a, int log_n) {
  const size_t n = (size_t)1 << log_n;
  pool.ranges(n, VECTOR_GRAIN, [&](size_t begin, size_t end) {
    each_reversed(begin, end, log_n, [&](size_t i, size_t j) { std::swap(a[i], a[j]); });
  });
}

template <class F>
class Ntt {
 public:
  Ntt(int log_n, const u8* table, int log_table, const F& root) : log_n_(log_n), table_(table), log_table_(log_table) {
    // roots of order 2^k for every k up to log_n, for factors beyond the table
    order_.resize(log_n + 1, F::one());
    F r = root;
    for (int k = log_n; k >= 0; --k, r = r.sqr()) order_[k] = r;
  }

  void decimate(Pool& pool, F* a) const {
    int stage = 0;
    for (; stage < log_n_ && wide(stage, pool); ++stage) {
      sweep(pool, stage, [&](size_t block, size_t begin, size_t end) { butterflies<false>(a, stage, block, begin, end); });
    }
    if (stage == log_n_) return;
    const size_t blocks = (size_t)1 << stage;
    pool.run(blocks, [&](size_t block, int) {
      for (int k = stage; k < log_n_; ++k) stage_of_block<false>(a, stage, block, k);
    });
  }

  void accumulate(Pool& pool, F* a) const {
    int top = 0;
    while (top < log_n_ && wide(top, pool)) ++top;
    const size_t blocks = (size_t)1 << top;
    if (top < log_n_)
      pool.run(blocks, [&](size_t block, int) {
        for (int stage = log_n_ - 1; stage >= top; --stage) stage_of_block<true>(a, top, block, stage);
      });
    for (int stage = top - 1; stage >= 0; --stage) {
      sweep(pool, stage, [&](size_t block, size_t begin, size_t end) { butterflies<true>(a, stage, block, begin, end); });
    }
  }

 private:
  // Stages with too few blocks to occupy the threads, or with blocks beyond the cache, are cut across their butterflies.
  bool wide(int stage, Pool& pool) const {
    const int log_block = log_n_ - stage;
    if (log_block <= 9) return false;
    return (pool.threads() > 1 && ((size_t)1 << stage) < (size_t)pool.threads() * 4) || log_block > LOG_CACHED;
  }
  template <class Body>
  void sweep(Pool& pool, int stage, const Body& body) const {
    const int log_half = log_n_ - stage - 1;
    const size_t half = (size_t)1 << log_half;
    pool.ranges((size_t)1 << (log_n_ - 1), VECTOR_GRAIN, [&](size_t begin, size_t end) {
      while (begin < end) {
        size_t block = begin >> log_half, offset = begin & (half - 1);
        size_t count = std::min(half - offset, end - begin);
        body(block, offset, offset + count);
        begin += count;
      }
    });
  }
  F factor(size_t block) const {
    if ((block >> log_table_) == 0) return In<F>(table_)[block];
    F f = In<F>(table_)[block & (((size_t)1 << log_table_) - 1)];
    for (int b = log_table_; block >> b; ++b)
      if ((block >> b) & 1) f = f * order_[b + 2];
    return f;
  }
  // Butterflies `begin` to `end` of a block: of `decimate`, or JOINING, of `accumulate`.
  template <bool JOINING>
  void butterflies(F* a, int stage, size_t block, size_t begin, size_t end) const {
    const int log_half = log_n_ - stage - 1;
    F* lo = a + (block << (log_half + 1));
    F* hi = lo + ((size_t)1 << log_half);
    const F w = factor(block);
    if (FieldLanes<F>::usable_for_butterflies() && end - begin >= lanes::LANES) {
      const size_t most = end - (end - begin) % lanes::LANES;
      FieldLanes<F>::butterflies(JOINING, lo, log_half, &w, begin, most);
      begin = most;
    }
    for (size_t i = begin; i < end; ++i) {
      if (JOINING) {
        const F t = lo[i] - hi[i];
        lo[i] = lo[i] + hi[i];
        hi[i] = t * w;
      } else {
        const F t = hi[i] * w;
        hi[i] = lo[i] - t;
        lo[i] = lo[i] + t;
      }
    }
  }
  // A stage within the block that stage `top` has there.
  template <bool JOINING>
  void stage_of_block(F* a, int top, size_t block, int stage) const {
    const int log_half = log_n_ - stage - 1;
    const size_t count = (size_t)1 << (stage - top), first = block * count, half = (size_t)1 << log_half;
    if (FieldLanes<F>::usable_for_butterflies() && count * half >= lanes::LANES && (first + count - 1) >> log_table_ == 0) {
      FieldLanes<F>::butterflies(JOINING, a + first * 2 * half, log_half, table_ + first * sizeof(F), 0, count * half);
    } else {
      for (size_t j = first; j < first + count; ++j) butterflies<JOINING>(a, stage, j, 0, half);
    }
  }

  static constexpr int LOG_CACHED = 15;  // 2^15 elements of 32 bytes fill a megabyte of second-level cache
  int log_n_;
  const u8* table_;
  int log_table_;
  std::vector<F> order_;
};

template <class F>
void ntt(Pool& pool, u8* data, const NttCall& c) {
  const size_t n = (size_t)1 << c.log_n;
  const F base = In<F>(c.base)[0], first = In<F>(c.first)[0];
  const Ntt<F> transform(c.log_n, c.roots, c.log_roots, In<F>(c.root)[0]);
  for (size_t k = 0; k < c.batch; ++k) {
    u8* bytes = data + k * n * sizeof(F);
    F* a = reinterpret_cast<F*>(bytes);  // the binding refuses addresses that are not those of 64-bit words
    if (c.scale_input) scale_powers<F>(pool, bytes, base, first, bytes, n, c.bit_reversed_input);
    if (c.bit_reversed_input) {
      transform.accumulate(pool, a);
      if (c.bit_reversed_output) bit_reverse(pool, a, c.log_n);
    } else {
      transform.decimate(pool, a);
      if (!c.bit_reversed_output) bit_reverse(pool, a, c.log_n);
    }
    if (c.scale_output) scale_powers<F>(pool, bytes, base, first, bytes, n, c.bit_reversed_output);
  }
}

}  // namespace dp
