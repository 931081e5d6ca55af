"""The columns that a guest's name commits to, against a second implementation written from docs/riscv.md alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from distprove.stark.riscv.decode import decode
from distprove.stark.riscv.elf import parse_elf, read_elf
from distprove.stark.riscv.segment import Fixed
from distprove.stark.riscv.sp1.translate import translate
from tests.stark.riscv.test_guests import GUESTS
from tests.support import riscv_asm as asm
from tests.support.riscv_elf import code_file

MASK = 0xFFFFFFFF
CLASSES = ("add", "sub", "alu", "eq", "branch", "jal", "jalr", "load", "store", "narrow", "ecall")
FLAGS = {name: 1 << k for k, name in enumerate((*CLASSES, "read1", "read2", "write", "negate"))}
BASE = ("add", "sll", "slt", "sltu", "xor", "srl", "or", "and")
PRODUCTS = ("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu")
ORDER = ("and", "or", "xor", "slt", "sltu", "sll", "srl", "sra", *PRODUCTS)
NUMBERS = {name: k for k, name in enumerate(ORDER, 1)}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def operation(opcode: int, function: int, more: int) -> str | None:
    """The name of an operation with a register (opcode 0x33) or an immediate (0x13)."""
    shift = function in (1, 5)
    if opcode == 0x33 and more == 1:
        return PRODUCTS[function]
    if (opcode == 0x33 or function == 5) and more == 32:
        return {0: "sub", 5: "sra"}.get(function)
    return BASE[function] if more == 0 or (opcode == 0x13 and not shift) else None


def instruction(pc: int, w: int) -> list[int] | None:
    """The row of `rom` for a word; None for one that is no instruction."""
    opcode, rd, function, rs1, rs2, more = w & 127, w >> 7 & 31, w >> 12 & 7, w >> 15 & 31, w >> 20 & 31, w >> 25
    immediate = signed(w >> 20, 12)
    op = imm = disp = 0
    uses = ""
    if opcode in (0x37, 0x17):
        flags, imm, uses = ["add"], (w & 0xFFFFF000) + (pc if opcode == 0x17 else 0), "d"
    elif opcode == 0x6F:
        offset = (w >> 31) << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1
        flags, imm, disp, uses = ["add", "jal"], pc + 4, pc + signed(offset, 21), "d"
    elif opcode == 0x67 and function == 0:
        flags, imm, uses = ["jalr"], immediate, "1d"
    elif opcode == 0x0F and function == 0:
        flags = ["add"]
    elif opcode == 0x63 and function not in (2, 3):
        offset = (w >> 31) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1
        flags = ["alu" if function > 3 else "eq", "branch", *["negate"] * (function & 1)]
        op = 0 if function < 2 else NUMBERS["slt" if function < 6 else "sltu"]
        disp, uses = pc + signed(offset, 13), "12"
    elif opcode == 0x03 and function in (0, 1, 2, 4, 5):
        flags, op = ["load", *["narrow"] * (function != 2)], {2: 0, 0: 1, 4: 2, 1: 3, 5: 4}[function]
        imm, uses = immediate, "1d"
    elif opcode == 0x23 and function < 3:
        flags, op = ["store", *["narrow"] * (function != 2)], {2: 0, 0: 5, 1: 6}[function]
        disp, uses = signed(more << 5 | rd, 12), "12"
    elif opcode in (0x13, 0x33) and (name := operation(opcode, function, more)) is not None:
        flags, op = [name if name in ("add", "sub") else "alu"], NUMBERS.get(name, 0)
        if rd == 0:
            flags, op = ["add"], 0
        uses = "12d" if opcode == 0x33 else "1d"
        imm = 0 if opcode == 0x33 else rs2 if function in (1, 5) else immediate
    elif w == 0x73:
        flags, uses, rs1, rs2, rd = ["ecall"], "12d", 17, 10, 10
    else:
        return None
    found = {"d": rd, "1": rs1, "2": rs2}
    numbers = {use: number if use in uses else 0 for use, number in found.items()}
    flags += [name for use, name in (("1", "read1"), ("2", "read2"), ("d", "write")) if numbers[use]]
    total = sum(FLAGS[name] for name in flags)
    return [pc, total, op, numbers["d"], numbers["1"], numbers["2"], imm & MASK, disp & MASK]


def extended(pc: int, w: int) -> list[int] | None:
    """The same of RV64IM."""
    opcode, rd, function, more = w & 127, w >> 7 & 31, w >> 12 & 7, w >> 25
    sext, pair, wide = (1 << bit for bit in (17, 16, 15))
    if opcode in (0x3B, 0x1B):
        names = {0: "add", 1: "sll", 5: "srl"} if opcode == 0x3B or function else {0: "add"}
        if opcode == 0x3B and more == 1:
            names = {0: "mul", 4: "div", 5: "divu", 6: "rem", 7: "remu"}
        elif more == 32 and function:
            names = {5: "sra"}
        elif more == 32 and opcode == 0x3B:
            names = {0: "sub"}
        elif more and (opcode == 0x3B or function):
            names = {}
        if function not in names:
            return None
        name = names[function]
        # As the operation of RV32IM with the same operands.
        bits = 0x13 if opcode == 0x1B else 0x33
        found = instruction(pc, w & ~127 | bits)
        assert found is not None
        found[1] |= sext if rd else 0
        assert found[2] == (NUMBERS.get(name, 0) if rd else 0)
    elif opcode == 0x13 and function in (1, 5):
        if more >> 1 not in ((0, 16) if function == 5 else (0,)):
            return None
        found = instruction(pc, w & ~(1 << 25))
        assert found is not None
        found[6] = w >> 20 & 63
    elif opcode in (0x03, 0x23) and function in (3, 6) and (opcode, function) != (0x23, 6):
        found = instruction(pc, w & ~(7 << 12) | 2 << 12)
        assert found is not None
        found[1] |= pair if function == 3 else 0
    else:
        found = instruction(pc, w)
        if found is None:
            return None
        found[1] |= sext if opcode == 0x73 or (opcode == 0x03 and function < 3) else 0
    if found[1] & FLAGS["alu"] and opcode in (0x13, 0x33, 0x63):
        found[1] += wide - FLAGS["alu"]
    constant = {0x37: signed(w & 0xFFFFF000, 32), 0x17: pc + signed(w & 0xFFFFF000, 32)}.get(opcode, 0)
    if opcode in (0x03, 0x67) or (opcode in (0x13, 0x1B) and function not in (1, 5)):
        constant = signed(w >> 20, 12)
    elif opcode == 0x23:
        constant = signed(more << 5 | rd, 12)
    offset = (w >> 31) << 20 | (w >> 12 & 255) << 12 | (w >> 20 & 1) << 11 | (w >> 21 & 1023) << 1
    branch = (w >> 31) << 12 | (w >> 7 & 1) << 11 | (w >> 25 & 63) << 5 | (w >> 8 & 15) << 1
    jump = {0x6F: signed(offset, 21), 0x63: signed(branch, 13)}.get(opcode)
    if jump is not None and not 0 <= pc + jump <= MASK:
        found[7] = 1 << 41
    return [*found, constant >> 32 & MASK]


def filled(rows: list[list[int]], first: int) -> list[list[int]]:
    size = 32
    while size < len(rows):
        size *= 2
    return rows + (size - len(rows)) * [[first, *(len(rows[0]) - 1) * [0]]]


@pytest.mark.parametrize("name", ["fibonacci", "ecdsa", "words", "sp1"])
def test_of_guests(name: str) -> None:
    image = read_elf(GUESTS / f"{name}.elf").image()
    columns = Fixed.of(image).columns()
    program = zip(image.code_address.tolist(), image.code_word.tolist(), strict=True)
    rows = [row for pc, word in program if (row := instruction(pc, word)) is not None]
    assert columns["rom"].T.tolist() == filled(rows, 1 << 40)
    ranges, at = [], 0
    for address, value in zip(image.memory_address.tolist(), image.memory_word.tolist(), strict=True):
        key = address // 4
        if value:
            ranges += [[at, key - 1, 0]] * (key > at) + [[key, key, value]]
            at = key + 1
    ranges.append([at, (1 << 30) + 31, 0])
    assert columns["image"].T.tolist() == filled(ranges, 1 << 40)


@pytest.mark.parametrize(("xlen", "row_of"), [(32, instruction), (64, extended)])
def test_of_any_words(xlen: int, row_of: Callable[[int, int], list[int] | None]) -> None:
    opcodes = np.array([0x37, 0x17, 0x6F, 0x67, 0x0F, 0x63, 0x03, 0x23, 0x13, 0x33, 0x1B, 0x3B], dtype=np.uint32)
    word = np.random.default_rng(1).integers(0, 1 << 32, 24_000, dtype=np.uint32)
    word = word & ~np.uint32(127) | opcodes[np.arange(len(word)) % 12]
    word[::5] &= np.uint32(0x43FFFFFF)  # functions of operations that there are
    word[1000] = asm.ECALL
    address = 0x10000 + 4 * np.arange(len(word), dtype=np.uint32)
    pairs = zip(address.tolist(), word.tolist(), strict=True)
    rows = [row for pc, each in pairs if (row := row_of(pc, each)) is not None]
    assert decode(address, word, xlen).T.tolist() == rows
    assert len({(row[1], row[2]) for row in rows}) > (100 if xlen == 64 else 80)


def test_lookups() -> None:
    rows = np.zeros((1 << 18, 4), dtype=np.uint64)
    for bits in range(17):
        kind = (1 << bits) - 1
        rows[kind : kind + (1 << bits)] = [(kind, 0, y, 0) for y in range(1 << bits)]
    kind = (1 << 17) - 1
    rows[kind : kind + (1 << 16)] = [(kind, x, y, x & y) for x in range(256) for y in range(256)]
    kind += 1 << 16
    rows[kind : kind + 32] = [(kind, 0, y, 1 << y) for y in range(32)]
    image = read_elf(GUESTS / "fibonacci.elf").image()
    assert np.array_equal(Fixed.of(image).columns()["lookup"].T, rows)


def test_the_handler_is_in_the_name() -> None:
    """A guest without a single call is another one with a handler: neither name passes for the other."""
    elf = parse_elf(code_file([asm.imm("addi", 5, 0, 1), asm.jal(0, -4)]), "guest")
    plain, handled = Fixed.of(elf.image()), Fixed.of(translate(elf, "guest").image())
    assert plain.rom.shape != handled.rom.shape
    assert plain.log_heights()["rom"] != handled.log_heights()["rom"]
    assert (handled.rom[:, : plain.rom.shape[1]] == plain.rom).all()
