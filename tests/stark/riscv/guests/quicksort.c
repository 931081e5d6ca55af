// Private input: words. Public output: their number, and of the sorted words w_i the sum of w_i * 31^(count - 1 - i).
#include "guest.h"

#define MOST (1u << 20)

static uint32_t values[MOST];

static void sort(uint32_t* low, uint32_t* high) {
  while (high - low > 12) {
    const uint32_t pivot = low[(high - low) / 2];
    uint32_t *left = low, *right = high - 1;
    while (left <= right) {
      while (*left < pivot) ++left;
      while (*right > pivot) --right;
      if (left > right) break;
      const uint32_t kept = *left;
      *left++ = *right;
      *right-- = kept;
    }
    // The smaller part by itself, so that the stack stays small.
    if (right + 1 - low < high - left) {
      sort(low, right + 1);
      low = left;
    } else {
      sort(left, high);
      high = right + 1;
    }
  }
  for (uint32_t* at = low + 1; at < high; ++at) {
    const uint32_t value = *at;
    uint32_t* to = at;
    for (; to > low && to[-1] > value; --to) *to = to[-1];
    *to = value;
  }
}

int main(void) {
  const size_t count = read_private(values, sizeof values) / 4;
  if (count) sort(values, values + count);
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum = 31 * sum + values[i];
  write_word(count);
  write_word(sum);
  return 0;
}
