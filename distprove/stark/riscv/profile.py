"""Where the cycles of a run went: by instruction, and by function; and how often each host call was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.stark.riscv.calls import ALL_CALLS
from distprove.stark.riscv.decode import OP_NAMES, WORD_OPS
from distprove.stark.riscv.elf import Elf

ELSEWHERE = "(no function)"
"""Stands for the code that no symbol names."""

_REGISTERS, _PRODUCTS = OP_NAMES
_BY_FUNCTION: Mapping[int, tuple[str | None, ...]] = {
    0x03: ("lb", "lh", "lw", None, "lbu", "lhu", None, None),
    0x0F: ("fence", *[None] * 7),
    0x13: ("addi", "slli", "slti", "sltiu", "xori", "srli", "ori", "andi"),
    0x23: ("sb", "sh", "sw", *[None] * 5),
    0x63: ("beq", "bne", None, None, "blt", "bge", "bltu", "bgeu"),
    0x67: ("jalr", *[None] * 7),
    0x73: ("ecall", *[None] * 7),
}
_BY_FUNCTION_64: Mapping[int, tuple[str | None, ...]] = {
    **_BY_FUNCTION,
    0x03: ("lb", "lh", "lw", "ld", "lbu", "lhu", "lwu", None),
    0x1B: ("addiw", "slliw", None, None, None, "srliw", None, None),
    0x23: ("sb", "sh", "sw", "sd", *[None] * 4),
}
_ALONE = {0x17: "auipc", 0x37: "lui", 0x6F: "jal"}


@dataclass(frozen=True)
class Profile:
    """Cycles of a run, the most first."""

    by_instruction: Mapping[str, int]
    by_function: Mapping[str, int]
    """Cycles of each function by itself, without those that it calls."""
    by_call: Mapping[str, int]
    """How often each host call was made."""


def profile(elf: Elf, counts: NDArray[np.uint64], calls: NDArray[np.uint64]) -> Profile:
    """The profile of a run. `counts`: those of `Execution.count`; `calls`: those of `Execution.call_counts`."""
    instructions: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    at = 0
    for start, words in elf.program:
        here = counts[at : at + len(words)]
        at += len(words)
        executed = np.flatnonzero(here)
        for word, count in zip(words[executed].tolist(), here[executed].tolist(), strict=True):
            instructions[mnemonic(word, elf.xlen)] += count
        addresses = start + 4 * executed
        for address, count in zip(addresses.tolist(), here[executed].tolist(), strict=True):
            functions[elf.function_at(address) or ELSEWHERE] += count
    made = Counter({name: int(calls[number]) for name, number in ALL_CALLS.items() if calls[number]})
    return Profile(dict(instructions.most_common()), dict(functions.most_common()), dict(made.most_common()))


def mnemonic(word: int, xlen: int = 32) -> str:
    """The name of an instruction of RV32IM, or with `xlen` 64 of RV64IM, which `word` must be."""
    opcode, function, more = word & 0x7F, word >> 12 & 7, word >> 25
    if opcode == 0x3B:
        return {0: WORD_OPS[0], 1: WORD_OPS[1], 32: {0: "sub", 5: "sra"}}[more][function] + "w"
    if opcode == 0x1B and function == 5 and more:
        return "sraiw"
    if xlen == 64 and opcode == 0x13 and function == 5:
        more &= ~1  # the amount has six bits
    if opcode == 0x33:
        if more == 1:
            return _PRODUCTS[function]
        return {0: "sub", 5: "sra"}[function] if more else _REGISTERS[function]
    if opcode == 0x13 and function == 5 and more:
        return "srai"
    name = _ALONE.get(opcode) or (_BY_FUNCTION_64 if xlen == 64 else _BY_FUNCTION)[opcode][function]
    assert name is not None
    return name
