"""Traces of the RISC-V machine's tables from runs of the plain interpreter, to check and to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, trace_air
from distprove.stark.air.check import BoundaryTuple, Failure, PartitionTrace, check_partitions
from distprove.stark.counting import compile_counting
from distprove.stark.output import output_public, output_stream
from distprove.stark.riscv.buses import OUTPUT, STATED
from distprove.stark.riscv.calls import CALLS, PRECOMPILES
from distprove.stark.riscv.elf import Elf
from distprove.stark.riscv.executor import Execution, Inputs, Replay
from distprove.stark.riscv.host import MOST_WORDS, calls_of
from distprove.stark.riscv.links import Words, keys_of, upper_halves_of, values_of
from distprove.stark.riscv.machine import MACHINES
from distprove.stark.riscv.record import U32, Image, Record
from distprove.stark.riscv.segment import (
    NO_WORD,
    PUBLIC,
    Fixed,
    Place,
    segment_inputs,
    segment_trace,
)
from distprove.stark.statement import Statement
from kernels.cpu.backend import CpuBackend
from tests.support.riscv_oracle import Run

Columns = NDArray[np.uint64]


LAYOUT = Statement(public=PUBLIC).layout()
AIRS_OF = {xlen: {air.name: air for air in each.tables_of(tuple(PRECOMPILES))} for xlen, each in MACHINES.items()}
"""All tables by the bits of a register, those of precompiles too. A guest without one of these never has it."""
DEFINITIONS_OF = {xlen: {name: trace_air(air, LAYOUT) for name, air in airs.items()} for xlen, airs in AIRS_OF.items()}
COUNTING_OF = {xlen: compile_counting(list(each.values())) for xlen, each in DEFINITIONS_OF.items()}
AIRS, DEFINITIONS = AIRS_OF[32], DEFINITIONS_OF[32]


@dataclass
class Job:
    """The traces of a run's segments, by table and column, which a test may change."""

    fixed: Fixed
    main: list[dict[str, Columns]]
    public: list[dict[str, Any]]
    output: bytes

    @property
    def airs(self) -> Mapping[str, Air]:
        """All tables of the machine by name."""
        return AIRS_OF[self.fixed.xlen]

    def failures(self) -> list[Failure]:
        """What the debug check finds."""
        partitions = [
            PartitionTrace([main.get(name) for name in self.airs], public)
            for main, public in zip(self.main, self.public, strict=True)
        ]
        stated = [
            BoundaryTuple(STATED, (k, place, int(public["stated"][place])), -1)
            for k, public in enumerate(self.public)
            for place in range(MOST_WORDS)
        ]
        stated += [BoundaryTuple(OUTPUT, pair, -1) for pair in enumerate(output_stream(self.output).tolist())]
        fixed, definitions = [self.rows.get(name) for name in self.airs], DEFINITIONS_OF[self.fixed.xlen]
        return check_partitions([*definitions.values()], partitions, preprocessed=fixed, boundary=stated)

    @cached_property
    def rows(self) -> dict[str, Columns]:
        """The preprocessed columns by table."""
        return self.fixed.columns()

    def recount(self) -> None:
        """Count anew what is looked up, so that a forged trace fails for what it says, not for what it looked up."""
        with CpuBackend(threads=1) as backend:
            for main, public in zip(self.main, self.public, strict=True):
                columns: list[Any] = [None if name == "lookup" else main.get(name) for name in self.airs]
                values = [int(v) for value in public.values() for v in np.ravel([value])]
                counted(columns, self.rows, values, backend, self.fixed.xlen)
                main["lookup"] = columns[[*self.airs].index("lookup")]

    def column(self, table: str, name: str, segment: int = 0, index: int = 0) -> Columns:
        """A column of a table, to be read or changed in place."""
        columns = self.airs[table].main
        start = sum(list(columns.values())[: list(columns).index(name)])
        return self.main[segment][table][start + index]


