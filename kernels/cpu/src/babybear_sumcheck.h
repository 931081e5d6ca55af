// Rounds of sumchecks over BabyBear's extension on the CPU. A table has 2 n elements of 4 canonical coordinates each; its first
// variable joins neighbours.
#pragma once
#include "field/babybear.h"
#include "threads.h"

namespace dp {

// out[i] = table[2 i] + (table[2 i + 1] - table[2 i]) at, for n elements.
void babybear_fold(Pool& pool, const u32* table, const u32* at, size_t n, u32* out);

// sums[x - 1] = the sum over i of a(x, i) b(x, i) for x = 1, 2: values on the line through neighbours.
void babybear_pair_round(Pool& pool, const u32* a, const u32* b, size_t n, u32* sums);

// sums[x - 1] = the sum over i of eq ((p0 + batch q0) q1 + p1 q0) for x = 1, 2, 3. `halves`: p0, p1, q0, q1, 2 n elements each.
void babybear_layer_round(Pool& pool, const u32* eq, const u32* halves, const u32* batch, size_t n, u32* sums);

}  // namespace dp
