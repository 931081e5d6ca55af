// The types of C++ row functions of traces; kernels/interface/row_source.py says what is generated around the functions.
#pragma once
#include "field/goldilocks.h"

// Marks a row function, and the helpers that it calls.
#define DP_ROW DP_HD

namespace dp {
namespace trace {

// A named array of a partition's inputs: of n elements, or of several rows of n.
struct Input {
  const u64* data;
  u64 n;

  DP_HD u64 operator[](u64 i) const { return data[i]; }
  DP_HD u64 operator()(u64 row, u64 i) const { return data[row * n + i]; }
};

// A named array that rows add to, in any order and at once. Elements are integers modulo 2^64, and field elements as long as
// sums stay below p. What is added beyond its n elements is added nowhere.
struct Sums {
  u64* data;
  u64 n;

  DP_HD void add(u64 i, u64 times = 1) const {
    if (i >= n) return;
#if DP_DEVICE
    atomicAdd(reinterpret_cast<unsigned long long*>(data + i), (unsigned long long)times);
#else
    __atomic_fetch_add(data + i, times, __ATOMIC_RELAXED);
#endif
  }
};

// The row to be written: `row[column::x] = value`, canonical. Every column must be written; what was written can be read.
struct Row {
  u64* first;
#if DP_DEVICE
  u64 stride;  // columns lie apart, as in the trace; the host collects whole rows first (host.h)
#else
  static constexpr u64 stride = 1;
#endif

  DP_HD u64& operator[](u64 column) { return first[column * stride]; }
};

}  // namespace trace
}  // namespace dp
