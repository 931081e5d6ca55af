"""Decodes instructions into the fields of the table `rom`, which say what a row of the table `cpu` must do.

Every instruction is one of a few forms: `a` is a register or 0, `b` a register or the constant `imm`. `lui`, `auipc`
and `jal` add a constant to 0. `disp` is what a store adds to `a`, and the target of a jump or branch, so that no row
computes with `pc` but to add 4. Words that are no instructions of RV32IM have no row: no execution that reaches one can
be proven. RV64IM has three more flags, and the upper half of the constant.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distprove.stark.riscv.buses import ALU_OPS, NARROW_OPS
from distprove.stark.riscv.record import U32, Words64

FLAGS = (
    "add",
    "sub",
    "alu",
    "eq",
    "branch",
    "jal",
    "jalr",
    "load",
    "store",
    "narrow",
    "ecall",
    "read1",
    "read2",
    "write",
    "negate",
)
"""The flags of an instruction, lowest bit first."""
FLAGS_64 = (*FLAGS, "wide", "pair", "sext")
"""The flags of RV64IM: an operation on 64 bits, an access of eight bytes, a result that the sign of its lower half
extends."""
NO_PC = 1 << 40
"""The `pc` of rows that fill the table up, which no row of `cpu` can have."""
NOWHERE = 1 << 41
"""In place of the target of a jump of RV64IM beyond 32 bits, where no row is."""
LAST_PC = (1 << 32) - 8
MASK = np.int64(0xFFFFFFFF)
OP_NAMES = (
    ("add", "sll", "slt", "sltu", "xor", "srl", "or", "and"),
    ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"),
)
"""The operations of two registers by the field funct3: those whose funct7 is 0, and those whose funct7 is 1."""
WORD_OPS = (
    {0: "add", 1: "sll", 5: "srl"},
    {0: "mul", 4: "div", 5: "divu", 6: "rem", 7: "remu"},
)
"""The same of RV64's operations on lower halves."""


def bits(*names: str) -> int:
    """The number that stands for these flags."""
    return sum(1 << FLAGS_64.index(name) for name in names)


