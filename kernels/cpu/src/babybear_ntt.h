// Transforms over BabyBear on the CPU, in natural order on both sides.
#pragma once
#include "field/babybear.h"
#include "threads.h"

namespace dp {

// Transforms `batch` vectors of 2^log_n items in place. An item has `inner` elements, each transformed on its own.
// `roots`: the first 2^(log_n - 1) powers of the root of unity, in Montgomery form, or none for log_n = 0.
void babybear_ntt(Pool& pool, u32* data, size_t batch, int log_n, size_t inner, const u32* roots);

}  // namespace dp
