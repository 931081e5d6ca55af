// What a prover computes over BabyBear's extension from a challenge, between two messages: powers, eq of many places, and sums of
// products of table entries. Elements are canonical, 4 words each; all of it on one thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "field/babybear.h"

namespace dp {

// out[i] = base^i for i < n.
void babybear_ext_powers(const u32* base, size_t n, u32* out);

// out[i], of n elements, is the product over j from log_rows[i] to k - 1 of point[j] where bit j of starts[i] is set, and of
// 1 - point[j] where it is not. No log_rows is negative.
void babybear_eq_of_places(const u32* point, size_t k, const int64_t* starts, const int64_t* log_rows, size_t n, u32* out);

// out[to[i]] += a[at_a[i]] b[at_b[i]] for i < n. The indices are in range.
void babybear_sum_products(const u32* a, const int64_t* at_a, const u32* b, const int64_t* at_b, const int64_t* to, size_t n, u32* out);

}  // namespace dp
