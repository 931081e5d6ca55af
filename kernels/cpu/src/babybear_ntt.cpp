#include "babybear_ntt.h"

#include <utility>

#include "bit_reversal.h"

namespace dp {

namespace {

void reverse(u32* data, int log_n, size_t inner, size_t begin, size_t end) {
  each_reversed(begin, end, log_n, [&](size_t i, size_t j) {
    for (size_t c = 0; c < inner; ++c) std::swap(data[i * inner + c], data[j * inner + c]);
  });
}

// The butterflies `begin` to `end` of a level whose blocks have 2 half items.
void level(u32* data, size_t half, size_t inner, const u32* roots, size_t begin, size_t end) {
  roots += half;
  while (begin < end) {
    const size_t block = begin / half, first = begin % half, last = std::min(half, first + (end - begin));
    u32 *low = data + block * 2 * half * inner, *high = low + half * inner;
    if (inner == 1) {
      for (size_t j = first; j < last; ++j) {
        const u32 a = low[j], b = bb::mul(high[j], roots[j]);
        low[j] = bb::add(a, b);
        high[j] = bb::sub(a, b);
      }
    } else {
      for (size_t j = first; j < last; ++j) {
        const u32 root = roots[j];
        for (size_t c = j * inner; c < (j + 1) * inner; ++c) {
          const u32 a = low[c], b = bb::mul(high[c], root);
          low[c] = bb::add(a, b);
          high[c] = bb::sub(a, b);
        }
      }
    }
    begin += last - first;
  }
}

void transform(u32* data, int log_n, size_t inner, const u32* roots) {
  const size_t n = (size_t)1 << log_n;
  reverse(data, log_n, inner, 0, n);
  for (int log_half = 0; log_half < log_n; ++log_half)
    level(data, (size_t)1 << log_half, inner, roots, 0, n / 2);
}

}  // namespace

void babybear_ntt(Pool& pool, u32* data, size_t batch, int log_n, size_t inner, const u32* roots) {
  const size_t n = (size_t)1 << log_n;
  if (batch >= (size_t)pool.threads() || n * inner < (size_t)1 << 14) {
    pool.ranges(batch, std::max<size_t>(1, ((size_t)1 << 14) / (n * inner)), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) transform(data + i * n * inner, log_n, inner, roots);
    });
    return;
  }
  for (size_t i = 0; i < batch; ++i) {
    u32* vector = data + i * n * inner;
    pool.ranges(n, 1 << 12, [&](size_t begin, size_t end) { reverse(vector, log_n, inner, begin, end); });
    for (int log_half = 0; log_half < log_n; ++log_half)
      pool.ranges(n / 2, 1 << 12, [&](size_t begin, size_t end) {
        level(vector, (size_t)1 << log_half, inner, roots, begin, end);
      });
  }
}

}  // namespace dp
