// Products of matrices over BabyBear on the CPU.
#pragma once
#include "field/babybear.h"
#include "threads.h"

namespace dp {

// out (rows, columns) = a (rows, inner) b (inner, columns), canonical elements, rows one after the other. `inner` is below
// 2^32.
void babybear_matmul(Pool& pool, const u32* a, const u32* b, size_t rows, size_t inner, size_t columns, u32* out);

}  // namespace dp
