// From instruction words to operations. Formats: RISC-V ISA manual, volume I (20191213), sections 2.2, 2.3, 5 and 7, table
// 24.2.
#include "riscv_codes.h"

namespace dp::riscv {

namespace {

u32 bits(u32 word, int low, int count) { return word >> low & ((1u << count) - 1); }

// The upper `32 - low` bits of the word, with sign.
u32 upper(u32 word, int low) { return (u32)((i32)word >> low); }

u32 immediate_i(u32 word) { return upper(word, 20); }
u32 immediate_s(u32 word) { return (upper(word, 25) << 5) | bits(word, 7, 5); }
u32 immediate_b(u32 word) {
  return (upper(word, 31) << 12) | bits(word, 7, 1) << 11 | bits(word, 25, 6) << 5 | bits(word, 8, 4) << 1;
}
u32 immediate_j(u32 word) {
  return (upper(word, 31) << 20) | bits(word, 12, 8) << 12 | bits(word, 20, 1) << 11 | bits(word, 21, 10) << 1;
}

// Code of an instruction with two registers, or ILLEGAL.
Code register_code(u32 function, u32 more) {
  static constexpr Code BASE[8] = {ADD, SLL, SLT, SLTU, XOR, SRL, OR, AND};
  static constexpr Code PRODUCTS[8] = {MUL, MULH, MULHSU, MULHU, DIV, DIVU, REM, REMU};
  if (more == 0) return BASE[function];
  if (more == 1) return PRODUCTS[function];
  if (more == 32 && function == 0) return SUB;
  if (more == 32 && function == 5) return SRA;
  return ILLEGAL;
}

// Code of an instruction with two registers that computes on 32 bits of them (RV64), or ILLEGAL.
Code register_code_w(u32 function, u32 more) {
  static constexpr Code BASE[8] = {ADDW, SLLW, ILLEGAL, ILLEGAL, ILLEGAL, SRLW, ILLEGAL, ILLEGAL};
  static constexpr Code PRODUCTS[8] = {MULW, ILLEGAL, ILLEGAL, ILLEGAL, DIVW, DIVUW, REMW, REMUW};
  if (more == 0) return BASE[function];
  if (more == 1) return PRODUCTS[function];
  if (more == 32 && function == 0) return SUBW;
  if (more == 32 && function == 5) return SRAW;
  return ILLEGAL;
}

Code immediate_code_w(u32 function, u32 more) {
  if (function == 0) return ADDIW;
  if (function == 1 && more == 0) return SLLIW;
  if (function == 5 && more == 0) return SRLIW;
  if (function == 5 && more == 32) return SRAIW;
  return ILLEGAL;
}

// `more`: the bits above the amount of a shift.
Code immediate_code(u32 function, u32 more) {
  static constexpr Code CODES[8] = {ADDI, SLLI, SLTI, SLTIU, XORI, SRLI, ORI, ANDI};
  if (function == 1 && more != 0) return ILLEGAL;
  if (function == 5 && more != 0) return more == 32 ? SRAI : ILLEGAL;
  return CODES[function];
}

}  // namespace

Op decode(u32 word, u32 pc, bool wide) {
  static constexpr Code LOADS[2][8] = {{LB, LH, LW, ILLEGAL, LBU, LHU, ILLEGAL, ILLEGAL},
                                       {LB, LH, LW, LD, LBU, LHU, LWU, ILLEGAL}};
  static constexpr Code STORES[2][8] = {{SB, SH, SW, ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL},
                                        {SB, SH, SW, SD, ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL}};
  static constexpr Code BRANCHES[8] = {BEQ, BNE, ILLEGAL, ILLEGAL, BLT, BGE, BLTU, BGEU};
  const u32 function = bits(word, 12, 3), more = bits(word, 25, 7);
  const u32 rd = bits(word, 7, 5), rs1 = bits(word, 15, 5), rs2 = bits(word, 20, 5);
  Op op{ILLEGAL, NO_DESTINATION, 0, NO_SECOND, 0, pc, 0};
  const auto destination = [&] { op.rd = rd != 0 ? (u8)rd : (u8)NO_DESTINATION; };
  const auto first = [&] { op.rs1 = (u8)rs1; };
  const auto second = [&] { op.rs2 = rs2 != 0 ? (u8)rs2 : (u8)NO_SECOND; };
  switch (bits(word, 0, 7)) {
    case 0x33:
      op.code = register_code(function, more);
      destination(), first(), second();
      break;
    case 0x13:
      op.code = immediate_code(function, wide ? more & ~1u : more);
      destination(), first();
      op.imm = function == 1 || function == 5 ? bits(word, 20, wide ? 6 : 5) : immediate_i(word);
      break;
    case 0x3b:
      if (!wide) break;
      op.code = register_code_w(function, more);
      destination(), first(), second();
      break;
    case 0x1b:
      if (!wide) break;
      op.code = immediate_code_w(function, more);
      destination(), first();
      op.imm = function == 0 ? immediate_i(word) : rs2;
      break;
    case 0x03:
      op.code = LOADS[wide][function];
      destination(), first();
      op.imm = immediate_i(word);
      break;
    case 0x23:
      op.code = STORES[wide][function];
      first(), second();
      op.imm = immediate_s(word);
      break;
    case 0x63:
      op.code = BRANCHES[function];
      first(), second();
      op.imm = pc + immediate_b(word);
      break;
    case 0x6f:
      op.code = JAL;
      destination();
      op.imm = pc + immediate_j(word);
      break;
    case 0x67:
      op.code = function == 0 ? JALR : ILLEGAL;
      destination(), first();
      op.imm = immediate_i(word);
      break;
    case 0x37:
      op.code = CONSTANT;
      destination();
      op.imm = word & ~0xfffu;
      break;
    case 0x17:
      op.code = wide ? AUIPC : CONSTANT;
      destination();
      op.imm = (word & ~0xfffu) + (wide ? 0 : pc);
      break;
    case 0x0f:
      op.code = function == 0 ? FENCE : ILLEGAL;  // the fields of fence are reserved, and ignored
      break;
    case 0x73:
      if (word == 0x00000073) {
        op.code = ECALL;
        op.rs1 = 17;
        op.rs2 = op.rd = 10;
      } else if (word == 0x00100073) {
        op.code = EBREAK;
      }
      break;
    default:
      break;
  }
  for (const u32 slot : {op.rd, op.rs1, op.rs2})
    if (slot != 0 && slot < REGISTERS) op.uses |= 1u << slot;
  return op;
}

}  // namespace dp::riscv
