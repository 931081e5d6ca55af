"""The buses between the machine's tables, and the numbers that stand for operations on them.

docs/riscv.md says for each bus who sends, who receives, and why no forged execution balances it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from distprove.stark.air import Air, Bus, Expression, Table, total
from distprove.stark.air.definition import Value
from distprove.stark.programs.keccak_slices import MOVED
from kernels.maths.goldilocks import P

LOOKUP = Bus("lookup", fields=("kind", "x", "y", "z"))
ROM = Bus("rom", fields=("pc", "flags", "op", "rd", "rs1", "rs2", "imm", "disp"))
ACCESS = Bus("access", fields=("key", "value", "time"))
"""Memory and registers of one segment, as they are at a time of that segment."""
ALU = Bus("alu", fields=("op", "a", "b", "result"))
NARROW = Bus("narrow", fields=("op", "offset", "before", "b", "result"))
HOST = Bus("host", fields=("call", "argument", "time", "result", "exit"))
IMAGE = Bus("image", fields=("low", "high", "value"))
PUBLIC = Bus("public", fields=("place", "value"))
WORDS = Bus("words", fields=("key", "value", "segment"), scope="global")
"""Memory and registers between segments: the value at the end of segment `segment` - 1, or at the start for 0."""
STATED = Bus("stated", fields=("segment", "place", "value"), scope="global")
"""Words of the public input that a segment reads, which the statement receives."""
OUTPUT = Bus("output", fields=("place", "word"), scope="global")
"""The public output: the word at place k, from 1, and the length in bytes at place 0. The statement receives it."""
KECCAK = Bus("keccak", fields=("time", "end", "key", "value"))
"""The words that host calls compute on, Keccak-f the first of them: `end` is 0 before a call, and 1 after."""
BUSES = (LOOKUP, ROM, ACCESS, ALU, NARROW, HOST, IMAGE, PUBLIC, WORDS, STATED, OUTPUT, KECCAK, MOVED)

ROM_64 = Bus("rom", fields=(*ROM.fields, "upper"))
"""`upper` is that of the constant: of `imm`, or of what a store adds to its address."""
ACCESS_64 = Bus("access", fields=("key", "value", "upper", "time"))
"""As `ACCESS`, with bits 32 to 63 of a register; of a word of memory they are 0."""
WIDE = Bus("wide", fields=("op", "a", "a_upper", "b", "b_upper", "result", "result_upper"))
"""Operations on 64 bits. Those on lower halves go on `ALU`."""
WORDS_64 = Bus("words", fields=("key", "value", "upper", "segment"), scope="global")
BUSES_64 = (
    *(LOOKUP, ROM_64, ACCESS_64, ALU, WIDE, NARROW, HOST, IMAGE, PUBLIC, WORDS_64, STATED, OUTPUT, KECCAK, MOVED),
)
"""The buses of RV64IM."""

ALU_TABLES = {
    "bitwise": ("and", "or", "xor"),
    "compare": ("slt", "sltu"),
    "shift": ("sll", "srl", "sra"),
    "multiply": ("mul", "mulh", "mulhsu", "mulhu"),
    "divide": ("div", "divu", "rem", "remu"),
}
"""The tables that answer on `alu`, and their operations. Those of `WIDE_TABLES` answer on `wide`."""
WIDE_TABLES = {f"{name}64": ops for name, ops in ALU_TABLES.items()}
ALU_OPS = {op: number for number, op in enumerate((op for ops in ALU_TABLES.values() for op in ops), start=1)}
NARROW_OPS = {"lb": 1, "lbu": 2, "lh": 3, "lhu": 4, "sb": 5, "sh": 6}
AND_KIND = (1 << 17) - 1
"""The kind of a lookup of two bytes x and y, with their conjunction z. A kind is the first row of the table `lookup`
that has it, so that what is looked up stands in row kind + 256 x + y."""
POWER_KIND = AND_KIND + (1 << 16)
"""The kind of a lookup of a number y below 32, and z = 2^y."""


def range_kind(bits: int) -> int:
    """The kind of a lookup of a number y of so many bits, up to 16; x and z are 0."""
    return (1 << bits) - 1


def in_range(t: Table, value: Value, bits: int, times: Value = 1, name: str | None = None) -> None:
    """Look up that `value` is from 0 to 2^bits - 1, with bits up to 16."""
    t.send(LOOKUP, {"kind": range_kind(bits), "x": 0, "y": value, "z": 0}, times=times, name=name)


def in_long_range(
    t: Table, value: Expression, low: Expression, bits: int, times: Value = 1, name: str | None = None
) -> None:
    """Look up that `value` is from 0 to 2^bits - 1, with bits from 17 to 32. `low` is a column for bits 0 to 15."""
    in_range(t, low, 16, times, name)
    in_range(t, (value - low) * pow(1 << 16, -1, P), bits - 16, times, name)


def word(limbs: tuple[Expression, Expression]) -> Expression:
    """The number of 32 bits from its halves, the lower one first."""
    low, high = limbs
    return low + high * (1 << 16)


def constrain_sign(t: Table, value: Expression, sign: Expression, low: Expression, times: Value) -> None:
    """Constrain `sign`, a 0/1 column, to bit 31 of `value`, which has 32 bits, where `times` is 1.

    `low` is a column for bits 0 to 15.
    """
    in_long_range(t, value - sign * (1 << 31), low, 31, times)


class OperationAir(Air):
    """A table whose row is one of some operations, or none. The columns `is_OP` say which."""

    @property
    @abstractmethod
    def operations(self) -> tuple[str, ...]:
        """Their names, of `ALU_OPS`."""

    def on(self, t: Table) -> Expression:
        """Constrain the flags to at most one. Gives whether there is one."""
        flags = [t.this[f"is_{op}"][0] for op in self.operations]
        on = total(flags)
        for flag in (*flags, on):
            t.boolean(flag)
        return on

    def number(self, t: Table) -> Expression:
        """The number of the row's operation."""
        return total(t.this[f"is_{op}"][0] * ALU_OPS[op] for op in self.operations)


