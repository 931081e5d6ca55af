"""Debugger for AIRs: finds the constraint that fails, its row and values, and the tuples that do not balance on a bus.

Everything is computed in NumPy on the trace itself, without extension, challenge or proof. A report holds values of the
trace, which may be secret: it is for the author of an AIR only. A prover that diagnoses a bad proof
(`StarkProver.diagnose`) reports the rule and the row, and no value.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from distprove.errors import AirError
from distprove.stark import field
from distprove.stark.air.compiler import number_buses
from distprove.stark.air.definition import (
    Air,
    Bus,
    Constraint,
    Definition,
    Interaction,
    Layout,
    Source,
    layout_of,
    trace_air,
)
from distprove.stark.air.expression import MAIN, PREPROCESSED, SELECTORS, Graph
from distprove.stark.air.lowering import lower
from distprove.stark.air.on_rows import RowsProgram
from distprove.stark.field import P, Words
from kernels.host.units import count_of
from kernels.interface.row_program import Op
from kernels.maths.goldilocks import root_of_unity

Indices = NDArray[np.int64]

BLOCK_BYTES = 64 << 20
"""Maximum bytes of the intermediate values of one block of rows."""
MAX_HEIGHT = 1 << 28
DEFAULT_MOST = 20
"""Default number of failures that are listed."""
PLACES = 4
"""Maximum number of rows that are named on each side of a tuple that does not balance."""

Public = Mapping[str, "int | Sequence[int]"]
"""The program's public values by name, in order."""


@dataclass(frozen=True)
class Party:
    """An interaction that takes part in a tuple that does not balance."""

    table: str
    """Name of its table; "boundary" for the statement's own tuples."""
    message: str
    """The author's name for the interaction; empty without one."""
    sends: bool
    times: int
    """How often it sends or receives that tuple, over all rows."""
    source: str = ""
    """File and line of the interaction."""

    def __str__(self) -> str:
        named = f" ({self.message})" if self.message else ""
        at = f" at {self.source}" if self.source else ""
        return f"{'sent' if self.sends else 'received'} {_times(self.times)} by {self.table}{named}{at}"


@dataclass(frozen=True)
class Failure:
    """A rule that a trace violates."""

    table: str
    """Name of the AIR; empty for a bus that does not balance."""
    rule: str
    """Name of the constraint, or "bus NAME"."""
    row: int | None
    """The first row that fails; None for a bus that does not balance."""
    rows: int
    """Number of rows that fail; for a bus, number of different tuples that do not balance."""
    values: tuple[tuple[str, int], ...]
    """Names and values of the cells in that row and of the public values that the rule reads; for a bus, the tuple."""
    detail: str = ""
    place: str = ""
    """For a bus, a table and its row that sends the tuple; empty where the row may tell a value of the
    trace, as that of a lookup table does (`_Tally.add`)."""
    source: str = ""
    """File and line where the author states the rule; empty for a bus, whose parties have them."""
    parties: tuple[Party, ...] = ()
    """For a bus: the interactions that send and receive the first tuple that does not balance."""

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {_signed(value)}" for name, value in self.values)
        return f"{self._where}: {values}" + (f"; {self.detail}" if self.detail else "") + self._at

    def without_values(self) -> str:
        """The failure without a value of the trace: the rule, its place and row, and the names of what it reads; for a
        bus, which interactions send and receive a tuple, how often, and a row that sends it, where the row tells no
        value."""
        if self.row is None:
            sides = {"sent": [p for p in self.parties if p.sends], "received": [p for p in self.parties if not p.sends]}
            told = ("; ".join(map(str, side)) or f"never {verb}" for verb, side in sides.items())
            place = f"; first at {self.place}" if self.place else ""
            return f"{self._where}: a tuple is {'; '.join(told)}{place}"
        reads = ", ".join(name for name, _ in self.values)
        return f"{self._where}: {self.detail or f'reads {reads}'}{self._at}"

    def to_record(self, *, values: bool) -> dict[str, object]:
        """The failure as plain data, without a value of the trace unless `values`."""
        record = dataclasses.asdict(self)
        if not values:
            record |= {"values": [name for name, _ in self.values], "detail": "" if self.row is None else self.detail}
        return record

    @property
    def _where(self) -> str:
        where = self.rule if self.row is None else f"{self.table}: {self.rule}, row {self.row}"
        return f"{where} (and {self.rows - 1} more)" if self.rows > 1 else where

    @property
    def _at(self) -> str:
        return f"; at {self.source}" if self.source else ""


