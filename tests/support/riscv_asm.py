"""Makes the words of RV32IM and RV64IM instructions, for programs of tests. Registers are numbers, offsets in bytes."""

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
_REGISTER_W = {f"{name}w": _REGISTER[name] for name in ("add", "sll", "srl", "sub", "sra")} | {
    f"{name}w": _REGISTER[name] for name in ("mul", "div", "divu", "rem", "remu")
}
_IMMEDIATE_W = {f"{name}w": _IMMEDIATE[name] for name in ("addi", "slli", "srli", "srai")}
_LOADS = {"lb": 0, "lh": 1, "lw": 2, "ld": 3, "lbu": 4, "lhu": 5, "lwu": 6}
_STORES = {"sb": 0, "sh": 1, "sw": 2, "sd": 3}
_BRANCHES = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
REGISTER_OPS, IMMEDIATE_OPS = tuple(_REGISTER), tuple(_IMMEDIATE)
REGISTER_OPS_64, IMMEDIATE_OPS_64 = (*_REGISTER, *_REGISTER_W), (*_IMMEDIATE, *_IMMEDIATE_W)
LOADS_64, STORES_64, BRANCHES = tuple(_LOADS), tuple(_STORES), tuple(_BRANCHES)
LOADS, STORES = tuple(name for name in _LOADS if name not in ("ld", "lwu")), STORES_64[:3]

ECALL, FENCE = 0x73, 0x0F
A0, A7 = 10, 17


def op(name: str, rd: int, rs1: int, rs2: int) -> int:
    """A register-register operation."""
    funct3, funct7 = _REGISTER[name] if name in _REGISTER else _REGISTER_W[name]
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | (0x33 if name in _REGISTER else 0x3B)


def imm(name: str, rd: int, rs1: int, value: int, bits: int = 32) -> int:
    """A register-immediate operation. The amount of a shift is taken modulo `bits`, of a W form modulo 32."""
    kind, plain = name.removesuffix("w"), name in _IMMEDIATE
    if kind in ("slli", "srli", "srai"):
        value = value & (bits if plain else 32) - 1 | (1 << 10 if kind == "srai" else 0)
    return (value & 0xFFF) << 20 | rs1 << 15 | _IMMEDIATE[kind] << 12 | rd << 7 | (0x13 if plain else 0x1B)


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


def li_64(rd: int, value: int) -> list[int]:
    """Load a constant of 64 bits."""
    high = li(rd, value >> 32 & 0xFFFFFFFF)
    low = [value >> shift & 0x7FF for shift in (21, 10)]
    steps = [step for part in low for step in (imm("slli", rd, rd, 11, 64), imm("addi", rd, rd, part))]
    return [*high, *steps, imm("slli", rd, rd, 10, 64), imm("addi", rd, rd, value & 0x3FF)]


def call(number: int) -> list[int]:
    """A host call; its argument is in a0."""
    return [imm("addi", A7, 0, number), ECALL]


def leave(code: int = 0) -> list[int]:
    """The exit with a code below 2048."""
    return [imm("addi", A0, 0, code), *call(1)]


def image(code: Sequence[int], data: dict[int, int] | None = None, xlen: int = 32) -> Image:
    """A program at `BASE`, with these words of data by address, of RV32IM or RV64IM."""
    address = BASE + 4 * np.arange(len(code), dtype=np.uint32)
    words = np.array(code, dtype=np.uint32)
    memory = {**dict(zip(address.tolist(), words.tolist(), strict=True)), **(data or {})}
    keys = sorted(memory)
    given, values = np.array(keys, dtype=np.uint32), np.array([memory[k] for k in keys], dtype=np.uint32)
    return Image(BASE, address, words, given, values, xlen)
