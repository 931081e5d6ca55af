// Where every call of a guest arrives: from its trampoline, with ra behind that and the guest's own ra where the trampoline saved
// it (trampolines.py).
//
// SP1's calls have their operands in a0 to a4, and their number and result in t0: all other registers come back as they were.
// With OPERANDS_IN_MEMORY, for OpenVM's, the operands are at -72, -76 and -80, the first of them is the result, the call's number
// is at -84, and t0 comes back, too.
//
// RV32IM addresses the top of memory from x0, so no register is needed to save the first: ra of the guest is at -4. RV64IM has
// only the words below the stack for that: ra of the guest is at -8(sp). They move from there to the handler's own memory at
// once, as the call may write below the stack. A stack in the handler's memory is refused: saving would overwrite what it keeps.
//
// With HINTS, the registers that C keeps are in memory too, where the handler finds and replaces all of them.
#if __riscv_xlen == 64
#define SAVE(register, place) sd register, %lo(saved + 8 * place)(t1)
#define RESTORE(register, place) ld register, %lo(saved + 8 * place)(t1)
#else
#define SAVE(register, place) sw register, -8 - 4 * place(x0)
#define RESTORE(register, place) lw register, -8 - 4 * place(x0)
#endif
#define OTHERS(do) \
  do(t2, 3); do(a0, 4); do(a1, 5); do(a2, 6); do(a3, 7); do(a4, 8); do(a5, 9); do(a6, 10); do(a7, 11); do(t3, 12); do(t4, 13); \
  do(t5, 14); do(t6, 15); KEPT(do)
#ifdef HINTS
#define KEPT(do) \
  do(s0, 17); do(s1, 18); do(s2, 19); do(s3, 20); do(s4, 21); do(s5, 22); do(s6, 23); do(s7, 24); do(s8, 25); do(s9, 26); \
  do(s10, 27); do(s11, 28)
#else
#define KEPT(do)
#endif

#if __riscv_xlen == 64
  .section .bss.saved, "aw", @nobits
  .balign 256
  .globl saved
saved:
  .zero 8 * 30
#endif

  .section .text.entry, "ax"
  .globl handler
handler:
#if __riscv_xlen == 64
  sd t1, -16(sp)
  lui t1, %hi(saved)
  SAVE(ra, 0)
  SAVE(sp, 1)
  ld ra, -16(sp)
  SAVE(ra, 2)
  ld ra, -8(sp)
  SAVE(ra, 16)
#else
  SAVE(ra, 0)
  SAVE(sp, 1)
  SAVE(t1, 2)
#endif
  OTHERS(SAVE)
#if __riscv_xlen == 64
  addi t2, sp, -1
  srli t2, t2, 28
  addi t2, t2, -1
  bnez t2, 1f
  lui a7, 0x80000
  or a7, a7, t0
  ecall
1:
#endif
#ifdef OPERANDS_IN_MEMORY
  sw t0, -88(x0)
#endif
  lui sp, %hi(__handler_stack)
#ifdef OPERANDS_IN_MEMORY
  lw a0, -72(x0)
  lw a1, -76(x0)
  lw a2, -80(x0)
  lw a3, -84(x0)
  jal answer
  sw a0, -72(x0)
#else
  mv a5, t0
  jal answer
  mv t0, a0
#endif
#if __riscv_xlen == 64
  lui t1, %hi(saved)
  RESTORE(sp, 1)
  RESTORE(ra, 16)
  sd ra, -8(sp)
  RESTORE(ra, 0)
  OTHERS(RESTORE)
  RESTORE(t1, 2)
#else
  RESTORE(ra, 0)
  RESTORE(sp, 1)
  RESTORE(t1, 2)
  OTHERS(RESTORE)
#endif
#ifdef OPERANDS_IN_MEMORY
  lw t0, -88(x0)
#endif
  ret