@dataclass(frozen=True)
class BoundaryTuple:
    """A tuple that the statement itself sends on a global bus `times` times, or receives if `times` is negative."""

    bus: Bus
    values: tuple[int, ...]
    times: int = 1


@dataclass(frozen=True)
class PartitionTrace:
    """The trace and the public values of one partition."""

    main: Sequence[Words | None] = dataclasses.field(repr=False)
    """The main columns of each table, (width, n) with n a power of two; tables may differ in height. None for an absent
    table."""
    public: Public


@dataclass(frozen=True)
class Example:
    """A small instance of a program, for `distprove air check`. A class named there may return it from `example()`."""

    airs: Sequence[Air]
    partitions: Sequence[PartitionTrace]
    preprocessed: Sequence[Words | None] | None = None
    boundary: Sequence[BoundaryTuple] = ()
    """Boundary tuples of the global buses. An example is a whole job, whose global buses balance with these."""
    definitions: Sequence[Definition] = ()
    """The definitions of `airs`, where these were traced before."""

    @property
    def layout(self) -> Layout:
        """The layout of the public values."""
        return _flatten(self.partitions[0].public)[0]

    def check(self, most: int = DEFAULT_MOST) -> list[Failure]:
        """Check all partitions of the example, as `check_partitions` does."""
        airs = self.definitions or self.airs
        return check_partitions(
            airs, self.partitions, preprocessed=self.preprocessed, boundary=self.boundary, most=most
        )


def check_trace(
    airs: Sequence[Air | Definition],
    traces: Sequence[Words | None],
    public: Public | None = None,
    *,
    preprocessed: Sequence[Words | None] | None = None,
    boundary: Sequence[BoundaryTuple] | None = None,
    most: int = DEFAULT_MOST,
) -> list[Failure]:
    """Check the traces of one partition alone, as `check_partitions` does."""
    partition = PartitionTrace(traces, public or {})
    return check_partitions(airs, [partition], preprocessed=preprocessed, boundary=boundary, most=most)


def check_partitions(
    airs: Sequence[Air | Definition],
    partitions: Sequence[PartitionTrace],
    *,
    preprocessed: Sequence[Words | None] | None = None,
    boundary: Sequence[BoundaryTuple] | None = None,
    most: int = DEFAULT_MOST,
) -> list[Failure]:
    """Check the traces of all tables in all partitions. Returns the first `most` failures, or none if all rules hold.

    `preprocessed` holds the fixed columns of each AIR, (width, n), or None for an AIR without. Global buses are checked
    only when their `boundary` is given (empty when nothing enters or leaves), and then over all given partitions.
    Tables may be given as definitions: to trace an AIR takes most of the time of a small check.
    Raises AirError for an AIR that cannot be compiled, or arrays of a wrong shape or with values that are not field
    elements.
    """
    fixed = [None] * len(airs) if preprocessed is None else list(preprocessed)
    failures: list[Failure] = []
    far: dict[Bus, _Tally] = {}
    traced: Layout | None = None
    for index, partition in enumerate(partitions):
        if not len(airs) == len(partition.main) == len(fixed):
            raise AirError(
                f"{count_of(len(airs), 'AIR')}, {count_of(len(partition.main), 'trace')}, {len(fixed)} fixed: "
                f"not one for each"
            )
        layout, public = _flatten(partition.public)
        if layout != traced:
            traced, definitions = layout, [_definition(air, layout) for air in airs]
            number_buses(definitions)  # refuses a bus that is declared in two ways
        where = f"partition {index}: " if len(partitions) > 1 else ""
        tables = [
            _Table(where, definition, main, columns, public)
            for definition, main, columns in zip(definitions, partition.main, fixed, strict=True)
            if main is not None
        ]
        near: dict[Bus, _Tally] = {}
        for table in tables:
            failures += table.check_constraints()
        for table in tables:
            failures += table.check_interactions(near, far)
        failures += [failure for tally in near.values() for failure in tally.failures(where)]
    for term in boundary or ():
        if len(term.values) != term.bus.width:
            raise AirError(f"a boundary tuple of {count_of(len(term.values), 'value')} for bus {term.bus.name}")
        far.setdefault(term.bus, _Tally(term.bus)).add_boundary(term)
    if boundary is not None:
        failures += [failure for tally in far.values() for failure in tally.failures("")]
    return failures[:most]


def _definition(air: Air | Definition, layout: Layout) -> Definition:
    if not isinstance(air, Definition):
        return trace_air(air, layout)
    if air.public != layout:
        raise AirError(f"{air.name} was defined for other public values")
    return air


