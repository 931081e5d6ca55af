"""The trace of one segment: from its record to the columns of all tables and the public values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.air import Air
from distprove.stark.output import DIGEST_VALUES, MAX_OUTPUT_WORDS
from distprove.stark.program import Trace
from distprove.stark.riscv import precompiles
from distprove.stark.riscv.accesses import WORD_ROWS, accessed_words, words_accessed
from distprove.stark.riscv.buses import ALU_OPS, ALU_TABLES, WIDE_TABLES
from distprove.stark.riscv.calls import ALL_CALLS, CALLS, KECCAK_CALL, precompiles_in
from distprove.stark.riscv.cpu import cpu_inputs, pc_after
from distprove.stark.riscv.decode import NO_PC, bits, decode
from distprove.stark.riscv.executor import NO_CLASS
from distprove.stark.riscv.host import (
    MOST_WORDS,
    host_columns,
    stated_columns,
    stated_words,
)
from distprove.stark.riscv.keccak import (
    keccak_columns,
    keccak_inputs,
    keccak_log_height,
    some,
)
from distprove.stark.riscv.links import Words, cut_evenly, keys_of
from distprove.stark.riscv.lookup import LOG_ROWS, lookup_rows
from distprove.stark.riscv.machine import MACHINES, Machine
from distprove.stark.riscv.memory import (
    NO_KEY,
    image_rows,
    touched_columns,
    words_columns,
)
from distprove.stark.riscv.record import U32, Image, Record, Usage, Words64
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.maths.goldilocks import P

PUBLIC = (
    ("segment", 1),
    ("pc_start", 1),
    ("pc_end", 1),
    ("cycles_start", 1),
    ("cycles_end", 1),
    ("final", 1),
    ("exit_code", 1),
    ("words_start", 1),
    ("words_end", 1),
    ("outputs_start", 1),
    ("outputs_end", 1),
    ("inputs", 1),
    ("output_length", 1),
    ("output_digest", DIGEST_VALUES),
    ("stated", MOST_WORDS),
)
"""Names and lengths of a segment's public values, in order."""
NO_WORD = P - 1
"""`words_start` of the first segment: what comes before key 0."""
MOST_PLACES = 1 << 24
"""Maximum number of words from a program's first instruction to its last for which each has its place in memory."""
ABSENT = 63
"""Stands for the height of a table that a segment does without."""
LEAST_LOG_ROWS = 5
"""log2 of the least rows of a table. FRI ends with as many coefficients, so that less would make the proof longer."""


@dataclass(frozen=True)
class Fixed:
    """What the tables take from the program: the rows of `rom` and `image`, without those that fill the tables up."""

    rom: Words64 = field(repr=False)
    image: Words64 = field(repr=False)
    precompiles: tuple[str, ...] = ()
    """Which of `PRECOMPILES` it has."""
    xlen: int = 32
    """Bits of a register."""

    @property
    def machine(self) -> Machine:
        """The machine that the program is for."""
        return MACHINES[self.xlen]

    @property
    def tables(self) -> tuple[Air, ...]:
        """The program's tables."""
        return self.machine.tables_of(self.precompiles)

    @classmethod
    def of(cls, image: Image) -> Fixed:
        rom = decode(image.code_address, image.code_word, image.xlen)
        found = precompiles_in([(image.code_address, image.code_word)])
        return cls(rom, image_rows(image), found, image.xlen)

    def columns(self) -> dict[str, Words64]:
        """The preprocessed columns by table. Rows that fill up are of no use to anyone."""
        return {
            "rom": filled(self.rom, NO_PC),
            "image": filled(self.image, NO_KEY),
            "stated": np.arange(MOST_WORDS, dtype=np.uint64)[None],
            "lookup": lookup_rows(),
        }

    def instructions(self, record: Record) -> NDArray[np.int64]:
        """The column of `rom` of each cycle."""
        pc = record.field("pc")
        if self._rows is None:
            return np.searchsorted(self.rom[0], pc).astype(np.int64)
        rows: NDArray[np.int64] = self._rows[(pc - np.uint32(self.rom[0, 0])) >> np.uint32(2)]
        return rows

    @cached_property
    def _rows(self) -> NDArray[np.int64] | None:
        """The column of `rom` of each word from the first instruction to the last; None where they are far apart.
        Looking it up takes a tenth of the time of searching."""
        place = (self.rom[0] - self.rom[0, 0]).astype(np.int64) // 4
        if place[-1] >= MOST_PLACES:
            return None
        rows = np.zeros(place[-1] + 1, dtype=np.int64)
        rows[place] = np.arange(len(place))
        return rows

    def log_heights(self) -> dict[str, int]:
        """log2 of the rows of the tables with preprocessed columns."""
        return self.heights(log_rows_for(self.rom.shape[1]), log_rows_for(self.image.shape[1]))

    @staticmethod
    def heights(log_rom: int, log_image: int) -> dict[str, int]:
        """`log_heights` for a program of which only the heights are known."""
        return {"rom": log_rom, "image": log_image, "stated": log_rows_for(MOST_WORDS), "lookup": LOG_ROWS}