def decode(address: U32, word: U32, xlen: int = 32) -> Words64:
    """The fields of the instructions at these addresses, (8, n) in the order of `ROM.fields`, n the valid ones. With
    `xlen` 64 they are those of RV64IM, (9, n) in the order of `ROM_64.fields`."""
    wide = xlen == 64
    w, pc = word.astype(np.int64), address.astype(np.int64)
    opcode, funct3, funct7 = w & 127, w >> 12 & 7, w >> 25
    rd, rs1, rs2 = w >> 7 & 31, w >> 15 & 31, w >> 20 & 31
    signed = word.view(np.int32).astype(np.int64)
    i_imm, u_imm = signed >> 20, signed & ~np.int64(0xFFF)
    s_imm = (signed >> 25 << 5) | rd
    b_imm = (signed >> 31 << 12) | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1
    j_imm = (signed >> 31 << 20) | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1

    n = len(w)
    flags, op, imm, disp = (np.zeros(n, dtype=np.int64) for _ in range(4))
    reads1, reads2, writes = (np.zeros(n, dtype=bool) for _ in range(3))
    first, second, target = rs1.copy(), rs2.copy(), rd.copy()

    def put(where: NDArray[np.bool_], given: int, code: int = 0) -> None:
        flags[where] |= given
        op[where] = code

    for where, value in ((opcode == 0x37, u_imm), (opcode == 0x17, pc + u_imm), (opcode == 0x6F, pc + 4)):
        put(where, bits("add"))
        imm[where] = value[where]
        writes |= where
    jal, jalr, branch, fence = opcode == 0x6F, (opcode == 0x67) & (funct3 == 0), opcode == 0x63, opcode == 0x0F
    put(jal, bits("add", "jal"))
    disp[jal] = (pc + j_imm)[jal]
    put(jalr, bits("jalr"))
    put(fence & (funct3 == 0), bits("add"))

    for code, (name, negate) in {
        0: ("eq", False), 1: ("eq", True), 4: ("slt", False), 5: ("slt", True), 6: ("sltu", False), 7: ("sltu", True)
    }.items():  # fmt: skip
        kind = "eq" if name == "eq" else "wide" if wide else "alu"
        put(branch & (funct3 == code), bits(kind, "branch", *(("negate",) if negate else ())), ALU_OPS.get(name, 0))
    disp[branch] = (pc + b_imm)[branch]

    load, store = opcode == 0x03, opcode == 0x23
    extended = bits("sext") if wide else 0
    put(load & (funct3 == 2), bits("load") | extended)
    put(store & (funct3 == 2), bits("store"))
    for code, name in {0: "lb", 1: "lh", 4: "lbu", 5: "lhu"}.items():
        more = 0 if name.endswith("u") else extended
        put(load & (funct3 == code), bits("load", "narrow") | more, NARROW_OPS[name])
    if wide:
        put(load & (funct3 == 3), bits("load", "pair"))
        put(load & (funct3 == 6), bits("load"))
        put(store & (funct3 == 3), bits("store", "pair"))
    for code, name in {0: "sb", 1: "sh"}.items():
        put(store & (funct3 == code), bits("store", "narrow"), NARROW_OPS[name])
    disp[store] = s_imm[store]

    immediate, register = opcode == 0x13, opcode == 0x33
    shift = immediate & ((funct3 == 1) | (funct3 == 5))
    operation = bits("wide") if wide else bits("alu")
    above = np.where(shift & wide, funct7 & ~1, funct7)  # bits above the amount of a shift, which has six bits in RV64
    base = register & (funct7 == 0) | immediate & (~shift | (above == 0))
    for kind, names in ((base, OP_NAMES[0]), (register & (funct7 == 1), OP_NAMES[1])):
        for code, name in enumerate(names):
            put(kind & (funct3 == code), operation if name in ALU_OPS else bits("add"), ALU_OPS.get(name, 0))
    put((register | shift) & (above == 32) & (funct3 == 5), operation, ALU_OPS["sra"])
    put(register & (funct7 == 32) & (funct3 == 0), bits("sub"))
    amount = np.where(wide, w >> 20 & 63, rs2)
    if wide:
        word_register, word_immediate = opcode == 0x3B, opcode == 0x1B
        for kind, names_of in ((funct7 == 0, WORD_OPS[0]), (word_register & (funct7 == 1), WORD_OPS[1])):
            for code, name in names_of.items():
                takes = word_register | word_immediate
                given = bits("alu") if name in ALU_OPS else bits("add")
                put(takes & kind & (funct3 == code), given | extended, ALU_OPS.get(name, 0))
        put(word_immediate & (funct3 == 0), bits("add") | extended)
        put((word_register | word_immediate) & (funct7 == 32) & (funct3 == 5), bits("alu") | extended, ALU_OPS["sra"])
        put(word_register & (funct7 == 32) & (funct3 == 0), bits("sub") | extended)
        amount = np.where(word_immediate, rs2, amount)
        shift |= word_immediate & (funct3 != 0)
        immediate, register = immediate | word_immediate, register | word_register

    takes_imm = load | jalr | immediate
    imm[takes_imm] = np.where(shift, amount, i_imm)[takes_imm]
    reads1 |= load | store | branch | jalr | immediate | register
    reads2 |= store | branch | register
    writes |= load | jalr | immediate | register
    # The result of an operation that goes to x0 is not recorded, so such an instruction adds, and nothing is written.
    idle = (immediate | register) & (rd == 0) & (flags != 0)
    flags[idle], op[idle] = bits("add"), 0

    call = w == 0x73
    put(call, bits("ecall") | extended)
    first[call], second[call], target[call] = 17, 10, 10
    reads1, reads2, writes = reads1 | call, reads2 | call, writes | call

    valid = (flags != 0) & (pc <= LAST_PC)
    for flag, used, number in (("read1", reads1, first), ("read2", reads2, second), ("write", writes, target)):
        used &= number != 0
        flags[used] |= bits(flag)
        number[~used] = 0
    rows = [pc, flags, op, target, first, second, imm & MASK, disp & MASK]
    if wide:
        jumps = jal | branch
        rows[7] = np.where(jumps & (disp >> 32 != 0), NOWHERE, rows[7])
        rows.append(np.where(store, disp, imm) >> 32 & MASK)
    return np.stack([row[valid] for row in rows]).view(np.uint64)