class Links:
    """Takes the records of a run in order, and says of each from which segments its words come."""

    def __init__(self) -> None:
        none = np.zeros(0, dtype=np.uint32)
        self._words, self._count = Words(none.astype(np.uint64), none, none, none), 0

    @property
    def words(self) -> Words:
        """All words that the records so far access."""
        return self._words

    def add(self, record: Record) -> U32:
        """For each of `keys_of(record)` one more than the number of the last earlier segment with it; 0 without one."""
        known, keys = self._words, keys_of(record)
        where = np.searchsorted(known.key, keys)
        at = np.minimum(where, max(len(known.key) - 1, 0))
        old = known.key[at] == keys if len(known.key) else np.zeros(len(keys), dtype=bool)
        earlier = np.zeros(len(keys), dtype=np.uint32)
        earlier[old] = known.segment[at[old]]
        self._count += 1
        value, segment, upper = known.value.copy(), known.segment.copy(), known.upper.copy()
        value[at[old]], segment[at[old]] = values_of(record, "end")[old], self._count
        upper[at[old]] = upper_halves_of(record, "end")[old]
        new, place = ~old, where[~old]
        self._words = Words(
            np.insert(known.key, place, keys[new]),
            np.insert(value, place, values_of(record, "end")[new]),
            np.insert(segment, place, np.uint32(self._count)),
            np.insert(upper, place, upper_halves_of(record, "end")[new]),
        )
        return earlier


def written(records: Sequence[Record]) -> bytes:
    """The output that segments write."""
    calls = [calls_of(record) for record in records]
    return b"".join(argument[number == CALLS["write"]].astype("<u4").tobytes() for number, argument, *_ in calls)


def places_of(records: Sequence[Record]) -> list[Place]:
    """The places of a run's segments, with its words cut evenly."""
    links = Links()
    earlier = [links.add(record) for record in records]
    words, n = links.words, len(records)
    out, start = [], NO_WORD
    for i in range(n):
        part = words.part(len(words.key) * i // n, len(words.key) * (i + 1) // n)
        before = len(written(records[:i])) // 4
        out.append(Place(i, i == n - 1, earlier[i], part, start, before, output_public(written(records))))
        start = int(part.key[-1]) if len(part.key) else start
    return out


def job_of_elf(elf: Elf, private: bytes = b"", public: bytes = b"", segment: int = 1 << 20) -> Job:
    """The traces of a run of the executor."""
    replay = Replay(elf)
    records = [replay.record(snapshot) for snapshot in Execution(elf, Inputs(private, public)).segments(segment)]
    return job_of(Executed(elf.image(), records))


@dataclass
class Executed:
    """A run of the executor."""

    image: Image
    records: list[Record]


def job_of(run: Run | Executed) -> Job:
    """The traces of a run."""
    fixed = Fixed.of(run.image)
    pairs = zip(run.records, places_of(run.records), strict=True)
    inputs = [segment_inputs(fixed, record, place) for record, place in pairs]
    job = Job(fixed, [], [], written(run.records))
    with CpuBackend(threads=2) as backend:
        for each in inputs:
            trace = segment_trace(each, backend)
            names = [air.name for air in fixed.tables]
            main: list[Any] = [dict(zip(names, trace.main, strict=True)).get(name) for name in job.airs]
            counted(main, job.rows, trace.public, backend, fixed.xlen)
            found = zip(job.airs, main, strict=True)
            job.main.append({name: np.array(columns) for name, columns in found if columns is not None})
            job.public.append(named(trace.public))
    return job


def counted(
    main: list[Any], fixed: Mapping[str, Columns], public: Sequence[int], backend: CpuBackend, xlen: int = 32
) -> None:
    """Fill in the columns that the prover counts."""
    names = list(AIRS_OF[xlen])
    optional = [name in MACHINES[xlen].optional or name in PRECOMPILES for name in names]
    COUNTING_OF[xlen].fill(main, lambda table: fixed.get(names[table]), public, optional, backend)


def named(values: Sequence[int]) -> dict[str, Any]:
    """Public values by name."""
    out: dict[str, Any] = {}
    position = 0
    for name, length in PUBLIC:
        out[name] = values[position] if length == 1 else list(values[position : position + length])
        position += length
    return out


def heights(main: Mapping[str, Columns]) -> dict[str, int]:
    """Rows of each table."""
    return {name: columns.shape[1] for name, columns in main.items()}
