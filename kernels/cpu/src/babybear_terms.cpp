#include "babybear_terms.h"

#include <algorithm>
#include <vector>

namespace dp {

namespace {

void set(const u32* from, u32* to) { std::copy_n(from, 4, to); }
constexpr u32 ONE[4] = {1, 0, 0, 0};

// Coordinates that one table covers. An entry's number has a digit to the base 3 for each: no factor, 1 - x, x.
constexpr size_t DIGITS = 4;
constexpr size_t ENTRIES = 81;

// The products of the factors that the digits choose, for `count` coordinates; the last digit is of the first one.
void fill(const u32* point, size_t count, u32* table) {
  set(ONE, table);
  size_t size = 1;
  for (size_t j = count; j-- > 0;) {
    u32 factors[2][4];
    for (int c = 0; c < 4; ++c) factors[0][c] = bb::sub(ONE[c], point[4 * j + c]), factors[1][c] = point[4 * j + c];
    for (size_t i = size; i-- > 0;) {
      u32 entry[4];
      set(table + 4 * i, entry);
      set(entry, table + 12 * i);
      for (size_t digit = 0; digit < 2; ++digit) bb::ext_mul(factors[digit], entry, table + 12 * i + 4 * (digit + 1));
    }
    size *= 3;
  }
}

}  // namespace

void babybear_ext_powers(const u32* base, size_t n, u32* out) {
  if (n == 0) return;
  set(ONE, out);
  u32 step[4];
  set(base, step);
  for (size_t size = 1; size < n; size *= 2) {
    for (size_t i = 0; i < std::min(size, n - size); ++i) bb::ext_mul(step, out + 4 * i, out + 4 * (size + i));
    u32 square[4];
    bb::ext_mul(step, step, square);
    set(square, step);
  }
}

void babybear_eq_of_places(const u32* point, size_t k, const int64_t* starts, const int64_t* log_rows, size_t n, u32* out) {
  for (size_t i = 0; i < n; ++i) set(ONE, out + 4 * i);
  u32 table[4 * ENTRIES];
  for (size_t first = 0; first < k; first += DIGITS) {
    const size_t count = std::min(DIGITS, k - first);
    fill(point + 4 * first, count, table);
    for (size_t i = 0; i < n; ++i) {
      size_t entry = 0;
      for (size_t j = first + count; j-- > first;) {
        const bool chosen = (int64_t)j >= log_rows[i];
        entry = 3 * entry + (chosen ? 1 + ((u64)starts[i] >> j & 1) : 0);
      }
      if (!entry) continue;
      u32 product[4];
      bb::ext_mul(table + 4 * entry, out + 4 * i, product);
      set(product, out + 4 * i);
    }
  }
}

void babybear_sum_products(const u32* a, const int64_t* at_a, const u32* b, const int64_t* at_b, const int64_t* to, size_t n, u32* out) {
  for (size_t i = 0; i < n; ++i) {
    u32 product[4], *const sum = out + 4 * to[i];
    bb::ext_mul(a + 4 * at_a[i], b + 4 * at_b[i], product);
    for (int c = 0; c < 4; ++c) sum[c] = bb::add(sum[c], product[c]);
  }
}

}  // namespace dp
