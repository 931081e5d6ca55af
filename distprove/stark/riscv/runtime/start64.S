# start.S for guests of RV64IM, whose pointers have eight bytes.
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
    addi s0, s0, 7  # guest.ld aligns it to four bytes, and the first pointer is at a multiple of eight
    andi s0, s0, -8
    la s1, __init_array_end
    j 2f
1:  ld t0, 0(s0)
    addi s0, s0, 8
    jalr t0
2:  bltu s0, s1, 1b
    call main
    li a7, 1
    ecall
    .size _start, . - _start
