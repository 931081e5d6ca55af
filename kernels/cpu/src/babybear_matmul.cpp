#include "babybear_matmul.h"

#include <algorithm>

namespace dp {

namespace {

constexpr size_t BLOCK = 256;  // columns whose sums are in the first cache

// A product has 62 bits. The sums of its two words, each of 32 bits, hold 2^32 products.
void block(const u32* a, const u32* b, size_t inner, size_t columns, size_t width, u32* out) {
  u64 low[BLOCK], high[BLOCK];
  std::fill(low, low + width, 0);
  std::fill(high, high + width, 0);
  for (size_t k = 0; k < inner; ++k) {
    const u32 factor = a[k];
    if (factor == 0) continue;
    const u32* row = b + k * columns;
    for (size_t j = 0; j < width; ++j) {
      const u64 product = (u64)factor * row[j];
      low[j] += (u32)product;
      high[j] += product >> 32;
    }
  }
  constexpr u64 RADIX = ((u64)1 << 32) % bb::P;
  for (size_t j = 0; j < width; ++j) out[j] = (u32)((low[j] % bb::P + high[j] % bb::P * RADIX) % bb::P);
}

}  // namespace

void babybear_matmul(Pool& pool, const u32* a, const u32* b, size_t rows, size_t inner, size_t columns, u32* out) {
  const size_t blocks = (columns + BLOCK - 1) / BLOCK;
  const size_t grain = std::max<size_t>(1, ((size_t)1 << 14) / std::max<size_t>(1, inner * std::min(columns, BLOCK)));
  pool.ranges(rows * blocks, grain, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) {
      const size_t row = at / blocks, first = at % blocks * BLOCK, width = std::min(BLOCK, columns - first);
      block(a + row * inner, b + first, inner, columns, width, out + row * columns + first);
    }
  });
}

}  // namespace dp