def filled(rows: Words64, key: int) -> Words64:
    """Fill rows up to a power of two with zeros but for the first column, which is `key` there."""
    out = np.zeros((len(rows), 1 << log_rows_for(rows.shape[1])), dtype=np.uint64)
    out[:, : rows.shape[1]] = rows
    out[0, rows.shape[1] :] = key
    return out


def log_rows_for(count: int) -> int:
    """log2 of the rows of a table that must hold `count`."""
    return max(LEAST_LOG_ROWS, (count - 1).bit_length() if count else 0)


@dataclass(frozen=True)
class Place:
    """The place of a segment in its run."""

    index: int
    last: bool
    earlier: U32 = field(repr=False)
    """As `Snapshot.earlier` has it: for each word that the segment accesses, one more than the segment that left it."""
    words: Words = field(repr=False)
    """The part of the run's words that this segment's table `words` has."""
    words_start: int
    """The last key of the parts before it; `NO_WORD` for none."""
    outputs: int
    """Words of output that the segments before it wrote."""
    output: tuple[int, ...]
    """Length and digest of the run's output, as `output_public` has them."""
    log_heights: Mapping[str, int] = field(default_factory=dict)
    """log2 of the rows of tables that are to be taller than the segment needs them, or that it needs not at all."""


def segment_inputs(fixed: Fixed, record: Record, place: Place) -> dict[str, NDArray[Any]]:
    """The arrays from which `segment_trace` makes the trace. Raises UsageError for what the tables cannot hold."""
    index = fixed.instructions(record)
    arrays: dict[str, NDArray[Any]] = cpu_inputs(record, fixed.rom, index)
    calls = class_calls(fixed, record, index)
    exit_code = int(record.registers_end[10]) if place.last else 0
    words_used = np.searchsorted(fixed.image[0], place.words.key.astype(np.uint64), side="right") - 1
    heights = raised(log_heights(fixed, usage_of(fixed, record, index), len(place.words.key)), place.log_heights)
    stated, inputs = stated_words(record)
    for name, part in calls.items():
        if name in heights:
            arrays |= {f"calls_{name}": some(part), f"count_{name}": np.array([part.shape[1]], dtype=np.uint64)}
    if "keccak" in heights:
        arrays |= keccak_inputs(record, heights["keccak"])
    if "keccak_words" in heights:
        accessed = accessed_words(record)
        count = np.array([accessed.shape[1]], dtype=np.uint64)
        arrays |= {"accessed_words": some(accessed), "accessed_count": count}
    for name in fixed.precompiles:
        if name in heights:
            arrays |= precompiles.TABLES[name].arrays(record)
    arrays |= {
        "host": host_columns(record, heights["host"], place.outputs),
        "touched": touched_columns(record, place.earlier, heights["touched"]),
        "words": words_columns(place.words, fixed.image, place.words_start, heights["words"], fixed.xlen),
        "rom_used": np.bincount(index, minlength=1 << heights["rom"]).astype(np.uint64)[None],
        "image_used": np.bincount(words_used, minlength=1 << heights["image"]).astype(np.uint64)[None],
        "stated": stated_columns(stated, inputs, exit_code),
        "precompiles": np.array([name in fixed.precompiles for name in precompiles.TABLES], dtype=np.uint64),
        "heights": np.array([heights.get(air.name, ABSENT) for air in fixed.tables], dtype=np.uint64),
        "xlen": np.array([fixed.xlen], dtype=np.uint64),
    }
    words_end = int(place.words.key[-1]) if len(place.words.key) else place.words_start
    public = {
        "segment": place.index,
        "pc_start": record.pc_start,
        "pc_end": pc_after(record),
        "cycles_start": record.first_cycle,
        "cycles_end": record.first_cycle + record.cycles,
        "final": int(place.last),
        "exit_code": exit_code,
        "words_start": place.words_start,
        "words_end": words_end,
        "outputs_start": place.outputs,
        "outputs_end": place.outputs + int(np.count_nonzero(record.call_number == CALLS["write"])),
        "inputs": inputs,
        "output_length": place.output[0],
    }
    numbers = [public[name] for name, length in PUBLIC if length == 1]
    arrays["public"] = np.concatenate((np.array([*numbers, *place.output[1:]], dtype=np.uint64), stated))
    return arrays


