// Sums of two products of the extension, reduced once.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {

// a b + c d, reduced as one product is.
DP_HD Ext sum_of_products(const Ext& a, const Ext& b, const Ext& c, const Ext& d) {
#if DP_PTX && !defined(DP_ONE_BLOCK)
  u64 lo3 = a.c[1] * b.c[2], hi3 = __umul64hi(a.c[1], b.c[2]), lo4 = a.c[2] * b.c[2], hi4 = __umul64hi(a.c[2], b.c[2]);
  u32 carried3 = 0, carried4 = 0;
  add_product(lo3, hi3, carried3, a.c[2], b.c[1]);
  add_product(lo3, hi3, carried3, c.c[1], d.c[2]);
  add_product(lo3, hi3, carried3, c.c[2], d.c[1]);
  add_product(lo4, hi4, carried4, c.c[2], d.c[2]);
  u64 lo = lo3, hi = hi3;
  u32 carried = carried3;
  add_product(lo, hi, carried, a.c[0], b.c[0]);
  add_product(lo, hi, carried, c.c[0], d.c[0]);
  Ext r;
  r.c[0] = reduce160(lo, hi, carried);
  add_wide(lo3, hi3, carried3, lo4, hi4);
  carried3 += carried4;
  add_product(lo3, hi3, carried3, a.c[0], b.c[1]);
  add_product(lo3, hi3, carried3, a.c[1], b.c[0]);
  add_product(lo3, hi3, carried3, c.c[0], d.c[1]);
  add_product(lo3, hi3, carried3, c.c[1], d.c[0]);
  r.c[1] = reduce160(lo3, hi3, carried3);
  add_product(lo4, hi4, carried4, a.c[0], b.c[2]);
  add_product(lo4, hi4, carried4, a.c[2], b.c[0]);
  add_product(lo4, hi4, carried4, a.c[1], b.c[1]);
  add_product(lo4, hi4, carried4, c.c[0], d.c[2]);
  add_product(lo4, hi4, carried4, c.c[2], d.c[0]);
  add_product(lo4, hi4, carried4, c.c[1], d.c[1]);
  r.c[2] = reduce160(lo4, hi4, carried4);
  return r;
#else
  return add(mul(a, b), mul(c, d));
#endif
}

}  // namespace gl
}  // namespace dp
