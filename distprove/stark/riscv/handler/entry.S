// Where every call of a guest arrives: from its trampoline, with ra behind that and the guest's own ra at -4. The top of memory
// is addressed from x0, so no register is needed to save the first.
//
// SP1's calls have their operands in registers, and their number and result in t0: all other registers come back as they were.
// With OPERANDS_IN_MEMORY, for OpenVM's, the operands are at -72, -76 and -80, the first of them is the result, the call's number
// is at -84, and t0 comes back, too.
  .section .text.entry, "ax"
  .globl handler
handler:
  sw ra, -8(x0)
  sw sp, -12(x0)
  sw t1, -16(x0)
  sw t2, -20(x0)
  sw a0, -24(x0)
  sw a1, -28(x0)
  sw a2, -32(x0)
  sw a3, -36(x0)
  sw a4, -40(x0)
  sw a5, -44(x0)
  sw a6, -48(x0)
  sw a7, -52(x0)
  sw t3, -56(x0)
  sw t4, -60(x0)
  sw t5, -64(x0)
  sw t6, -68(x0)
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
  mv a3, t0
  jal answer
  mv t0, a0
#endif
  lw ra, -8(x0)
  lw sp, -12(x0)
  lw t1, -16(x0)
  lw t2, -20(x0)
  lw a0, -24(x0)
  lw a1, -28(x0)
  lw a2, -32(x0)
  lw a3, -36(x0)
  lw a4, -40(x0)
  lw a5, -44(x0)
  lw a6, -48(x0)
  lw a7, -52(x0)
  lw t3, -56(x0)
  lw t4, -60(x0)
  lw t5, -64(x0)
  lw t6, -68(x0)
#ifdef OPERANDS_IN_MEMORY
  lw t0, -88(x0)
#endif
  ret