class AluAir(OperationAir):
    """A table that answers on `alu`."""

    @property
    def operations(self) -> tuple[str, ...]:
        return ALU_TABLES[self.name]

    def define(self, t: Table) -> None:
        on = self.on(t)
        a, b, result = self.constrain(t, on)
        t.receive(ALU, {"op": self.number(t), "a": a, "b": b, "result": result}, times=on, at_most=1)

    @abstractmethod
    def constrain(self, t: Table, on: Expression) -> tuple[Expression, Expression, Expression]:
        """State what makes a row that is `on` right; gives the operands and the result."""


Halves = tuple[Value, Value]
"""Bits 0 to 31 and bits 32 to 63 of a number."""


class WideAir(OperationAir):
    """A table that answers on `wide`."""

    @property
    def operations(self) -> tuple[str, ...]:
        return WIDE_TABLES[self.name]

    def define(self, t: Table) -> None:
        on = self.on(t)
        halves = zip(("a", "b", "result"), self.constrain(t, on), strict=True)
        named = {name: half for each, pair in halves for name, half in zip((each, f"{each}_upper"), pair, strict=True)}
        t.receive(WIDE, {"op": self.number(t), **named}, times=on, at_most=1)

    @abstractmethod
    def constrain(self, t: Table, on: Expression) -> tuple[Halves, Halves, Halves]:
        """State what makes a row that is `on` right; gives the operands and the result."""


def words(limbs: Sequence[Expression]) -> tuple[Expression, ...]:
    """The numbers of 32 bits from limbs of 16 bits, the lowest first."""
    return tuple(low + high * (1 << 16) for low, high in zip(limbs[::2], limbs[1::2], strict=True))
