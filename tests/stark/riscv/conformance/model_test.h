// The environment of riscv-arch-test on our machine: a test writes its signature to the public output, and exits with 0.
#ifndef MODEL_TEST_H
#define MODEL_TEST_H

#define XLEN 32
#define RVMODEL_BOOT \
  .globl _start;     \
  _start:
#define RVMODEL_HALT  \
  la t0, begin_signature; \
  la t1, end_signature;   \
  li a7, 2;               \
  1 : bgeu t0, t1, 2f;    \
  lw a0, 0(t0);           \
  ecall;                  \
  addi t0, t0, 4;         \
  j 1b;                   \
  2 : li a0, 0;           \
  li a7, 1;               \
  ecall;
#define RVMODEL_DATA_BEGIN \
  .align 4;                \
  .globl begin_signature;  \
  begin_signature:
#define RVMODEL_DATA_END \
  .align 4;              \
  .globl end_signature;  \
  end_signature:

#define RVMODEL_IO_INIT
#define RVMODEL_IO_WRITE_STR(_R, _STR)
#define RVMODEL_IO_CHECK()
#define RVMODEL_IO_ASSERT_GPR_EQ(_S, _R, _I)
#define RVMODEL_IO_ASSERT_SFPR_EQ(_F, _R, _I)
#define RVMODEL_IO_ASSERT_DFPR_EQ(_D, _R, _I)
#define RVMODEL_SET_MSW_INT
#define RVMODEL_CLEAR_MSW_INT
#define RVMODEL_CLEAR_MTIMER_INT
#define RVMODEL_CLEAR_MEXT_INT

#endif
