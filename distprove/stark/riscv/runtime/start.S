# Start of a guest: set the global, the stack and the thread pointer, run constructors, call main, exit with what it
# returns. Memory is zero already, and thread-local data lies where the linker put it, as there is one thread.
# guest.rs sets .Lxlen, the bits of a register; in C the preprocessor knows them.
    .ifndef .Lxlen
    .set .Lxlen, __riscv_xlen
    .endif
    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    la tp, __tls_base
    la s0, __init_array_start
    .if .Lxlen == 64
    addi s0, s0, 7  # guest.ld aligns it to four bytes, and the first pointer is at a multiple of eight
    andi s0, s0, -8
    .endif
    la s1, __init_array_end
    j 2f
    .if .Lxlen == 64
1:  ld t0, 0(s0)
    .else
1:  lw t0, 0(s0)
    .endif
    addi s0, s0, .Lxlen / 8
    jalr t0
2:  bltu s0, s1, 1b
    call main
    li a7, 1
    ecall
    .size _start, . - _start
