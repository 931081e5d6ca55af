# Start of a guest: set the global, the stack and the thread pointer, run constructors, call main, exit with what it
# returns. Memory is zero already, and thread-local data lies where the linker put it, as there is one thread.
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
    la s1, __init_array_end
    j 2f
1:  lw t0, 0(s0)
    addi s0, s0, 4
    jalr t0
2:  bltu s0, s1, 1b
    call main
    li a7, 1
    ecall
    .size _start, . - _start
