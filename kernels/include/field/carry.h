// The device's instructions that read or write the carry flag, one function each: PTX, or for the tests' host build of
// the kernels (DP_EMULATE) the same in C++ with the flag in a variable, so that the chains above run on a CPU too.
//
// A chain is a sequence of calls with nothing else of this file between them. The PTX statements are volatile because
// the flag lives between them and volatile statements keep their order.
#pragma once
#include "platform.h"

namespace dp {
namespace carry {

#if DP_PTX

#define DP_CARRY(name, instruction)                                              \
  DP_HD u32 name(u32 a, u32 b) {                                                 \
    u32 r;                                                                       \
    asm volatile(instruction " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));         \
    return r;                                                                    \
  }
DP_CARRY(add_start, "add.cc.u32")
DP_CARRY(add, "addc.cc.u32")
DP_CARRY(add_end, "addc.u32")
DP_CARRY(sub_start, "sub.cc.u32")
DP_CARRY(sub, "subc.cc.u32")
DP_CARRY(sub_end, "subc.u32")
#undef DP_CARRY
// r[0..1] = a * b
DP_HD void mul_pair(u32* r, u32 a, u32 b) {
  asm volatile("mul.lo.u32 %0, %2, %3;\n\tmul.hi.u32 %1, %2, %3;" : "=&r"(r[0]), "=r"(r[1]) : "r"(a), "r"(b));
}
// r[0..1] = a * b + c[0..1]
DP_HD void mad_pair_start(u32* r, u32 a, u32 b, u32 c0, u32 c1) {
  asm volatile("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.cc.u32 %1, %2, %3, %5;"
               : "=&r"(r[0]), "=r"(r[1])
               : "r"(a), "r"(b), "r"(c0), "r"(c1));
}
DP_HD void mad_pair(u32* r, u32 a, u32 b, u32 c0, u32 c1) {
  asm volatile("madc.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.cc.u32 %1, %2, %3, %5;"
               : "=&r"(r[0]), "=r"(r[1])
               : "r"(a), "r"(b), "r"(c0), "r"(c1));
}
// the low word of a * b + c + the carry
DP_HD u32 mad_low_end(u32 a, u32 b, u32 c) {
  u32 r;
  asm volatile("madc.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

#else

// One thread at a time runs emulated kernels. A variable whose address nobody takes stays in a register within a chain.
static u32 flag = 0;
DP_HD u32 add_with(u32 a, u32 b, u32 in) {
  u64 t = (u64)a + b + in;
  flag = (u32)(t >> 32);
  return (u32)t;
}
DP_HD u32 sub_with(u32 a, u32 b, u32 in) {
  u64 t = (u64)a - b - in;
  flag = (u32)(t >> 32) & 1;
  return (u32)t;
}
DP_HD u32 add_start(u32 a, u32 b) { return add_with(a, b, 0); }
DP_HD u32 add(u32 a, u32 b) { return add_with(a, b, flag); }
DP_HD u32 add_end(u32 a, u32 b) { return a + b + flag; }
DP_HD u32 sub_start(u32 a, u32 b) { return sub_with(a, b, 0); }
DP_HD u32 sub(u32 a, u32 b) { return sub_with(a, b, flag); }
DP_HD u32 sub_end(u32 a, u32 b) { return a - b - flag; }
DP_HD void mul_pair(u32* r, u32 a, u32 b) {
  u64 t = (u64)a * b;
  r[0] = (u32)t;
  r[1] = (u32)(t >> 32);
}
DP_HD void mad_pair_with(u32* r, u32 a, u32 b, u32 c0, u32 c1, u32 in) {
  u64 t = (u64)a * b;
  r[0] = add_with((u32)t, c0, in);
  r[1] = add_with((u32)(t >> 32), c1, flag);
}
DP_HD void mad_pair_start(u32* r, u32 a, u32 b, u32 c0, u32 c1) { mad_pair_with(r, a, b, c0, c1, 0); }
DP_HD void mad_pair(u32* r, u32 a, u32 b, u32 c0, u32 c1) { mad_pair_with(r, a, b, c0, c1, flag); }
DP_HD u32 mad_low_end(u32 a, u32 b, u32 c) { return a * b + c + flag; }

#endif

}  // namespace carry
}  // namespace dp
