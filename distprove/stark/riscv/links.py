"""The words and registers that a segment or a run uses, by the keys under which the tables know them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from distprove.stark.riscv.record import FIRST_REGISTER_OF, U32, Record, Words64


@dataclass(frozen=True)
class Words:
    """Words and registers that an execution used, or some of them, with their values at its end. Keys ascend."""

    key: Words64 = field(repr=False)
    value: U32 = field(repr=False)
    segment: U32 = field(repr=False)
    """One more than the number of the last segment that used it."""
    upper: U32 = field(repr=False)
    """Bits 32 to 63 of the values, which only registers of RV64IM have."""

    def part(self, start: int, stop: int) -> Words:
        value, segment, upper = (each[start:stop] for each in (self.value, self.segment, self.upper))
        return Words(self.key[start:stop], value, segment, upper)


def cut_evenly(count: int, parts: int) -> list[range]:
    """Cut the numbers below `count` into ranges that follow one another: the segments' parts of a run's words."""
    return [range(count * k // parts, count * (k + 1) // parts) for k in range(parts)]


def keys_of(record: Record) -> Words64:
    """The keys of the words and registers that a segment accesses, ascending."""
    registers = np.flatnonzero(record.registers_time) + FIRST_REGISTER_OF[record.xlen]
    return np.concatenate((record.memory_address // np.uint64(4), registers.astype(np.uint64)))


def values_of(record: Record, which: str) -> U32:
    """For each of `keys_of` what the record has at the "start" or the "end", or the "time" of the last access."""
    registers = getattr(record, f"registers_{which}")[np.flatnonzero(record.registers_time)]
    return np.concatenate((getattr(record, f"memory_{which}"), registers))


def upper_halves_of(record: Record, which: str) -> U32:
    """For each of `keys_of` bits 32 to 63 of its value at the "start" or the "end"."""
    registers = getattr(record, f"registers_{which}_upper")[np.flatnonzero(record.registers_time)]
    return np.concatenate((np.zeros(len(record.memory_address), dtype=np.uint32), registers))
