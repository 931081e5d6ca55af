// Sums of products over Goldilocks, reduced once at the end.
//
// The four 32 by 32-bit products of a term go into three sums of 96 bits, for weights 1, 2^32 and 2^64: a multiply-add
// with its carry each, where a reduced product and a modular addition would cost three times as much. Room for 2^31 terms.
#pragma once
#include "field/goldilocks.h"

namespace dp {
namespace gl {

struct ProductSum {
  u64 low = 0, mid = 0, high = 0;
  u32 low_carry = 0, mid_carry = 0, high_carry = 0;

  // += a b
  DP_HD void add(u64 a, u64 b) {
    u32 a0 = (u32)a, a1 = (u32)(a >> 32), b0 = (u32)b, b1 = (u32)(b >> 32);
    multiply_add(low, low_carry, a0, b0);
    multiply_add(mid, mid_carry, a0, b1);
    multiply_add(mid, mid_carry, a1, b0);
    multiply_add(high, high_carry, a1, b1);
  }

  DP_HD u64 value() const {
    u64 l = reduce128(low_carry, low), h = reduce128(high_carry, high), m = gl::add(reduce128(mid_carry, mid), h);
    // m 2^32 + h (2^64 - 2^32), and 2^64 - 2^32 = -1
    return sub(gl::add(l, reduce128(m >> 32, m << 32)), h);
  }

 private:
  // The 64 bits are one operand, so that they lie in an aligned register pair as the instruction wants them.
  static DP_HD void multiply_add(u64& sum, u32& carry, u32 a, u32 b) {
#if DP_PTX
    asm("{\n\t"
        ".reg .u32 s0, s1;\n\t"
        "mov.b64 {s0, s1}, %0;\n\t"
        "mad.lo.cc.u32 s0, %2, %3, s0;\n\t"
        "madc.hi.cc.u32 s1, %2, %3, s1;\n\t"
        "addc.u32 %1, %1, 0;\n\t"
        "mov.b64 %0, {s0, s1};\n\t"
        "}"
        : "+l"(sum), "+r"(carry)
        : "r"(a), "r"(b));
#else
    u64 t = (u64)a * b;
    sum += t;
    carry += sum < t;
#endif
  }
};

// A sum of extension elements times base elements.
struct ExtSum {
  ProductSum c[3];

  // += w v
  DP_HD void add(const Ext& w, u64 v) {
    c[0].add(w.c[0], v);
    c[1].add(w.c[1], v);
    c[2].add(w.c[2], v);
  }

  DP_HD Ext value() const { return {{c[0].value(), c[1].value(), c[2].value()}}; }
};

// A sum of products of extension elements: coefficients of 1 to x^4, brought down by x^3 = x + 1 at the end.
struct ExtProductSum {
  ProductSum c[5];

  // += a b
  DP_HD void add(const Ext& a, const Ext& b) {
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) c[i + j].add(a.c[i], b.c[j]);
  }

  DP_HD Ext value() const {
    u64 c3 = c[3].value(), c4 = c[4].value();
    return {{gl::add(c[0].value(), c3), gl::add(c[1].value(), gl::add(c3, c4)), gl::add(c[2].value(), c4)}};
  }
};

}  // namespace gl
}  // namespace dp
