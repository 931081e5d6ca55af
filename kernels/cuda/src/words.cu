// Comparison of plain words. Launch: a grid-stride loop, one word per thread and step. Bound: memory bandwidth.
#include "device.h"

using namespace dp;

// *differ becomes 1 if a[i] != b[i] for some i < n; the caller clears it first.
extern "C" __global__ void words_differ(const u64* a, const u64* b, u64 n, u32* differ) {
  bool found = false;
  for (u64 i = global_thread(); i < n; i += global_threads()) found |= a[i] != b[i];
  if (found) atomicOr(differ, 1u);
}
