"""Counts how often a lookup table's rows are looked up, so that no program has to: the columns that AIRs declare by
`t.receive(..., row_of=...)`.

Each sender's tuples name rows of the table by the author's expression, which is compiled like a constraint; its values
and the multiplicities are computed where the trace is, and added up there. Nothing of this is trusted: a wrong count is
a bus that does not balance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from distprove.errors import AirError
from distprove.stark.air.definition import Definition, Interaction
from distprove.stark.air.expression import MAIN, Expression, operand
from distprove.stark.air.lowering import lower
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_program import Op, RowProgram


@dataclass(frozen=True)
class Sender:
    """A table that sends on a counted bus."""

    table: int
    lookups: RowProgram
    """Its inputs are preprocessed and main columns, its scalars the public values, its outputs the rows that are looked
    up by each of its interactions on the bus, then how often each is."""


@dataclass(frozen=True)
class Count:
    """A column that is counted: how often each row of its table is looked up on a bus."""

    bus: str
    table: int
    column: int
    senders: tuple[Sender, ...]
    closes: bool = False
    """Whether it is the last column of its table to be counted."""


@dataclass(frozen=True)
class Counting:
    """What is counted in a program's traces."""

    counts: tuple[Count, ...] = ()
    """In an order in which the columns of senders are counted before what these send."""
    made: Mapping[int, int] = field(default_factory=dict)
    """The tables all of whose main columns are counted, with the number of these: a program need not make them."""

    def programs(self, tables: Collection[int]) -> list[RowProgram]:
        """The programs that compute what these tables look up."""
        return [sender.lookups for count in self.counts for sender in count.senders if sender.table in tables]

    def fill(
        self,
        main: list[Array | None],
        fixed: Callable[[int], Array | None],
        public: Sequence[int],
        optional: Sequence[bool],
        backend: Backend,
    ) -> None:
        """Write the counted columns into `main`, the main columns of each table (width, rows), None for an absent one.

        A table of counts alone may be None here: it is made, but left out if it is optional and nothing was counted.
        `fixed` gives a table's preprocessed columns, `public` holds all public values, `optional` says which tables may
        be absent. Columns and public values of a wrong number are left alone: whoever checks the trace refuses them.
        """
        if len(main) != len(optional):
            return
        made = {table for table in self.made if main[table] is None}
        for table in made:
            columns = fixed(table)
            assert columns is not None, "only tables with preprocessed columns are made"
            main[table] = backend.empty((self.made[table], int(columns.shape[1])))
        for count in self.counts:
            counted = main[count.table]
            if counted is None or len(counted) <= count.column:
                continue
            if isinstance(counted, np.ndarray) and not counted.flags.writeable:  # an input of the partition
                counted = main[count.table] = counted.copy()
            self._fill_column(counted[count.column], count, main, fixed, public, backend)
            may_go = count.closes and count.table in made and optional[count.table]
            if may_go and not backend.to_host(counted).any():
                main[count.table] = None

    def _fill_column(
        self,
        column: Array,
        count: Count,
        main: Sequence[Array | None],
        fixed: Callable[[int], Array | None],
        public: Sequence[int],
        backend: Backend,
    ) -> None:
        scalars = np.zeros((len(public), 3), dtype=np.uint64)
        scalars[:, 0] = public
        column[...] = 0
        for sender in count.senders:
            sent, lookups = main[sender.table], sender.lookups
            if sent is None or (len(sent), len(scalars)) != (lookups.widths[MAIN], lookups.scalars):
                continue
            found = backend.goldilocks.evaluate(lookups, [fixed(sender.table), sent], scalars)
            rows, times = found.reshape(2, -1)
            backend.goldilocks.count(rows, times, column)


def compile_counting(definitions: Sequence[Definition]) -> Counting:
    """Compile what the tables of a program count. Raises AirError for what cannot be counted."""
    declared = [(k, i) for k, d in enumerate(definitions) for i in d.interactions if i.row_of is not None]
    counts = [_count(definitions, table, interaction) for table, interaction in declared]
    columns: dict[int, list[int]] = {}
    for count in counts:
        own = columns.setdefault(count.table, [])
        if count.column in own:
            raise AirError(f"{definitions[count.table].name}: one column counts what is sent on two buses")
        own.append(count.column)
    made = {
        table: len(own)
        for table, own in columns.items()
        if len(own) == sum(definitions[table].main.values()) and definitions[table].preprocessed
    }
    ordered = _ordered(counts)
    last = {count.table: place for place, count in enumerate(ordered)}
    return Counting(tuple(replace(c, closes=last[c.table] == place) for place, c in enumerate(ordered)), made)


def _count(definitions: Sequence[Definition], table: int, interaction: Interaction) -> Count:
    """What one interaction that receives with `row_of` counts."""
    name, bus = definitions[table].name, interaction.bus
    where = f"{name}: {interaction}"
    op, matrix, column, next_row = definitions[table].graph.nodes[interaction.times]
    if op != Op.LOAD or matrix != MAIN or next_row:
        raise AirError(f"{where}: what is counted is a main column in this row, such as times=t.this.used")
    if bus.scope != "local":
        raise AirError(f"{where}: what other partitions send on a global bus cannot be counted")
    senders = []
    for number, definition in enumerate(definitions):
        on_bus = [i for i in definition.interactions if i.bus.name == bus.name]
        if any(not i.sends and i is not interaction for i in on_bus):
            raise AirError(f"{where}: {definition.name} receives on this bus too, so that nobody can tell whose it is")
        sent = [i for i in on_bus if i.sends]
        if sent:
            senders.append(Sender(number, _lookups(definition, sent, interaction)))
    return Count(bus.name, table, column, tuple(senders))


def _lookups(definition: Definition, sent: Sequence[Interaction], received: Interaction) -> RowProgram:
    graph = definition.graph
    rows = []
    for interaction in sent:
        assert received.row_of is not None
        row = received.row_of(*(Expression(graph, value) for value in interaction.values))
        rows.append(operand(graph, row))
    widths = sum(definition.preprocessed.values()), sum(definition.main.values())
    return lower(graph, [*rows, *(i.times for i in sent)], widths=widths, scalars=definition.public_count)


def _ordered(counts: Sequence[Count]) -> list[Count]:
    """The counts such that each comes after all counts of its senders' columns. Raises AirError where there is none."""
    left, done = list(counts), []
    while left:
        waiting = {count.table for count in left}
        ready = [c for c in left if not waiting & {s.table for s in c.senders}]
        if not ready:
            raise AirError(f"bus {left[0].bus}: what is counted on it depends on the counts themselves")
        done += ready
        left = [c for c in left if c not in ready]
    return done
