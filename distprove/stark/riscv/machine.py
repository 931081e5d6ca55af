"""The machine's tables and buses for either width of registers.

RV64IM has the tables of RV32IM, but for `bitwise` and `compare`, and those of 64 bits beside them: what computes on
lower halves asks `shift`, `multiply` and `divide` as RV32IM does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distprove.stark.air import Air, Bus, CppRows
from distprove.stark.programs.keccak_slices import ROWS as SLICES
from distprove.stark.riscv import bitwise, compare, cpu, cpu64, divide, multiply, narrow, precompiles, shift
from distprove.stark.riscv.accesses import WORD_ROWS, KeccakWords64Air, KeccakWordsAir
from distprove.stark.riscv.buses import BUSES, BUSES_64
from distprove.stark.riscv.host import HostAir, StatedAir
from distprove.stark.riscv.keccak import CALL_ROWS, KeccakAir
from distprove.stark.riscv.lookup import LookupAir
from distprove.stark.riscv.memory import ImageAir, Touched64Air, TouchedAir, Words64Air, WordsAir
from distprove.stark.riscv.rom import Rom64Air, RomAir


@dataclass(frozen=True)
class Machine:
    """The machine of one width."""

    xlen: int
    """Bits of a register."""
    buses: Sequence[Bus]
    cpu: CppRows
    """The function that makes the rows of `cpu`."""
    classes: Mapping[str, CppRows]
    """The tables that answer on `alu`, `wide` and `narrow`, with the functions that make their rows."""
    tables: tuple[Air, ...]
    """All, without those of precompiles that only some guests have."""

    @property
    def optional(self) -> tuple[str, ...]:
        """The tables that a segment does without if nothing asks them, beside those of precompiles."""
        return (*self.classes, "keccak", "keccak_words")

    @property
    def row_functions(self) -> tuple[CppRows, ...]:
        """Those of the machine, without precompiles."""
        return (self.cpu, *self.classes.values(), SLICES, CALL_ROWS, WORD_ROWS)

    def tables_of(self, names: Sequence[str]) -> tuple[Air, ...]:
        """The tables of a guest with these precompiles."""
        return (*self.tables, *(precompiles.TABLES[name].air for name in names))

    def row_functions_of(self, names: Sequence[str]) -> tuple[CppRows, ...]:
        """The row functions of a guest with these precompiles."""
        return (*self.row_functions, *(precompiles.TABLES[name].rows for name in names))


MACHINES = {
    32: Machine(
        32,
        BUSES,
        cpu.ROWS,
        {
            "bitwise": bitwise.ROWS,
            "compare": compare.ROWS,
            "shift": shift.ROWS,
            "multiply": multiply.ROWS,
            "divide": divide.ROWS,
            "narrow": narrow.ROWS,
        },
        (
            cpu.CpuAir(),
            bitwise.BitwiseAir(),
            compare.CompareAir(),
            shift.ShiftAir(),
            multiply.MultiplyAir(),
            divide.DivideAir(),
            narrow.NarrowAir(),
            HostAir(),
            KeccakAir(),
            KeccakWordsAir(),
            TouchedAir(),
            WordsAir(),
            RomAir(),
            ImageAir(),
            StatedAir(),
            LookupAir(),
        ),
    ),
    64: Machine(
        64,
        BUSES_64,
        cpu64.ROWS_64,
        {
            "bitwise64": bitwise.ROWS_64,
            "compare64": compare.ROWS_64,
            "shift64": shift.ROWS_64,
            "multiply64": multiply.ROWS_64,
            "divide64": divide.ROWS_64,
            "shift": shift.ROWS,
            "multiply": multiply.ROWS,
            "divide": divide.ROWS,
            "narrow": narrow.ROWS,
        },
        (
            cpu64.Cpu64Air(),
            bitwise.Bitwise64Air(),
            compare.Compare64Air(),
            shift.Shift64Air(),
            multiply.Multiply64Air(),
            divide.Divide64Air(),
            shift.ShiftAir(),
            multiply.MultiplyAir(),
            divide.DivideAir(),
            narrow.NarrowAir(),
            HostAir(),
            KeccakAir(),
            KeccakWords64Air(),
            Touched64Air(),
            Words64Air(),
            Rom64Air(),
            ImageAir(),
            StatedAir(),
            LookupAir(),
        ),
    ),
}
"""The machines by the bits of a register."""
