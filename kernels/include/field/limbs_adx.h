// Montgomery arithmetic on 4 and 6 limbs for x86-64 with BMI2 and ADX: mulx leaves the flags alone, and adcx and adox carry
// two chains at once, so a row of the product costs its multiplications and little more. Compilers do not find this form.
//
// The product interleaves rows of a * b[i] with reduction steps (Acar's CIOS). Every modulus here leaves its top bit clear, so
// a row and its reduction carry into one spare word only.
#pragma once
#include "field/params.h"

namespace dp {

template <class P>
struct AdxConstants {
  static constexpr Words<P::LIMBS64> MODULUS = P::words();
  static constexpr u64 NEG_INVERSE = P::inv64();
};

// clang-format off

// t = a * b[0]; h is the word above t
#define DP_TIMES_A(k, lo, hi) "mulxq 8*" #k "(%[a]), %[" lo "], %[" hi "]\n\t"
#define DP_CARRY_OUT_OF_FIRST(t) "adcq $0, %[" t "]\n\t"
// t[k] += lo, t[k + 1] += hi, on two carry chains
#define DP_ROW_STEP(k, tk, hi) DP_TIMES_A(k, "lo", hi) "adoxq %[lo], %[" tk "]\n\t"
// t[k - 1] = t[k] + lo + carry, hi to t[k]
#define DP_REDUCE_STEP(k, below, tk) \
  "adcxq %[" tk "], %[" below "]\n\tmulxq %[q" #k "], %[lo], %[" tk "]\n\tadoxq %[lo], %[" below "]\n\t"
#define DP_REDUCE_FIRST \
  "movq %[t0], %%rdx\n\timulq %[inv], %%rdx\n\txorl %k[lo], %k[lo]\n\t" \
  "mulxq %[q0], %[lo], %[hi]\n\tadcxq %[t0], %[lo]\n\tmovq %[hi], %[t0]\n\t"
#define DP_REDUCE_LAST(top, spare) "movl $0, %k[lo]\n\tadcxq %[lo], %[" top "]\n\tadoxq %[" spare "], %[" top "]\n\t"
#define DP_ROW_FIRST(i) "xorl %k[lo], %k[lo]\n\tmovq 8*" #i "(%[b]), %%rdx\n\t" DP_ROW_STEP(0, "t0", "hi")
#define DP_CHAIN(t) "adcxq %[hi], %[" t "]\n\t"
#define DP_ROW_LAST(spare) "movl $0, %k[lo]\n\tadcxq %[lo], %[" spare "]\n\tadoxq %[lo], %[" spare "]\n\t"

#define DP_REDUCE4 \
  DP_REDUCE_FIRST DP_REDUCE_STEP(1, "t0", "t1") DP_REDUCE_STEP(2, "t1", "t2") DP_REDUCE_STEP(3, "t2", "t3") \
  DP_REDUCE_LAST("t3", "t4")
#define DP_ROW4(i) \
  DP_ROW_FIRST(i) DP_CHAIN("t1") DP_ROW_STEP(1, "t1", "hi") DP_CHAIN("t2") DP_ROW_STEP(2, "t2", "hi") \
  DP_CHAIN("t3") DP_ROW_STEP(3, "t3", "t4") DP_ROW_LAST("t4")

#define DP_REDUCE6 \
  DP_REDUCE_FIRST DP_REDUCE_STEP(1, "t0", "t1") DP_REDUCE_STEP(2, "t1", "t2") DP_REDUCE_STEP(3, "t2", "t3") \
  DP_REDUCE_STEP(4, "t3", "t4") DP_REDUCE_STEP(5, "t4", "t5") DP_REDUCE_LAST("t5", "t6")
#define DP_ROW6(i) \
  DP_ROW_FIRST(i) DP_CHAIN("t1") DP_ROW_STEP(1, "t1", "hi") DP_CHAIN("t2") DP_ROW_STEP(2, "t2", "hi") \
  DP_CHAIN("t3") DP_ROW_STEP(3, "t3", "hi") DP_CHAIN("t4") DP_ROW_STEP(4, "t4", "hi") \
  DP_CHAIN("t5") DP_ROW_STEP(5, "t5", "t6") DP_ROW_LAST("t6")

// r = t - q if that is not negative, else t; s is scratch
#define DP_TRY_FIRST "movq %[t0], %[s0]\n\tsubq %[q0], %[s0]\n\t"
#define DP_TRY(k) "movq %[t" #k "], %[s" #k "]\n\tsbbq %[q" #k "], %[s" #k "]\n\t"
#define DP_KEEP(k) "cmovncq %[s" #k "], %[t" #k "]\n\t"

#define DP_MODULUS4 [q0] "m"(Q.w[0]), [q1] "m"(Q.w[1]), [q2] "m"(Q.w[2]), [q3] "m"(Q.w[3])
#define DP_MODULUS6 DP_MODULUS4, [q4] "m"(Q.w[4]), [q5] "m"(Q.w[5])

template <class P>
DP_HD void adx_mul4(u64* r, const u64* a, const u64* b) {
  constexpr const Words<4>& Q = AdxConstants<P>::MODULUS;
  u64 t0, t1, t2, t3, t4, lo, hi;
  asm inline(
      "movq (%[b]), %%rdx\n\t"
      DP_TIMES_A(0, "t0", "t1")
      DP_TIMES_A(1, "lo", "t2") "addq %[lo], %[t1]\n\t"
      DP_TIMES_A(2, "lo", "t3") "adcq %[lo], %[t2]\n\t"
      DP_TIMES_A(3, "lo", "t4") "adcq %[lo], %[t3]\n\t"
      DP_CARRY_OUT_OF_FIRST("t4")
      DP_REDUCE4 DP_ROW4(1) DP_REDUCE4 DP_ROW4(2) DP_REDUCE4 DP_ROW4(3) DP_REDUCE4
      // t < 2 q: subtract once, in the registers that are free now
      "movq %[t0], %[t4]\n\tsubq %[q0], %[t4]\n\t"
      "movq %[t1], %[lo]\n\tsbbq %[q1], %[lo]\n\t"
      "movq %[t2], %[hi]\n\tsbbq %[q2], %[hi]\n\t"
      "movq %[t3], %%rdx\n\tsbbq %[q3], %%rdx\n\t"
      "cmovncq %[t4], %[t0]\n\tcmovncq %[lo], %[t1]\n\tcmovncq %[hi], %[t2]\n\tcmovncq %%rdx, %[t3]\n\t"
      : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [lo] "=&r"(lo), [hi] "=&r"(hi)
      : [a] "r"(a), [b] "r"(b), [inv] "m"(AdxConstants<P>::NEG_INVERSE), DP_MODULUS4,
        "m"(*(const u64(*)[4])a), "m"(*(const u64(*)[4])b)
      : "rdx", "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3;
}

template <class P>
DP_HD void adx_mul6(u64* r, const u64* a, const u64* b) {
  constexpr const Words<6>& Q = AdxConstants<P>::MODULUS;
  u64 t0, t1, t2, t3, t4, t5, t6, lo, hi;
  asm inline(
      "movq (%[b]), %%rdx\n\t"
      DP_TIMES_A(0, "t0", "t1")
      DP_TIMES_A(1, "lo", "t2") "addq %[lo], %[t1]\n\t"
      DP_TIMES_A(2, "lo", "t3") "adcq %[lo], %[t2]\n\t"
      DP_TIMES_A(3, "lo", "t4") "adcq %[lo], %[t3]\n\t"
      DP_TIMES_A(4, "lo", "t5") "adcq %[lo], %[t4]\n\t"
      DP_TIMES_A(5, "lo", "t6") "adcq %[lo], %[t5]\n\t"
      DP_CARRY_OUT_OF_FIRST("t6")
      DP_REDUCE6 DP_ROW6(1) DP_REDUCE6 DP_ROW6(2) DP_REDUCE6 DP_ROW6(3) DP_REDUCE6 DP_ROW6(4) DP_REDUCE6 DP_ROW6(5)
      DP_REDUCE6
      // t < 2 q: subtract once; the addresses of a and b are not needed any more
      "movq %[t0], %[t6]\n\tsubq %[q0], %[t6]\n\t"
      "movq %[t1], %[lo]\n\tsbbq %[q1], %[lo]\n\t"
      "movq %[t2], %[hi]\n\tsbbq %[q2], %[hi]\n\t"
      "movq %[t3], %%rdx\n\tsbbq %[q3], %%rdx\n\t"
      "movq %[t4], %[a]\n\tsbbq %[q4], %[a]\n\t"
      "movq %[t5], %[b]\n\tsbbq %[q5], %[b]\n\t"
      "cmovncq %[t6], %[t0]\n\tcmovncq %[lo], %[t1]\n\tcmovncq %[hi], %[t2]\n\tcmovncq %%rdx, %[t3]\n\t"
      "cmovncq %[a], %[t4]\n\tcmovncq %[b], %[t5]\n\t"
      : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [t6] "=&r"(t6),
        [lo] "=&r"(lo), [hi] "=&r"(hi), [a] "+&r"(a), [b] "+&r"(b)
      : [inv] "m"(AdxConstants<P>::NEG_INVERSE), DP_MODULUS6, "m"(*(const u64(*)[6])a), "m"(*(const u64(*)[6])b)
      : "rdx", "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3; r[4] = t4; r[5] = t5;
}

#define DP_ADC(k) "adcq 8*" #k "(%[b]), %[t" #k "]\n\t"
#define DP_SBB(k) "sbbq 8*" #k "(%[b]), %[t" #k "]\n\t"
#define DP_LOAD_Q(k) "movq %[q" #k "], %[s" #k "]\n\t"
#define DP_UNLESS_BORROW(k) "cmovncq %[z], %[s" #k "]\n\t"
#define DP_ADD_BACK(k) "adcq %[s" #k "], %[t" #k "]\n\t"
#define DP_T4 [t0] "+&r"(t0), [t1] "+&r"(t1), [t2] "+&r"(t2), [t3] "+&r"(t3)
#define DP_S4 [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3)
#define DP_B(n) [b] "r"(b), "m"(*(const u64(*)[n])b)

template <class P>
DP_HD void adx_add4(u64* r, const u64* a, const u64* b) {
  constexpr const Words<4>& Q = AdxConstants<P>::MODULUS;
  u64 t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], s0, s1, s2, s3;
  asm inline(
      "addq (%[b]), %[t0]\n\t" DP_ADC(1) DP_ADC(2) DP_ADC(3)
      DP_TRY_FIRST DP_TRY(1) DP_TRY(2) DP_TRY(3)
      DP_KEEP(0) DP_KEEP(1) DP_KEEP(2) DP_KEEP(3)
      : DP_T4, DP_S4 : DP_B(4), DP_MODULUS4 : "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3;
}

template <class P>
DP_HD void adx_sub4(u64* r, const u64* a, const u64* b) {
  constexpr const Words<4>& Q = AdxConstants<P>::MODULUS;
  u64 t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], s0, s1, s2, s3;
  asm inline(
      DP_LOAD_Q(0) DP_LOAD_Q(1) DP_LOAD_Q(2) DP_LOAD_Q(3)
      "subq (%[b]), %[t0]\n\t" DP_SBB(1) DP_SBB(2) DP_SBB(3)
      DP_UNLESS_BORROW(0) DP_UNLESS_BORROW(1) DP_UNLESS_BORROW(2) DP_UNLESS_BORROW(3)
      "addq %[s0], %[t0]\n\t" DP_ADD_BACK(1) DP_ADD_BACK(2) DP_ADD_BACK(3)
      : DP_T4, DP_S4 : DP_B(4), [z] "r"((u64)0), DP_MODULUS4 : "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3;
}

template <class P>
DP_HD void adx_add6(u64* r, const u64* a, const u64* b) {
  constexpr const Words<6>& Q = AdxConstants<P>::MODULUS;
  u64 t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], t4 = a[4], t5 = a[5], s0, s1, s2, s3, s4, s5;
  asm inline(
      "addq (%[b]), %[t0]\n\t" DP_ADC(1) DP_ADC(2) DP_ADC(3) DP_ADC(4) DP_ADC(5)
      DP_TRY_FIRST DP_TRY(1) DP_TRY(2) DP_TRY(3) DP_TRY(4) DP_TRY(5)
      DP_KEEP(0) DP_KEEP(1) DP_KEEP(2) DP_KEEP(3) DP_KEEP(4) DP_KEEP(5)
      : DP_T4, [t4] "+&r"(t4), [t5] "+&r"(t5), DP_S4, [s4] "=&r"(s4), [s5] "=&r"(s5)
      : DP_B(6), DP_MODULUS6 : "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3; r[4] = t4; r[5] = t5;
}

template <class P>
DP_HD void adx_sub6(u64* r, const u64* a, const u64* b) {
  constexpr const Words<6>& Q = AdxConstants<P>::MODULUS;
  static constexpr u64 ZERO = 0;  // in memory: twelve registers hold limbs
  u64 t0 = a[0], t1 = a[1], t2 = a[2], t3 = a[3], t4 = a[4], t5 = a[5], s0, s1, s2, s3, s4, s5;
  asm inline(
      DP_LOAD_Q(0) DP_LOAD_Q(1) DP_LOAD_Q(2) DP_LOAD_Q(3) DP_LOAD_Q(4) DP_LOAD_Q(5)
      "subq (%[b]), %[t0]\n\t" DP_SBB(1) DP_SBB(2) DP_SBB(3) DP_SBB(4) DP_SBB(5)
      DP_UNLESS_BORROW(0) DP_UNLESS_BORROW(1) DP_UNLESS_BORROW(2) DP_UNLESS_BORROW(3) DP_UNLESS_BORROW(4)
      DP_UNLESS_BORROW(5)
      "addq %[s0], %[t0]\n\t" DP_ADD_BACK(1) DP_ADD_BACK(2) DP_ADD_BACK(3) DP_ADD_BACK(4) DP_ADD_BACK(5)
      : DP_T4, [t4] "+&r"(t4), [t5] "+&r"(t5), DP_S4, [s4] "=&r"(s4), [s5] "=&r"(s5)
      : DP_B(6), [z] "m"(ZERO), DP_MODULUS6 : "cc");
  r[0] = t0; r[1] = t1; r[2] = t2; r[3] = t3; r[4] = t4; r[5] = t5;
}

// clang-format on

}  // namespace dp
