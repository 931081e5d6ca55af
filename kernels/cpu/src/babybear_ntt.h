// Transforms over BabyBear on the CPU, in natural order on both sides.
#pragma once
#include "field/babybear.h"
#include "threads.h"

namespace dp {

// Transforms `batch` vectors of 2^log_n items in place. An item has `inner` elements, each transformed on its own.
// `roots`, in Montgomery form: from place 2^k on the first 2^k powers of the 2^(k + 1)-th root of unity, for all k < log_n.
void babybear_ntt(Pool& pool, u32* data, size_t batch, int log_n, size_t inner, const u32* roots);

}  // namespace dp
