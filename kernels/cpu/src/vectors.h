// Elementwise operations on vectors of field elements. `out` may be one of the inputs.
#pragma once
#include <vector>

#include "field/fp.h"
#include "threads.h"
#include "views.h"

namespace dp {

constexpr size_t VECTOR_GRAIN = 2048;  // elements; below, waking a thread costs more than it saves

template <class F, class Op>
void map1(Pool& pool, const u8* a, u8* out, size_t n, Op op) {
  pool.ranges(n, VECTOR_GRAIN, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) Out<F>(out).put(i, op(In<F>(a)[i]));
  });
}

template <class F, class Op>
void map2(Pool& pool, const u8* a, const u8* b, u8* out, size_t n, Op op) {
  pool.ranges(n, VECTOR_GRAIN, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) Out<F>(out).put(i, op(In<F>(a)[i], In<F>(b)[i]));
  });
}

template <class F, class Op>
void map3(Pool& pool, const u8* a, const u8* b, const u8* c, u8* out, size_t n, Op op) {
  pool.ranges(n, VECTOR_GRAIN, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) Out<F>(out).put(i, op(In<F>(a)[i], In<F>(b)[i], In<F>(c)[i]));
  });
}

template <class F>
F power(F base, size_t exponent) {
  return base.pow(Words<1>{{exponent}});
}

// out[i] = a[i] * first * base^e(i), with e(i) = i, or the bit reversal of i in log2 n bits when `reversed`.
// Powers come from one table of a block and one factor per block, so that no product waits for the one before.
template <class F>
void scale_powers(Pool& pool, const u8* a, const F& base, const F& first, u8* out, size_t n, bool reversed) {
  if (base == F::one()) {  // an inverse transform's 1 / n
    map1<F>(pool, a, out, n, [&](F x) { return x * first; });
    return;
  }
  constexpr int LOG_BLOCK = 9;
  int log_n = 0;
  while (((size_t)1 << log_n) < n) ++log_n;
  const int log_block = std::min(LOG_BLOCK, log_n);
  const size_t block = (size_t)1 << log_block;
  std::vector<F> table(block);
  table[0] = F::one();
  if (reversed) {  // bit b of the index stands for base^(n / 2^(b + 1))
    std::vector<F> steps(log_block);
    for (int b = log_block - 1; b >= 0; --b) steps[b] = power(base, n >> (b + 1));
    for (size_t i = 1, b = 0; i < block; ++i) {
      if (i >> (b + 1)) ++b;
      table[i] = table[i - ((size_t)1 << b)] * steps[b];
    }
  } else {
    for (size_t i = 1; i < block; ++i) table[i] = table[i - 1] * base;
  }
  const size_t blocks = (n + block - 1) / block;
  pool.ranges(blocks, VECTOR_GRAIN >> LOG_BLOCK, [&](size_t begin, size_t end) {
    for (size_t k = begin; k < end; ++k) {
      size_t exponent = k << log_block;
      if (reversed) {
        exponent = 0;
        for (int b = log_block; b < log_n; ++b) exponent |= (((k << log_block) >> b) & 1) << (log_n - 1 - b);
      }
      const F factor = first * power(base, exponent);
      for (size_t i = k << log_block; i < std::min(n, (k + 1) << log_block); ++i)
        Out<F>(out).put(i, In<F>(a)[i] * (factor * table[i - (k << log_block)]));
    }
  });
}

// out[k] = sum_j a[j][k] at^j for `rows` rows of `columns` elements, by Horner's rule. `at` is in Montgomery form; the sums are
// in the form of a.
template <class F>
void evaluate_columns(const u8* a, size_t rows, size_t columns, F at, u8* out) {
  std::vector<F> sums(columns, F::zero());
  for (size_t j = rows; j-- > 0;)
    for (size_t k = 0; k < columns; ++k) sums[k] = sums[k] * at + In<F>(a)[j * columns + k];
  for (size_t k = 0; k < columns; ++k) Out<F>(out).put(k, sums[k]);
}

// Montgomery's trick, per block: one inversion and three products per element. Zero stays zero.
template <class F>
void batch_inverse(Pool& pool, const u8* a, u8* out, size_t n) {
  constexpr size_t BLOCK = 1024;
  pool.ranges((n + BLOCK - 1) / BLOCK, 1, [&](size_t begin, size_t end) {
    std::vector<F> before(BLOCK);
    for (size_t k = begin; k < end; ++k) {
      const size_t first = k * BLOCK, last = std::min(n, first + BLOCK);
      F product = F::one();
      for (size_t i = first; i < last; ++i) {
        before[i - first] = product;
        F x = In<F>(a)[i];
        if (!x.is_zero()) product = product * x;
      }
      F inverse = product.inverse();
      for (size_t i = last; i-- > first;) {
        F x = In<F>(a)[i];
        if (x.is_zero()) {
          Out<F>(out).put(i, x);
          continue;
        }
        Out<F>(out).put(i, inverse * before[i - first]);
        inverse = inverse * x;
      }
    }
  });
}

}  // namespace dp
