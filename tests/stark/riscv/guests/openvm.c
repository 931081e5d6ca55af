// A guest that makes the calls of OpenVM. Each buffer of its input is an operation: its number, and operands. What it gives is
// revealed. Exits with the number of registers that a call changed.
#include <stdint.h>

#define R(funct3, funct7, rd, rs1, rs2) \
  __asm__ volatile(".insn r 0x0b, " #funct3 ", " #funct7 ", %0, %1, %2" ::"r"(rd), "r"(rs1), "r"(rs2) : "memory")
#define I(funct3, immediate, rd, rs1) \
  __asm__ volatile(".insn i 0x0b, " #funct3 ", %0, %1, " #immediate ::"r"(rd), "r"(rs1) : "memory")

enum { KECCAK_F = 32, XOR_IN, SHA_256, EQUAL, UNREAD, WILD };

static uint32_t in[160];
static uint32_t* const a = in;
static uint32_t* const b = in + 8;
static uint32_t* const to = in + 72;

static uint32_t read_word(void) {
  uint32_t word;
  I(1, 0, &word, 0);
  return word;
}

static uint32_t revealed;
static void reveal(uint32_t word) {
  I(2, -4, revealed + 4, word);
  revealed += 4;
}

#define INT256(n) \
  case n:         \
    R(5, n, to, a, b); \
    return 8;

// The number of words in `to` that the operation gives.
static uint32_t operation(uint32_t number) {
  switch (number) {
    INT256(0) INT256(1) INT256(2) INT256(3) INT256(4) INT256(5) INT256(6) INT256(7) INT256(8) INT256(9) INT256(10)
    case KECCAK_F:
      for (int i = 0; i < 50; ++i) to[i] = in[i];
      R(4, 0, to, 0, 0);
      return 50;
    case XOR_IN:
      for (int i = 0; i < 34; ++i) to[i] = in[i];
      R(4, 1, to, in + 34, 4 * 34);
      return 34;
    case SHA_256:
      R(4, 2, to, in, in + 8);
      return 8;
    case EQUAL:
      to[0] = 1;
      __asm__ goto(".insn b 0x0b, 6, %0, %1, %l2" ::"r"(a), "r"(b) : "memory" : same);
      to[0] = 0;
    same:
      return 1;
    case UNREAD:
      to[0] = read_word();
      return 1;
    case WILD:
      I(1, 1, in[0], in[1]);
      return 0;
    default:
      I(2, 0, 4096, 0);  // not the next place
      return 0;
  }
}

// Fill all registers, make two calls that read registers which trampolines use, and count those that differ.
__attribute__((naked)) static uint32_t changed(uint32_t place __attribute__((unused))) {
  __asm__ volatile(
      "addi sp, sp, -64\n sw ra, 0(sp)\n sw s0, 4(sp)\n sw s1, 8(sp)\n sw s2, 12(sp)\n mv t0, a0\n"
      "li t1, 102\n li t2, 103\n li s0, 104\n li s1, 105\n li a0, 100\n li a1, 101\n li a2, 99\n li a3, 106\n li a4, 107\n"
      "li a5, 108\n li a6, 109\n li a7, 110\n li s2, 111\n li t3, 112\n li t4, 113\n li t5, 114\n li t6, 115\n li ra, 77\n"
      ".insn i 0x0b, 2, t0, ra, 0\n"   // reveals 77
      "mv ra, t0\n"
      ".insn i 0x0b, 2, ra, t6, 4\n"   // reveals 115
      "sub t0, ra, t0\n"
#define CHECK(register, value) "li ra, " #value "\n sub ra, ra, " #register "\n snez ra, ra\n add t0, t0, ra\n"
      CHECK(a0, 100) CHECK(a1, 101) CHECK(a2, 99) CHECK(t1, 102) CHECK(t2, 103) CHECK(s0, 104) CHECK(s1, 105) CHECK(a3, 106)
      CHECK(a4, 107) CHECK(a5, 108) CHECK(a6, 109) CHECK(a7, 110) CHECK(s2, 111) CHECK(t3, 112) CHECK(t4, 113) CHECK(t5, 114)
      CHECK(t6, 115)
      "mv a0, t0\n lw ra, 0(sp)\n lw s0, 4(sp)\n lw s1, 8(sp)\n lw s2, 12(sp)\n addi sp, sp, 64\n ret\n");
}

static void run(void) {
  I(3, 0, 0, 0);  // the first buffer: how many follow
  read_word();
  for (uint32_t left = read_word(); left; --left) {
    I(3, 0, 0, 0);
    const uint32_t words = read_word() / 4 - 1, number = read_word();
    for (int i = 0; i < 160; ++i) in[i] = 0;
    if (words) I(1, 1, in, words);
    const uint32_t given = operation(number);
    for (uint32_t i = 0; i < given; ++i) reveal(to[i]);
  }
  I(3, 1, "a word of no consequence", 24);
  if (changed(revealed)) I(0, 1, 0, 0);
  I(0, 0, 0, 0);
}

__asm__(".section .text.start\n .globl _start\n_start:\n li sp, 0x200400\n j main\n .text\n");
void main(void) { run(); }
