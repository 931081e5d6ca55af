"""Traces of the RISC-V machine's tables from runs of the plain interpreter, to check and to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Bus, trace_air
from distprove.stark.air.check import BoundaryTuple, Failure, PartitionTrace, check_partitions
from distprove.stark.riscv.buses import IMAGE, LOOKUP, ROM, STATED
from distprove.stark.riscv.host import PLACES
from distprove.stark.riscv.links import Words, keys_of, values_of
from distprove.stark.riscv.lookup import row_of
from distprove.stark.riscv.record import U32, Record
from distprove.stark.riscv.segment import (
    NO_WORD,
    PUBLIC,
    Fixed,
    Place,
    layout,
    segment_inputs,
    segment_trace,
    tables,
)
from distprove.stark.riscv.sent import Sent
from kernels.cpu.backend import CpuBackend
from tests.support.riscv_oracle import Run

Columns = NDArray[np.uint64]


def _sends(air: Air, bus: Bus) -> bool:
    return any(use.bus == bus and use.sends for use in trace_air(air, layout()).interactions)


AIRS = {air.name: air for air in tables()}
PROVIDED = (LOOKUP, ROM, IMAGE)
"""The buses whose tables count how often each row is looked up. They are named as the tables are."""
SENDERS = {
    air.name: [Sent(air, bus, layout()) for bus in PROVIDED if _sends(air, bus)]
    for air in AIRS.values()
    if any(_sends(air, bus) for bus in PROVIDED)
}
DEFINITIONS = {name: trace_air(air, layout()) for name, air in AIRS.items()}


@dataclass
class Job:
    """The traces of a run's segments, by table and column, which a test may change."""

    fixed: Fixed
    main: list[dict[str, Columns]]
    public: list[dict[str, Any]]

    def failures(self) -> list[Failure]:
        """What the debug check finds."""
        partitions = [
            PartitionTrace([main[name] for name in AIRS], public)
            for main, public in zip(self.main, self.public, strict=True)
        ]
        stated = [
            BoundaryTuple(STATED, (k, place, int(public["stated"][place])), -1)
            for k, public in enumerate(self.public)
            for place in range(PLACES)
        ]
        return check_partitions(
            tuple(AIRS.values()), partitions, preprocessed=[self.rows.get(name) for name in AIRS], boundary=stated
        )

    @cached_property
    def rows(self) -> dict[str, Columns]:
        """The preprocessed columns by table."""
        return self.fixed.columns()

    def recount(self, *changed: str) -> None:
        """Count anew what the `changed` tables look up, so that a forged trace fails for what it says, not for
        what it looked up before. What no table holds is not counted.
        """
        for segment, counts in enumerate(self._counts):
            for table in set(changed) & set(SENDERS):
                counts[table] = self._looked_up(segment, table)
            for bus in PROVIDED:
                self.main[segment][bus.name] = sum(each[bus] for each in counts.values() if bus in each)[None]

    @cached_property
    def _counts(self) -> list[dict[str, dict[Bus, Columns]]]:
        return [{table: self._looked_up(k, table) for table in SENDERS} for k in range(len(self.main))]

    def _looked_up(self, segment: int, table: str) -> dict[Bus, Columns]:
        """How often a table looks each row of the tables that provide values up."""
        flat = [int(v) for value in self.public[segment].values() for v in np.ravel(np.array(value, dtype=object))]
        out = {}
        with CpuBackend(threads=1) as backend:
            for sender in SENDERS[table]:
                fixed = self.rows[sender.bus.name]
                used = out[sender.bus] = np.zeros(fixed.shape[1], dtype=np.uint64)
                for values, times in sender.tuples(backend, self.main[segment][table], flat):
                    sent = values[:, times == 1]
                    rows = _rows_of(sender.bus, fixed, sent)
                    np.add.at(used, rows[(fixed[:, rows] == sent).all(axis=0)], np.uint64(1))
        return out

    def column(self, table: str, name: str, segment: int = 0, index: int = 0) -> Columns:
        """A column of a table, to be read or changed in place."""
        columns = DEFINITIONS[table].main
        start = sum(list(columns.values())[: list(columns).index(name)])
        return self.main[segment][table][start + index]


class Links:
    """Takes the records of a run in order, and says of each from which segments its words come."""

    def __init__(self) -> None:
        none = np.zeros(0, dtype=np.uint32)
        self._words, self._count = Words(none, none, none), 0

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
        value, segment = known.value.copy(), known.segment.copy()
        value[at[old]], segment[at[old]] = values_of(record, "end")[old], self._count
        new, place = ~old, where[~old]
        self._words = Words(
            np.insert(known.key, place, keys[new]),
            np.insert(value, place, values_of(record, "end")[new]),
            np.insert(segment, place, np.uint32(self._count)),
        )
        return earlier


def places_of(records: Sequence[Record]) -> list[Place]:
    """The places of a run's segments, with its words cut evenly."""
    links = Links()
    earlier = [links.add(record) for record in records]
    words, n = links.words, len(records)
    out, start = [], NO_WORD
    for i in range(n):
        part = words.part(len(words.key) * i // n, len(words.key) * (i + 1) // n)
        out.append(Place(i, i == n - 1, earlier[i], part, start))
        start = int(part.key[-1]) if len(part.key) else start
    return out


def job_of(run: Run, change: Callable[[list[dict[str, Any]]], None] | None = None) -> Job:
    """The traces of a run. `change` may change the inputs of the segments before the traces are made."""
    fixed = Fixed.of(run.image)
    pairs = zip(run.records, places_of(run.records), strict=True)
    inputs: list[dict[str, Any]] = [segment_inputs(fixed, record, place) for record, place in pairs]
    if change:
        change(inputs)
    job = Job(fixed, [], [])
    with CpuBackend(threads=2) as backend:
        for each in inputs:
            trace = segment_trace(each, backend)
            job.main.append({name: np.array(columns) for name, columns in zip(AIRS, trace.main, strict=True)})
            job.public.append(named(trace.public))
    return job


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


def _rows_of(bus: Bus, fixed: Columns, sent: Columns) -> NDArray[np.int64]:
    """The rows that may hold these tuples."""
    if bus == LOOKUP:
        kind, x, y = np.where(sent[:3] < 1 << 17, sent[:3], np.uint64(0))
        return row_of(kind, x, y).astype(np.int64).clip(0, fixed.shape[1] - 1)
    keys = np.argsort(fixed[0], kind="stable")
    return keys[np.searchsorted(fixed[0], sent[0], sorter=keys).clip(0, fixed.shape[1] - 1)]
