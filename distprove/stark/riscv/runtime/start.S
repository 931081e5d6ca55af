# Start of a guest: set the global and the stack pointer, call main, exit with what it returns. Memory is zero already.
    .section .text.start, "ax"
    .globl _start
    .type _start, @function
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la sp, __stack_top
    call main
    li a7, 1
    ecall
    .size _start, . - _start
