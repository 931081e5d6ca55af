// The operations of the machine's interpreter, in the order of its table of labels.
#pragma once
#include "riscv.h"

namespace dp::riscv {

// Of RV64IM alone.
#define DP_RISCV_CODES_64(X) \
  X(AUIPC) X(LWU) X(LD) X(SD) X(ADDIW) X(SLLIW) X(SRLIW) X(SRAIW) \
  X(ADDW) X(SUBW) X(SLLW) X(SRLW) X(SRAW) X(MULW) X(DIVW) X(DIVUW) X(REMW) X(REMUW)

// A branch or jump whose target is no instruction of the program, or itself, has a code of its own, one that stops.
#define DP_RISCV_CODES(X) \
  X(ADD) X(SUB) X(SLL) X(SLT) X(SLTU) X(XOR) X(SRL) X(SRA) X(OR) X(AND) \
  X(MUL) X(MULH) X(MULHSU) X(MULHU) X(DIV) X(DIVU) X(REM) X(REMU) \
  X(ADDI) X(SLLI) X(SLTI) X(SLTIU) X(XORI) X(SRLI) X(SRAI) X(ORI) X(ANDI) \
  X(LB) X(LH) X(LW) X(LBU) X(LHU) X(SB) X(SH) X(SW) \
  X(BEQ) X(BNE) X(BLT) X(BGE) X(BLTU) X(BGEU) X(JAL) \
  X(BAD_BEQ) X(BAD_BNE) X(BAD_BLT) X(BAD_BGE) X(BAD_BLTU) X(BAD_BGEU) X(BAD_JAL) \
  X(JALR) X(CONSTANT) X(FENCE) X(ECALL) X(EBREAK) X(ILLEGAL) X(END) DP_RISCV_CODES_64(X)

#define DP_RISCV_ENUM(name) name,
enum Code : u8 { DP_RISCV_CODES(DP_RISCV_ENUM) };
#undef DP_RISCV_ENUM

constexpr u8 TO_BAD = BAD_BEQ - BEQ;  // from a branch or jal to its bad form

// Flags of a page.
constexpr u8 READABLE = 1, WRITABLE = 2;  // open for loads, for stores: each after the first access

// Decode the instruction `word` at `pc`; ILLEGAL if it is not one of RV32IM, or with `wide` of RV64IM. Of jumps and
// branches, imm is the target.
Op decode(u32 word, u32 pc, bool wide);

}  // namespace dp::riscv