def raised(needed: Mapping[str, int], given: Mapping[str, int]) -> dict[str, int]:
    """The heights `needed`, with those that are `given` in their place. Raises UsageError for a smaller one."""
    low = [name for name, height in given.items() if height < needed.get(name, 0)]
    if low:
        raise UsageError(f"a segment needs more rows of {low[0]} than the job's segments are to have")
    return {**needed, **given}


def class_calls(fixed: Fixed, record: Record, index: NDArray[np.int64]) -> dict[str, Words64]:
    """For each of the machine's `classes` what its rows are made of, (4, n): the operation and three values."""
    rom, in_class = fixed.rom, classes_of(fixed)[index]
    out = {}
    for k, name in enumerate(fixed.machine.classes):
        rows = np.flatnonzero(in_class == k)
        flags, op, imm, disp = (rom[field, index[rows]] for field in (1, 2, 6, 7))
        a, b, word = (record.field(each)[rows].astype(np.uint64) for each in ("rs1", "rs2", "memory_before"))
        reads = flags & np.uint64(bits("read2")) != 0
        b = np.where(reads, b, imm)
        if name in WIDE_TABLES:
            half, upper = np.uint64(32), np.where(reads, record.field("rs2_upper")[rows], rom[8, index[rows]])
            a = a | record.field("rs1_upper")[rows].astype(np.uint64) << half
            b = b | upper.astype(np.uint64) << half
        if name in ALU_TABLES or name in WIDE_TABLES:
            out[name] = np.stack((op, a, b, b))
        else:
            address = a + np.where(flags & np.uint64(bits("store")), disp, b)
            out[name] = np.stack((op, address & np.uint64(3), word, b))
    return out


def usage_of(fixed: Fixed, record: Record, index: NDArray[np.int64]) -> Usage:
    """What a segment asks of each table, by its record. `index` comes from `Fixed.instructions`."""
    count = len(fixed.machine.classes)
    asked = np.bincount(classes_of(fixed)[index], minlength=count)[:count].astype(np.uint32)
    calls = np.bincount(record.call_number, minlength=max(ALL_CALLS.values()) + 1).astype(np.uint32)
    calls[KECCAK_CALL] = len(record.permuted_before)  # what its tables are made of
    return Usage(record.cycles, asked, calls, len(keys_of(record)))


def log_heights(fixed: Fixed, usage: Usage, words: int) -> dict[str, int]:
    """log2 of the rows of each table that a segment needs whose part of the run's words is `words`. Raises UsageError
    for more words of public input than the statement has room for."""
    read = int(usage.calls[CALLS["public"]])
    if read > MOST_WORDS:
        raise UsageError(
            f"a segment reads {count_of(read, 'word')} of public input, and its statement has room for "
            f"{MOST_WORDS}: let the guest "
            "read a digest, and the rest as private input, or cut the run into smaller segments"
        )
    permutations = int(usage.calls[KECCAK_CALL])
    rows = {name: precompiles.TABLES[name].rows_for(usage) for name in fixed.precompiles}
    rows["keccak_words"], classes = words_accessed(usage), fixed.machine.classes
    return {
        "cpu": log_rows_for(usage.cycles),
        **{name: log_rows_for(int(asked)) for name, asked in zip(classes, usage.classes, strict=False) if asked},
        "host": log_rows_for(sum(int(usage.calls[number]) for number in CALLS.values())),
        **({"keccak": keccak_log_height(permutations)} if permutations else {}),
        **{name: log_rows_for(count) for name, count in rows.items() if count},
        "touched": log_rows_for(usage.touched),
        "words": log_rows_for(words),
        **fixed.log_heights(),
    }


