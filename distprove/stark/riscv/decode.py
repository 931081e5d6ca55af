"""Decodes instructions into the fields of the table `rom`, which say what a row of the table `cpu` must do.

Every instruction is one of a few forms: `a` is a register or 0, `b` a register or the constant `imm`. `lui`, `auipc`
and `jal` add a constant to 0. `disp` is what a store adds to `a`, and the target of a jump or branch, so that no row
computes with `pc` but to add 4. Words that are no instructions of RV32IM have no row: no execution that reaches one can
be proven.
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
NO_PC = 1 << 40
"""The `pc` of rows that fill the table up, which no row of `cpu` can have."""
LAST_PC = (1 << 32) - 8
MASK = np.int64(0xFFFFFFFF)
OP_NAMES = (
    ("add", "sll", "slt", "sltu", "xor", "srl", "or", "and"),
    ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"),
)
"""The operations of two registers by the field funct3: those whose funct7 is 0, and those whose funct7 is 1."""


def bits(*names: str) -> int:
    """The number that stands for these flags."""
    return sum(1 << FLAGS.index(name) for name in names)


def decode(address: U32, word: U32) -> Words64:
    """The fields of the instructions at these addresses, (8, n) in the order of `ROM.fields`, n the valid ones."""
    w, pc = word.astype(np.int64), address.astype(np.int64)
    opcode, funct3, funct7 = w & 127, w >> 12 & 7, w >> 25
    rd, rs1, rs2 = w >> 7 & 31, w >> 15 & 31, w >> 20 & 31
    signed = word.view(np.int32).astype(np.int64)
    i_imm, u_imm = signed >> 20, w & 0xFFFFF000
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
        kind = "eq" if name == "eq" else "alu"
        put(branch & (funct3 == code), bits(kind, "branch", *(("negate",) if negate else ())), ALU_OPS.get(name, 0))
    disp[branch] = (pc + b_imm)[branch]

    load, store = opcode == 0x03, opcode == 0x23
    put(load & (funct3 == 2), bits("load"))
    put(store & (funct3 == 2), bits("store"))
    for code, name in {0: "lb", 1: "lh", 4: "lbu", 5: "lhu"}.items():
        put(load & (funct3 == code), bits("load", "narrow"), NARROW_OPS[name])
    for code, name in {0: "sb", 1: "sh"}.items():
        put(store & (funct3 == code), bits("store", "narrow"), NARROW_OPS[name])
    disp[store] = s_imm[store]

    immediate, register = opcode == 0x13, opcode == 0x33
    shift = immediate & ((funct3 == 1) | (funct3 == 5))
    base = register & (funct7 == 0) | immediate & (~shift | (funct7 == 0))
    for kind, names in ((base, OP_NAMES[0]), (register & (funct7 == 1), OP_NAMES[1])):
        for code, name in enumerate(names):
            put(kind & (funct3 == code), bits("alu") if name in ALU_OPS else bits("add"), ALU_OPS.get(name, 0))
    put((register | shift) & (funct7 == 32) & (funct3 == 5), bits("alu"), ALU_OPS["sra"])
    put(register & (funct7 == 32) & (funct3 == 0), bits("sub"))

    takes_imm = load | jalr | immediate
    imm[takes_imm] = np.where(shift, rs2, i_imm)[takes_imm]
    reads1 |= load | store | branch | jalr | immediate | register
    reads2 |= store | branch | register
    writes |= load | jalr | immediate | register
    # The result of an operation that goes to x0 is not recorded, so such an instruction adds, and nothing is written.
    idle = (immediate | register) & (rd == 0) & (flags != 0)
    flags[idle], op[idle] = bits("add"), 0

    call = w == 0x73
    put(call, bits("ecall"))
    first[call], second[call], target[call] = 17, 10, 10
    reads1, reads2, writes = reads1 | call, reads2 | call, writes | call

    valid = (flags != 0) & (pc <= LAST_PC)
    for flag, used, number in (("read1", reads1, first), ("read2", reads2, second), ("write", writes, target)):
        used &= number != 0
        flags[used] |= bits(flag)
        number[~used] = 0
    table = np.stack((pc, flags, op, target, first, second, imm & MASK, disp & MASK)).astype(np.uint64)
    return np.ascontiguousarray(table[:, valid])