class _Table:
    """An AIR with its trace."""

    def __init__(
        self, where: str, definition: Definition, main: Words, preprocessed: Words | None, public: Words
    ) -> None:
        self.definition = definition
        self.name = name = where + definition.name
        main_width, fixed_width = sum(definition.main.values()), sum(definition.preprocessed.values())
        self.main = _matrix(main, main_width, f"{name}: main trace")
        self.height = self.main.shape[1]
        if preprocessed is None and fixed_width:
            raise AirError(f"{name}: its preprocessed columns are missing")
        fixed = np.zeros((0, self.height), dtype=np.uint64) if preprocessed is None else preprocessed
        self.fixed = _matrix(fixed, fixed_width, f"{name}: preprocessed columns")
        if self.fixed.shape[1] != self.height:
            raise AirError(
                f"{name}: {count_of(self.fixed.shape[1], 'preprocessed row')} for {count_of(self.height, 'row')} "
                f"of the trace"
            )
        self.public = public
        self._matrices = {PREPROCESSED: lambda: self.fixed, MAIN: lambda: self.main, SELECTORS: lambda: self._selectors}

    @cached_property
    def _selectors(self) -> Words:
        return selectors_on_trace(self.height)

    def check_constraints(self) -> list[Failure]:
        constraints = self.definition.constraints
        if not constraints:
            return []
        program = self._program([constraint.node for constraint in constraints])
        first = np.full(len(constraints), self.height)
        counts = np.zeros(len(constraints), dtype=np.int64)
        for start, values in self._blocks(program):
            wrong = values != 0
            counts += wrong.sum(axis=1)
            found = np.where(wrong.any(axis=1), start + wrong.argmax(axis=1), self.height)
            first = np.minimum(first, found)
        return [
            Failure(self.name, c.name, int(row), int(count), self._cells(c, int(row)), source=shown_source(c.source))
            for c, row, count in zip(constraints, first, counts, strict=True)
            if count
        ]

    def check_interactions(self, near: dict[Bus, _Tally], far: dict[Bus, _Tally]) -> list[Failure]:
        """Add this table's tuples to the tallies, and report multiplicities that exceed their declared bound."""
        failures = []
        interactions = self.definition.interactions
        if not interactions:
            return []
        blocks = self._blocks(self._program([interaction.times for interaction in interactions]))
        all_times = np.concatenate([block for _, block in blocks], axis=1)
        # Most rows of a large table, such as one of fixed tuples, send nothing: their values are not computed.
        used = np.flatnonzero(all_times.any(axis=0))
        blocks = self._blocks(self._program([node for each in interactions for node in each.values]), used)
        all_values = np.concatenate([block for _, block in blocks], axis=1)
        start = 0
        for interaction, times in zip(interactions, all_times, strict=True):
            bus, stop = interaction.bus, start + interaction.bus.width
            values = all_values[start:stop]
            start = stop
            tallies = near if bus.scope == "local" else far
            tallies.setdefault(bus, _Tally(bus)).add(self.name, interaction, values, times, used, not len(self.fixed))
            if interaction.at_most is not None and (times > interaction.at_most).any():
                over = np.flatnonzero(times > interaction.at_most)
                row = int(over[0])
                failures.append(
                    Failure(
                        self.name,
                        f"bus {bus.name}{interaction.note}",
                        row,
                        len(over),
                        (("times", int(times[row])),),
                        f"declared to be at most {interaction.at_most}",
                        source=shown_source(interaction.source),
                    )
                )
        return failures

    def _program(self, nodes: list[int]) -> RowsProgram:
        return _prepared(self.definition.graph, tuple(nodes), (len(self.fixed), len(self.main), 0, 3), len(self.public))

    def _blocks(self, program: RowsProgram, rows: Indices | None = None) -> list[tuple[int, Words]]:
        """The program's outputs, (outputs, rows), of each block of `rows`, by default of all: with the number of rows
        before it. There is at least one block."""
        rows = np.arange(self.height) if rows is None else rows
        size = max(1, BLOCK_BYTES // (8 * max(1, program.size)))
        starts = range(0, max(1, len(rows)), size)
        return [(start, program(self._matrices, self.public, rows[start : start + size])) for start in starts]

    def _cells(self, constraint: Constraint, row: int) -> tuple[tuple[str, int], ...]:
        cells = []
        loads = self.definition.graph.leaves([constraint.node])
        for _, matrix, column, next_row in sorted(loads, key=lambda load: (load[3], load)):
            if matrix == SELECTORS:
                continue
            name = self.definition.column_names(matrix)[column]
            prefix = ("next." if next_row else "") if matrix == MAIN else ("fixed_next." if next_row else "fixed.")
            values = self.main if matrix == MAIN else self.fixed
            cells.append((prefix + name, int(values[column, (row + next_row) % self.height])))
        public = self.definition.public_names()
        for _, index, _, _ in self.definition.graph.leaves([constraint.node], Op.BASE_SCALAR):
            cells.append((f"public.{public[index]}", int(self.public[index])))
        return tuple(cells)


class _Tally:
    """Collects all tuples of one bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._places: list[tuple[str, bool, Words]] = []  # table, or "boundary"; sends; rows
        self._notes: list[str] = []
        self._stated: list[tuple[str, str]] = []  # name of the interaction, file and line
        self._open: list[bool] = []
        self._values: list[Words] = []
        self._times: list[Words] = []

    def add(self, table: str, interaction: Interaction, values: Words, times: Words, used: Indices, free: bool) -> None:
        """Add an interaction's tuples: `values`, (width, len(used)), of the rows `used`; `times` of all rows. Other
        rows than these have no times.

        `free` says that the table has no preprocessed columns. In a lookup table a row's number stands for the tuple,
        which may be secret. Such a table has preprocessed columns, or receives, or sends without a bound.
        """
        chosen = np.flatnonzero(times[used])
        rows = used[chosen]
        self._places.append((table, interaction.sends, rows.astype(np.uint64)))
        self._notes.append(interaction.note)
        self._stated.append((interaction.name or "", shown_source(interaction.source)))
        self._open.append(free and interaction.sends and interaction.at_most is not None)
        self._values.append(values[:, chosen].T)
        self._times.append(times[rows])

    def add_boundary(self, term: BoundaryTuple) -> None:
        values = np.array([[value % P for value in term.values]], dtype=np.uint64)
        times = np.array([abs(term.times) % P], dtype=np.uint64)
        self._places.append(("boundary", term.times > 0, np.zeros(1, dtype=np.uint64)))
        self._notes.append("")
        self._stated.append(("", ""))
        self._open.append(False)
        self._values.append(values)
        self._times.append(times)

    def failures(self, where: str) -> list[Failure]:
        """At most one failure: the first tuple that does not balance, with the rows on either side of it, and the tuple
        that is off the other way and has the most elements in common with it, if there is one."""
        values, times = np.concatenate(self._values), np.concatenate(self._times)
        if not len(values):
            return []
        sends = np.concatenate([np.full(len(rows), sends) for _, sends, rows in self._places])
        tuples, group = np.unique(values, axis=0, return_inverse=True)
        group = group.reshape(-1)
        sent = _sums(times[sends], group[sends], len(tuples))
        received = _sums(times[~sends], group[~sends], len(tuples))
        wrong = np.flatnonzero(sent != received)
        if not len(wrong):
            return []
        bad = int(wrong[0])
        sides = partial(self._sides, group, times, sends, sent, received)
        detail = sides(bad)
        too_often = field.sub(sent, received) <= np.uint64(P // 2)
        others = wrong[too_often[wrong] != too_often[bad]]
        if len(others):
            closest = int(others[(tuples[others] == tuples[bad]).sum(axis=1).argmax()])
            named = ", ".join(f"{name} = {_signed(value)}" for name, value in self._named(tuples[closest]))
            detail += f"; closest to it, and off the other way: {named}; {sides(closest)}"
        cells, place = self._named(tuples[bad]), self._open_place(group, bad)
        parties = self._parties(group, times, bad)
        return [Failure("", f"{where}bus {self.bus.name}", None, len(wrong), cells, detail, place, parties=parties)]

    def _parties(self, group: Indices, times: Words, bad: int) -> tuple[Party, ...]:
        """What sends and receives a tuple: each interaction once, with the sum of its times over all rows."""
        found: dict[tuple[str, str, bool, str], int] = {}
        start = 0
        for (table, sends, rows), (name, source) in zip(self._places, self._stated, strict=True):
            own = slice(start, start + len(rows))
            start += len(rows)
            mine = times[own][group[own] == bad]
            if len(mine):
                party = (table, name, sends, source)
                found[party] = (found.get(party, 0) + sum(map(int, mine))) % P
        return tuple(Party(*party[:3], count, party[3]) for party, count in found.items())

    def _named(self, values: Words) -> tuple[tuple[str, int], ...]:
        names = self.bus.fields or [f"t{k}" for k in range(1, self.bus.width + 1)]
        return tuple(zip(names, map(int, values), strict=True))

    def _sides(self, group: Indices, times: Words, sends: Words, sent: Words, received: Words, bad: int) -> str:
        """How often a tuple is sent and received, and by which rows: some of each side."""
        place = np.concatenate([np.full(len(rows), k) for k, (_, _, rows) in enumerate(self._places)])
        row = np.concatenate([rows for _, _, rows in self._places])
        told = []
        for verb, side, total in (("sent", sends, sent), ("received", ~sends, received)):
            found = np.flatnonzero((group == bad) & side)
            rows = [self._place(int(place[i]), int(row[i]), int(times[i])) for i in found[:PLACES]]
            more = [count_of(len(found) - PLACES, "more row")] if len(found) > PLACES else []
            by = f" by {', '.join([*rows, *more])}" if rows else ""
            told.append(f"{verb} {_times(int(total[bad]))}{by}")
        return "; ".join(told)

    def _open_place(self, group: Indices, bad: int) -> str:
        """Table and row of the first of a tuple's places of which the row may be told; empty if there is none."""
        start = 0
        for number, (_, _, rows) in enumerate(self._places):
            found = np.flatnonzero(group[start : start + len(rows)] == bad)
            start += len(rows)
            if self._open[number] and len(found):
                return self._place(number, int(rows[found[0]]), 1)
        return ""

    def _place(self, number: int, row: int, times: int) -> str:
        table = self._places[number][0]
        where = table if table == "boundary" else f"{table} row {row}{self._notes[number]}"
        return where if times == 1 else f"{where} {_times(times)}"


def selectors_on_trace(n: int) -> Words:
    """The values of the selector polynomials on the trace's domain, (3, n), not scaled to one."""
    w = root_of_unity(n.bit_length() - 1)
    out = np.zeros((3, n), dtype=np.uint64)
    # (x^n - 1)/(x - a) equals the derivative n x^(n-1) = n/x at its own root a, and zero at the other roots.
    out[0, 0] = n
    out[1, -1] = n * w % P
    out[2] = field.sub(field.powers(w, n), np.uint64(pow(w, -1, P)))
    return out


@lru_cache(maxsize=64)
def _prepared(graph: Graph, nodes: tuple[int, ...], widths: tuple[int, ...], scalars: int) -> RowsProgram:
    """The program of the nodes. It is kept, since a search for a wrong cell checks the same tables often."""
    return RowsProgram(lower(graph, nodes, widths=widths, scalars=scalars))


def _sums(times: Words, group: Indices, count: int) -> Words:
    """The sum of the times of each group in the field. Low and high halves are summed separately, so nothing wraps."""
    low, high = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    np.add.at(low, group, times & np.uint64(0xFFFFFFFF))
    np.add.at(high, group, times >> np.uint64(32))
    reduced = (half % np.uint64(P) for half in (high, low))
    return field.add(field.mul(next(reduced), np.uint64(1 << 32)), next(reduced))


def _matrix(values: object, width: int, what: str) -> Words:
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[0] != width:
        raise AirError(f"{what} has shape {array.shape}, expected ({width}, rows)")
    n = array.shape[1]
    if not 0 < n <= MAX_HEIGHT or n & (n - 1):
        raise AirError(f"{what} has {count_of(n, 'row')}, expected a power of two")
    kind = array.dtype.kind
    if kind not in "iu" or (array.size and ((kind == "i" and int(array.min()) < 0) or int(array.max()) >= P)):
        raise AirError(f"{what} holds values that are not integers from 0 to p - 1")
    return array.astype(np.uint64, copy=False)


def _flatten(public: Public) -> tuple[dict[str, tuple[int, int]], Words]:
    values = {name: [given] if isinstance(given, int) else list(map(int, given)) for name, given in public.items()}
    for name, given in values.items():
        if not all(0 <= value < P for value in given):
            raise AirError(f"public value {name} is not from 0 to p - 1")
    flat = [value for given in values.values() for value in given]
    return layout_of((name, len(given)) for name, given in values.items()), np.array(flat, dtype=np.uint64)


def shown_source(source: Source) -> str:
    """Files and lines as messages show them: relative to the folder of the command where they lie below it. Code that
    is in no file, as that of an interactive session, has none."""
    here = f"{os.getcwd()}{os.sep}"
    return ", from ".join(f"{file.removeprefix(here)}:{line}" for file, line in source if not file.startswith("<"))


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{_signed(count)} times")


def _signed(value: int) -> str:
    """Format a field element, small negative numbers with a sign: -1 rather than p - 1."""
    return str(value) if value < P - (1 << 32) else str(value - P)
