"""What an execution leaves behind for the tables: the program's words, and one record for each segment."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]
Words64 = NDArray[np.uint64]

FIELDS = (
    "pc",
    "word",
    "rs1",
    "rs2",
    "rd_before",
    "rd_after",
    "next_pc",
    "address",
    "memory_before",
    "memory_after",
    "rs1_previous",
    "rs2_previous",
    "rd_previous",
    "memory_previous",
)
"""The rows of `Record.columns`, as docs/riscv.md describes them."""
UPPER_FIELDS = (
    "rs1_upper",
    "rs2_upper",
    "rd_before_upper",
    "rd_after_upper",
    "memory_before_upper",
    "memory_after_upper",
    "memory_upper_previous",
)
"""Further rows in the record of a guest of RV64IM: upper halves, and the second word of an access of eight bytes."""
FIELDS_OF = {32: FIELDS, 64: FIELDS + UPPER_FIELDS}
"""The rows of a record by the bits of a register."""
REGISTERS = 32
STATE_WORDS = 50
"""Words of a state of Keccak-f."""


@dataclass(frozen=True)
class Image:
    """A program as it is loaded: its executable words, the initial memory, and where it starts."""

    entry: int
    code_address: U32 = field(repr=False)
    """Addresses of the executable words, ascending."""
    code_word: U32 = field(repr=False)
    memory_address: U32 = field(repr=False)
    """Addresses of the words of the initial memory, ascending, executable ones included. All others are zero."""
    memory_word: U32 = field(repr=False)
    xlen: int = 32
    """Bits of a register: 32 or 64."""


@dataclass(frozen=True)
class Record:
    """The execution record of one segment. Values may be secret. docs/riscv.md says what each field holds."""

    columns: U32 = field(repr=False)
    """A row for each of `FIELDS`, and of `UPPER_FIELDS` if registers have 64 bits; a column for each cycle."""
    first_cycle: int
    pc_start: int
    pc_end: int
    """The next instruction's address; 0 after the exit."""
    registers_start: U32 = field(repr=False)
    registers_end: U32 = field(repr=False)
    registers_time: U32 = field(repr=False)
    memory_address: Words64 = field(repr=False)
    memory_start: U32 = field(repr=False)
    memory_end: U32 = field(repr=False)
    memory_time: U32 = field(repr=False)
    call_cycle: U32 = field(repr=False)
    call_number: U32 = field(repr=False)
    call_word: U32 = field(repr=False)
    permuted_before: U32 = field(repr=False)
    permuted_after: U32 = field(repr=False)
    permuted_previous: U32 = field(repr=False)
    accesses: U32 = field(repr=False)
    """(n, 5): address, word before and after, time, and time of the last access before, of each word that a call after
    Keccak-f accesses, in the order of the calls."""
    registers_start_upper: U32 = field(default_factory=lambda: np.zeros(REGISTERS, dtype=np.uint32), repr=False)
    """Bits 32 to 63 of the registers at the start; zeros for RV32IM."""
    registers_end_upper: U32 = field(default_factory=lambda: np.zeros(REGISTERS, dtype=np.uint32), repr=False)

    @property
    def xlen(self) -> int:
        """Bits of a register: 32 or 64."""
        return 32 if len(self.columns) == len(FIELDS) else 64

    @property
    def cycles(self) -> int:
        return int(self.columns.shape[1])

    def field(self, name: str) -> U32:
        """The row (n,) of a field, by its name."""
        row: U32 = self.columns[FIELDS_OF[64].index(name)]
        return row


@dataclass(frozen=True, eq=False)
class Usage:
    """What a segment asks of each table. The heights of its tables follow from it (`segment.log_heights`)."""

    cycles: int
    classes: U32
    """(n,): instructions that ask each table of `Machine.classes`, in their order; 0 for numbers beyond them."""
    calls: U32
    """(m,): host calls of each number, from 0 to any that is beyond the known ones."""
    touched: int
    """Words and registers that the segment accesses."""


FIRST_REGISTER = 1 << 30
"""The key of register 0 among words of memory, which have a quarter of their address as key."""
FIRST_REGISTER_OF = {32: FIRST_REGISTER, 64: 1 << 36}
"""The same by the bits of a register. In RV64IM addresses of data have 37 bits."""
