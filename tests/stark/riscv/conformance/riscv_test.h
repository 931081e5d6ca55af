// The environment of riscv-tests on our machine: a test exits with 0, or with the number of the case that failed.
#ifndef RISCV_TEST_H
#define RISCV_TEST_H

#define TESTNUM gp
#define RVTEST_RV32U
#define RVTEST_RV64U
#define RVTEST_CODE_BEGIN \
  .text;                  \
  .globl _start;          \
  _start : li TESTNUM, 0
#define RVTEST_CODE_END ebreak
#define RVTEST_PASS \
  li a0, 0;         \
  li a7, 1;         \
  ecall
#define RVTEST_FAIL \
  mv a0, TESTNUM;   \
  li a7, 1;         \
  ecall
#define RVTEST_DATA_BEGIN
#define RVTEST_DATA_END

#endif
