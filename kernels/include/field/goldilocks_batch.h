// Inverting many elements for the price of one (Montgomery's trick), extension elements by way of their norms.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {

DP_HD u64 norm(const Ext& a) { return norm(a, adjugate(a)); }

// Every element becomes its inverse; zero becomes one, which leaves an adjugate of zero what it is.
template <int N>
DP_HD void invert_all(u64 (&v)[N]) {
  u64 before[N];  // product of the elements before this one
  u64 product = 1;
  DP_PRAGMA(unroll)
  for (int i = 0; i < N; ++i) {
    if (v[i] == 0) v[i] = 1;
    before[i] = product;
    product = mul(product, v[i]);
  }
  u64 rest = inverse(product);  // of the product of the elements up to and with i
  DP_PRAGMA(unroll)
  for (int i = N - 1; i >= 0; --i) {
    u64 x = mul(rest, before[i]);
    rest = mul(rest, v[i]);
    v[i] = x;
  }
}

// Powers of a root of unity: 2^log_low low ones, then the high ones, each times the table's first element.
struct Powers {
  const u64* table;
  u32 log_low;

  DP_HD u64 operator[](u64 i) const {
    u64 low = 1ull << log_low;
    return mul(table[i & (low - 1)], table[low + (i >> log_low)]);
  }
};

}  // namespace gl
}  // namespace dp
