// Indices of a transform whose bits are in the reverse order.
#pragma once
#include <cstddef>

namespace dp {

inline size_t reverse_bits(size_t x, int bits) {
  size_t r = 0;
  for (int i = 0; i < bits; ++i) r |= ((x >> i) & 1) << (bits - 1 - i);
  return r;
}

// Calls swap(i, j) for each i of [begin, end) with a reversal j > i, of `bits` bits.
template <class Swap>
void each_reversed(size_t begin, size_t end, int bits, const Swap& swap) {
  size_t j = reverse_bits(begin, bits);
  for (size_t i = begin; i < end; ++i) {
    if (i < j) swap(i, j);
    size_t bit = ((size_t)1 << bits) >> 1;  // j = reversal of i + 1: add one from the top
    while (j & bit) {
      j ^= bit;
      bit >>= 1;
    }
    j |= bit;
  }
}

}  // namespace dp
