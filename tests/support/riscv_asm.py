"""Makes the words of RV32IM instructions, for programs of tests. Registers are numbers, offsets are in bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distprove.stark.riscv.record import Image

BASE = 0x10000
"""Where programs of tests begin."""
_REGISTER = {
    **{name: (k, 0) for k, name in enumerate(("add", "sll", "slt", "sltu", "xor", "srl", "or", "and"))},
    **{name: (k, 1) for k, name in enumerate(("mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"))},
    "sub": (0, 32),
    "sra": (5, 32),
}
_IMMEDIATE = {"addi": 0, "slli": 1, "slti": 2, "sltiu": 3, "xori": 4, "srli": 5, "srai": 5, "ori": 6, "andi": 7}
_LOADS = {"lb": 0, "lh": 1, "lw": 2, "lbu": 4, "lhu": 5}
_STORES = {"sb": 0, "sh": 1, "sw": 2}
_BRANCHES = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
REGISTER_OPS, IMMEDIATE_OPS = tuple(_REGISTER), tuple(_IMMEDIATE)
LOADS, STORES, BRANCHES = tuple(_LOADS), tuple(_STORES), tuple(_BRANCHES)

ECALL, FENCE = 0x73, 0x0F
A0, A7 = 10, 17


def op(name: str, rd: int, rs1: int, rs2: int) -> int:
    """A register-register operation."""
    funct3, funct7 = _REGISTER[name]
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | 0x33


def imm(name: str, rd: int, rs1: int, value: int) -> int:
    """A register-immediate operation."""
    value = value & 31 | (1 << 10 if name == "srai" else 0) if name in ("slli", "srli", "srai") else value & 0xFFF
    return value << 20 | rs1 << 15 | _IMMEDIATE[name] << 12 | rd << 7 | 0x13


def load(name: str, rd: int, rs1: int, offset: int = 0) -> int:
    return (offset & 0xFFF) << 20 | rs1 << 15 | _LOADS[name] << 12 | rd << 7 | 0x03


def store(name: str, rs2: int, rs1: int, offset: int = 0) -> int:
    o = offset & 0xFFF
    return o >> 5 << 25 | rs2 << 20 | rs1 << 15 | _STORES[name] << 12 | (o & 31) << 7 | 0x23


def branch(name: str, rs1: int, rs2: int, offset: int) -> int:
    o = offset & 0x1FFF
    high = (o >> 12) << 6 | o >> 5 & 63
    return high << 25 | rs2 << 20 | rs1 << 15 | _BRANCHES[name] << 12 | (o >> 1 & 15) << 8 | (o >> 11 & 1) << 7 | 0x63


def lui(rd: int, value: int) -> int:
    return value & 0xFFFFF000 | rd << 7 | 0x37


def auipc(rd: int, value: int) -> int:
    return value & 0xFFFFF000 | rd << 7 | 0x17


def jal(rd: int, offset: int) -> int:
    o = offset & 0x1FFFFF
    return (o >> 20) << 31 | (o >> 1 & 1023) << 21 | (o >> 11 & 1) << 20 | (o >> 12 & 255) << 12 | rd << 7 | 0x6F


def jalr(rd: int, rs1: int, offset: int = 0) -> int:
    return (offset & 0xFFF) << 20 | rs1 << 15 | rd << 7 | 0x67


def li(rd: int, value: int) -> list[int]:
    """Load a constant of 32 bits."""
    low = (value & 0xFFF ^ 0x800) - 0x800
    return [lui(rd, value - low & 0xFFFFFFFF), imm("addi", rd, rd, low)]


def call(number: int) -> list[int]:
    """A host call; its argument is in a0."""
    return [imm("addi", A7, 0, number), ECALL]


def leave(code: int = 0) -> list[int]:
    """The exit with a code below 2048."""
    return [imm("addi", A0, 0, code), *call(1)]


def image(code: Sequence[int], data: dict[int, int] | None = None) -> Image:
    """A program at `BASE`, with these words of data by address."""
    address = BASE + 4 * np.arange(len(code), dtype=np.uint32)
    words = np.array(code, dtype=np.uint32)
    memory = {**dict(zip(address.tolist(), words.tolist(), strict=True)), **(data or {})}
    keys = sorted(memory)
    return Image(
        BASE, address, words, np.array(keys, dtype=np.uint32), np.array([memory[k] for k in keys], dtype=np.uint32)
    )