def run_heights(fixed: Fixed, usages: Sequence[Usage], words: int) -> list[list[int | None]]:
    """log2 of the rows of each of the guest's tables in each segment of a run, None for an absent one. `words` is the
    number of words and registers that the run uses. Raises UsageError as `log_heights` does, and for too long an
    output."""
    written = outputs_of(usages)[-1]
    if written > MAX_OUTPUT_WORDS:
        raise UsageError(
            f"the run writes {count_of(written, 'word')} of output, and a proof states {MAX_OUTPUT_WORDS} at most"
        )
    parts = cut_evenly(words, len(usages))
    named = [log_heights(fixed, usage, len(part)) for usage, part in zip(usages, parts, strict=True)]
    return [[found.get(air.name) for air in fixed.tables] for found in named]


def outputs_of(usages: Sequence[Usage]) -> list[int]:
    """Words of output that are written before each segment of a run, and by all of it."""
    return list(accumulate((int(usage.calls[CALLS["write"]]) for usage in usages), initial=0))


def operation_classes(fixed: Fixed, program: Sequence[tuple[int, U32]]) -> NDArray[np.uint8]:
    """For each operation of the executor (`operations()` in riscv.h) the number of the table in the machine's `classes`
    that it asks, or `NO_CLASS`. `program` is `Elf.program`."""
    ends = [start + 4 * np.arange(len(words) + 1, dtype=np.uint64) for start, words in program]
    address = np.concatenate(ends)
    known, count = fixed.rom[0], len(fixed.machine.classes)
    at = np.minimum(np.searchsorted(known, address), max(len(known) - 1, 0))
    classes = np.append(classes_of(fixed), np.int8(count))[at]
    asks = (np.append(known, np.uint64(NO_PC))[at] == address) & (classes < count)
    found: NDArray[np.uint8] = np.where(asks, classes.astype(np.uint8), np.uint8(NO_CLASS))
    return found


def classes_of(fixed: Fixed) -> NDArray[np.int8]:
    """For each instruction the number of the table in the machine's `classes` that it asks; their number for none."""
    flags, op = fixed.rom[1], fixed.rom[2]
    out = np.full(fixed.rom.shape[1], len(fixed.machine.classes), dtype=np.int8)
    for k, name in enumerate(fixed.machine.classes):
        operations = ALU_TABLES.get(name) or WIDE_TABLES.get(name)
        if operations is not None:
            flag = bits("alu") if name in ALU_TABLES else bits("wide")
            out[(flags & np.uint64(flag) != 0) & np.isin(op, [ALU_OPS[each] for each in operations])] = k
        else:
            out[flags & np.uint64(bits("narrow")) != 0] = k
    return out


def segment_trace(inputs: Mapping[str, Array], backend: Backend) -> Trace:
    """Make the trace from the arrays of `segment_inputs`, on the backend's device."""
    has = zip(precompiles.TABLES, backend.to_host(inputs["precompiles"]), strict=True)
    names = [name for name, flag in has if flag]
    machine = MACHINES[int(backend.to_host(inputs["xlen"])[0])]
    airs = machine.tables_of(names)
    heights = {air.name: int(k) for air, k in zip(airs, backend.to_host(inputs["heights"]), strict=True)}
    public = tuple(int(value) for value in backend.to_host(inputs["public"]))
    record = {name: inputs[name] for name in ("record", "index", "rom", "end")}
    columns: dict[str, Array] = {
        "cpu": machine.cpu.make(backend, 1 << heights["cpu"], **record),
        "rom": inputs["rom_used"],
        "image": inputs["image_used"],
    }
    for name, rows in machine.classes.items():
        if heights[name] != ABSENT:
            count = inputs[f"count_{name}"]
            columns[name] = rows.make(backend, 1 << heights[name], calls=inputs[f"calls_{name}"], count=count)
    if heights["keccak"] != ABSENT:
        columns["keccak"] = keccak_columns(backend, heights["keccak"], inputs)
    if heights["keccak_words"] != ABSENT:
        words, count = inputs["accessed_words"], inputs["accessed_count"]
        columns["keccak_words"] = WORD_ROWS.make(backend, 1 << heights["keccak_words"], words=words, count=count)
    for name in names:
        if heights[name] != ABSENT:
            columns[name] = precompiles.TABLES[name].columns(backend, heights[name], inputs)
    for name in ("host", "touched", "words", "stated"):
        columns[name] = inputs[name]
    return Trace([columns.get(air.name) for air in airs], public)
