"""The definition of an AIR: a class with columns, and a method `define` that states constraints and interactions.

    class Fibonacci(Air):
        main = {"left": 1, "right": 1}
        public = ("first", "last")

        def define(self, t: Table) -> None:
            t.first(t.this.left - t.public.first)
            t.transition(t.next.left - t.this.right)
            t.transition(t.next.right - t.this.left - t.this.right)
            t.last(t.this.right - t.public.last)

`trace_air` runs `define` once on symbols and records what it states.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

from distprove.errors import AirError
from distprove.formats.owncode import own_lines
from distprove.stark.air.expression import (
    FIRST,
    LAST,
    MAIN,
    PREPROCESSED,
    SELECTORS,
    TRANSITION,
    Expression,
    Graph,
    operand,
)
from kernels.host.units import count_of
from kernels.interface.row_program import Op
from kernels.maths.goldilocks import P

MAX_COLUMNS = 1 << 16
MAX_BUS_WIDTH = 256
MAX_NAME = 120

Scope = Literal["local", "global"]
Kind = Literal["always", "first", "last", "transition"]
Value = Expression | int
Values = Sequence[Value] | Mapping[str, Value]
"""The values of a tuple: in order, or by the names of the bus's fields."""
RowOf = Callable[..., Value]
"""Takes the values of a tuple, in order, and gives the row of a table that holds the tuple."""
Source = tuple[tuple[str, int], ...]
"""Where an author states a rule, for messages: file and line of the statement, and where a function states it those in
`define` that call the function. It is no part of a key."""
Layout = Mapping[str, tuple[int, int]]
"""Maps the name of a public value to (offset among the partition's public values, count)."""


@dataclass(frozen=True)
class Bus:
    """A named multiset of tuples of `width` elements. Each tuple must be received as often as it is sent.

    A local bus balances among the tables of one partition, a global bus over all partitions and the public boundary.
    """

    name: str
    width: int = 0
    """Elements of a tuple; with `fields` it may be left out."""
    scope: Scope = "local"
    fields: tuple[str, ...] = field(default=(), compare=False)
    """Names of the elements, for messages and for tuples that are given by name. They are no part of a key."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= MAX_NAME:
            raise AirError(f"a bus has a name of 1 to {MAX_NAME} characters, not {self.name!r}")
        if self.fields:
            object.__setattr__(self, "fields", tuple(self.fields))
            object.__setattr__(self, "width", self.width or len(self.fields))
            if len(set(self.fields)) != self.width or not all(isinstance(name, str) for name in self.fields):
                raise AirError(f"bus {self.name}: {self.fields} are not {self.width} different names of fields")
        if not isinstance(self.width, int) or not 1 <= self.width <= MAX_BUS_WIDTH:
            raise AirError(f"bus {self.name}: width {self.width!r} is not from 1 to {MAX_BUS_WIDTH}")
        if self.scope not in ("local", "global"):
            raise AirError(f'bus {self.name}: scope {self.scope!r} is neither "local" nor "global"')


class Air(ABC):
    """The rules of one table, to be subclassed. Instances may have parameters."""

    main: Mapping[str, int] = {}
    """The columns of the trace in order: maps a name to its number of columns. A name with one column gives a symbol, a
    name with k > 1 columns a tuple of k symbols."""
    preprocessed: Mapping[str, int] = {}
    """The columns that the program fixes and commits to in its verifying key, in the form of `main`."""
    public: Sequence[str] | Mapping[str, int] = ()
    """Names of the program's public values that this table uses. A mapping also gives their numbers of elements."""

    @property
    def name(self) -> str:
        """The table's name in reports, unique within a program. It is the name of the class, unless overridden."""
        return type(self).__name__

    @abstractmethod
    def define(self, t: Table) -> None:
        """State all constraints and interactions of `t`. Runs once, on symbols, not on the values of a row."""


class Columns:
    """Named cells of one row, such as `t.this.left`. `t.this["left"]` is always a tuple, even of length 1."""

    def __init__(self, what: str, cells: Mapping[str, tuple[Expression, ...]]) -> None:
        self._what = what
        self._cells = cells

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # not a column: Python looks up special attributes of the object
            raise AttributeError(name)
        cells = self[name]
        return cells[0] if len(cells) == 1 else cells

    def __getitem__(self, name: str) -> tuple[Expression, ...]:
        if name not in self._cells:
            known = ", ".join(self._cells) or "none"
            raise AirError(f"no {self._what} is named {name!r} (there are: {known})")
        return self._cells[name]

    def __iter__(self) -> Iterator[Expression]:
        """Iterate over all cells in order."""
        return (cell for cells in self._cells.values() for cell in cells)


@dataclass(frozen=True)
class Constraint:
    """A constraint: the node of an expression, multiplied by its selector, that is zero on every row."""

    name: str
    kind: Kind
    node: int
    source: Source = field(default=(), compare=False)


@dataclass(frozen=True)
class Interaction:
    """An interaction: one tuple per row that is sent or received `times` times. Values and times are nodes."""

    bus: Bus
    sends: bool
    values: tuple[int, ...]
    times: int
    at_most: int | None
    name: str | None = None
    """The author's name for it in messages; no part of a key."""
    row_of: RowOf | None = field(default=None, compare=False)
    """For a receiver whose `times` the prover counts."""
    source: Source = field(default=(), compare=False)

    @property
    def note(self) -> str:
        """The name in parentheses, after a space; empty without one."""
        return f" ({self.name})" if self.name else ""

    def __str__(self) -> str:
        """ "send on memory (load)" """
        return f"{'send' if self.sends else 'receive'} on {self.bus.name}{self.note}"


@dataclass
class Definition:
    """The columns, constraints and interactions that `Air.define` stated."""

    name: str
    graph: Graph
    main: dict[str, int]
    preprocessed: dict[str, int]
    public: Layout
    constraints: list[Constraint] = field(default_factory=list)
    interactions: list[Interaction] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    """Nodes of the columns that mark the first or the last row, so that they are 0 or 1."""

    @property
    def public_count(self) -> int:
        """Number of public values of the whole program."""
        return max((offset + count for offset, count in self.public.values()), default=0)

    def public_names(self) -> dict[int, str]:
        """Names of the program's public values by index: `name`, or `name[i]` where a name has several elements."""
        return {
            offset + i: name if count == 1 else f"{name}[{i}]"
            for name, (offset, count) in self.public.items()
            for i in range(count)
        }

    def column_names(self, matrix: int) -> list[str]:
        """Names of the columns of a matrix in order: `name`, or `name[i]` where a name has several columns."""
        counts = self.main if matrix == MAIN else self.preprocessed
        return [name if k == 1 else f"{name}[{i}]" for name, k in counts.items() for i in range(k)]

    def interactions_of(self, scope: Scope) -> list[Interaction]:
        return [i for i in self.interactions if i.bus.scope == scope]


class Table:
    """The argument of `Air.define`: the cells of a table, and the methods that state constraints and interactions."""

    def __init__(self, definition: Definition, layout: Layout) -> None:
        self._definition = definition
        self._graph = graph = definition.graph
        self._names: set[str] = set()
        self._unnamed: Counter[str] = Counter()
        self._buses: dict[str, Bus] = {}
        self.this = Columns("main column", self._cells(MAIN, definition.main, next_row=False))
        """The main columns of this row."""
        self.next = Columns("main column", self._cells(MAIN, definition.main, next_row=True))
        """The main columns of the next row. The first row follows the last."""
        self.fixed = Columns("preprocessed column", self._cells(PREPROCESSED, definition.preprocessed, next_row=False))
        self.fixed_next = Columns(
            "preprocessed column", self._cells(PREPROCESSED, definition.preprocessed, next_row=True)
        )
        self.public = Columns(
            "public value",
            {
                name: tuple(Expression(graph, graph.scalar(offset + i, extension=False)) for i in range(count))
                for name, (offset, count) in layout.items()
            },
        )
        # Selectors are zero on the rows that they exclude, but not one elsewhere: they only serve as factors.
        self.is_first, self.is_last, self.is_transition = (
            Expression(graph, graph.load(SELECTORS, column)) for column in (FIRST, LAST, TRANSITION)
        )

    def _cells(self, matrix: int, columns: Mapping[str, int], *, next_row: bool) -> dict[str, tuple[Expression, ...]]:
        cells, offset = {}, 0
        for name, count in columns.items():
            loads = (self._graph.load(matrix, offset + i, next_row=next_row) for i in range(count))
            cells[name] = tuple(Expression(self._graph, load) for load in loads)
            offset += count
        return cells

    # -- constraints ------------------------------------------------------------------------------------------------

    def always(self, e: Value, name: str | None = None) -> None:
        """Constrain `e` to zero on every row. On the last row, `next` is the first row."""
        self._constrain("always", operand(self._graph, e), name)

    def first(self, e: Value, name: str | None = None) -> None:
        """Constrain `e` to zero on the first row."""
        self._constrain("first", self._graph.mul(self.is_first.node, operand(self._graph, e)), name)

    def last(self, e: Value, name: str | None = None) -> None:
        """Constrain `e` to zero on the last row."""
        self._constrain("last", self._graph.mul(self.is_last.node, operand(self._graph, e)), name)

    def transition(self, e: Value, name: str | None = None) -> None:
        """Constrain `e` to zero on every row but the last."""
        self._constrain("transition", self._graph.mul(self.is_transition.node, operand(self._graph, e)), name)

    def boolean(self, e: Value, name: str | None = None) -> None:
        """Constrain `e` to 0 or 1 on every row."""
        node = operand(self._graph, e)
        self._constrain("always", self._graph.mul(node, self._graph.sub(node, self._graph.one)), name)

    def marks_first(self, column: Expression, name: str | None = None) -> None:
        """Constrain a main column to 1 on the first row and 0 on all others, so that it can count on a bus."""
        before = self._marked(column)
        self.first(column - 1, None if name is None else f"{name}: first")
        self.transition(before, None if name is None else f"{name}: others")

    def marks_last(self, column: Expression, name: str | None = None) -> None:
        """Constrain a main column to 1 on the last row and 0 on all others, so that it can count on a bus."""
        self._marked(column)
        self.last(column - 1, None if name is None else f"{name}: last")
        self.transition(column, None if name is None else f"{name}: others")

    def _marked(self, column: Expression) -> Expression:
        """Note that a main column marks one row; the same column in the next row."""
        op, matrix, index, next_row = self._graph.nodes[operand(self._graph, column)]
        if op != Op.LOAD or matrix != MAIN or next_row:
            raise AirError("what marks the first or last row is a main column in this row, such as t.this.begins")
        self._definition.marks.add(column.node)
        return Expression(self._graph, self._graph.load(MAIN, index, next_row=True))

    def _constrain(self, kind: Kind, node: int, name: str | None) -> None:
        if name is None:
            name = f"{kind}[{self._unnamed[kind]}]"
            self._unnamed[kind] += 1
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise AirError(f"a constraint's name has 1 to {MAX_NAME} characters")
        if name in self._names:
            raise AirError(f"two constraints are named {name!r}")
        self._names.add(name)
        if self._graph.value(node) is not None:
            raise AirError(f"constraint {name} is the constant {self._graph.value(node)}: it constrains no column")
        self._definition.constraints.append(Constraint(name, kind, node, _source()))

    # -- interactions -----------------------------------------------------------------------------------------------

    def send(
        self, bus: Bus, values: Values, times: Value = 1, at_most: int | None = 1, name: str | None = None
    ) -> None:
        """Send the tuple `values` on `bus`, `times` times in each row.

        For a bus with named fields `values` may be a mapping from their names. `name` is what messages call it.

        `at_most` is the bound on `times`, which the AIR's constraints must enforce (`boolean` for 1), or None if they
        enforce none; a constant `times` is its own bound. At least one side of each bus must be bounded in all tables,
        so that multiplicities, summed over all rows, cannot wrap around the field.
        """
        self._interact(bus, True, values, times, at_most, name)

    def receive(
        self,
        bus: Bus,
        values: Values,
        times: Value = 1,
        at_most: int | None = None,
        name: str | None = None,
        row_of: RowOf | None = None,
    ) -> None:
        """Receive the tuple `values` on `bus`, `times` times in each row. `send` explains the other parameters.

        With `row_of`, `times` is a main column that the prover counts: `row_of(*tuple)` gives the row of this table
        that holds a tuple, by field arithmetic on expressions, such as `lambda a, b, c: 256 * a + b`. The bus is local,
        and nobody else receives on it.
        """
        if row_of is not None and not callable(row_of):
            raise AirError(f"receive: row_of is a function of a tuple's values, not {row_of!r}")
        self._interact(bus, False, values, times, at_most, name, row_of)

    def _interact(
        self,
        bus: Bus,
        sends: bool,
        values: Values,
        times: Value,
        at_most: int | None,
        name: str | None,
        row_of: RowOf | None = None,
    ) -> None:
        verb = "send" if sends else "receive"
        if not isinstance(bus, Bus):
            raise AirError(f"{verb}: expected a Bus, not {type(bus).__name__}")
        if name is not None and (not isinstance(name, str) or not 0 < len(name) <= MAX_NAME):
            raise AirError(f"{verb} on bus {bus.name}: a name has 1 to {MAX_NAME} characters, not {name!r}")
        if isinstance(values, Mapping):
            if not bus.fields or values.keys() != set(bus.fields):
                fields = ", ".join(bus.fields) or "none"
                raise AirError(f"{verb} on bus {bus.name}: values for {', '.join(values)}; its fields are: {fields}")
            tuple_ = tuple(values[each] for each in bus.fields)
        else:
            tuple_ = (values,) if isinstance(values, (Expression, int)) else tuple(values)
        if len(tuple_) != bus.width:
            raise AirError(f"{verb} on bus {bus.name}: {count_of(len(tuple_), 'value')} for tuples of {bus.width}")
        if self._buses.setdefault(bus.name, bus) != bus:
            raise AirError(f"bus {bus.name} is declared in two ways: {self._buses[bus.name]} and {bus}")
        if at_most is not None and (isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1):
            raise AirError(f"{verb} on bus {bus.name}: at_most is a positive integer or None, not {at_most!r}")
        nodes, count = tuple(operand(self._graph, v) for v in tuple_), operand(self._graph, times)
        if any(matrix == SELECTORS for _, matrix, _, _ in self._graph.leaves((*nodes, count))):
            raise AirError(
                f"{verb} on bus {bus.name}: selectors are not 0/1, so that they cannot count; use a column that "
                "t.marks_first or t.marks_last holds to them, or a preprocessed one"
            )
        constant = self._graph.value(count)
        if constant is not None:
            if not 0 < constant <= P // 2:
                raise AirError(f"{verb} on bus {bus.name}: times must be positive; the other direction takes away")
            if at_most is not None and constant > at_most:
                raise AirError(
                    f"{verb} on bus {bus.name}: {count_of(constant, 'time')}, but declared to be at most {at_most}"
                )
            at_most = constant
        made = Interaction(bus, sends, nodes, count, at_most, name, row_of, _source())
        self._definition.interactions.append(made)


def _source() -> Source:
    """The innermost and the outermost line outside of this file that a statement comes from."""
    lines: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not trace_air.__code__:
        if frame.f_code.co_filename != __file__:
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(dict.fromkeys((lines[0], lines[-1]))) if lines and frame is not None else ()


def trace_air(air: Air, layout: Layout | None = None) -> Definition:
    """Run `air.define` on symbols. `layout` is the program's; by default it is the AIR's own `public`, in order.

    Raises AirError for a definition that cannot be compiled.
    """
    if not isinstance(air, Air):
        raise AirError(f"expected an instance of an Air, not {air!r}")
    public_layout = default_layout(air) if layout is None else layout
    name = air.name
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise AirError(f"an AIR has a name of 1 to {MAX_NAME} characters, not {name!r}")
    main, preprocessed = (_columns(name, getattr(air, part)) for part in ("main", "preprocessed"))
    if not main:
        raise AirError(f"{name} has no main columns")
    definition = Definition(name, Graph(), main, preprocessed, public_layout)
    table = Table(definition, _used(air, public_layout))
    try:
        air.define(table)
    except Exception as error:
        kind = "" if isinstance(error, AirError) else f"{type(error).__name__}: "
        lines = own_lines(error, type(air).__module__)
        raise AirError("\n".join([f"{name}.define failed: {kind}{error}", *lines])) from error
    if not definition.constraints and not definition.interactions:
        raise AirError(f"{name} states neither a constraint nor an interaction")
    return definition


def default_layout(air: Air) -> dict[str, tuple[int, int]]:
    """The layout of the public values of `air` alone, in order, with one element each unless it gives numbers."""
    return layout_of(air.public.items() if isinstance(air.public, Mapping) else [(name, 1) for name in air.public])


def layout_of(public: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """The layout of public values, given by name and number of elements in order."""
    layout, offset = {}, 0
    for name, count in public:
        layout[name] = (offset, count)
        offset += count
    return layout


def _used(air: Air, layout: Layout) -> dict[str, tuple[int, int]]:
    for name in air.public:
        if name not in layout:
            known = ", ".join(layout) or "none"
            raise AirError(f"{air.name} uses the public value {name!r}, which its program has not (it has: {known})")
        if isinstance(air.public, Mapping) and air.public[name] != layout[name][1]:
            raise AirError(
                f"{air.name}: public value {name!r} has {count_of(layout[name][1], 'element')}, expected "
                f"{air.public[name]}"
            )
    return {name: layout[name] for name in air.public}


def _columns(name: str, counts: Mapping[str, int]) -> dict[str, int]:
    for column, count in counts.items():
        if not isinstance(column, str) or not column.isidentifier() or column.startswith("_"):
            raise AirError(f"{name}: {column!r} cannot name a column")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise AirError(f"{name}: column {column} stands {count!r} times, expected a positive integer")
    if sum(counts.values()) > MAX_COLUMNS:
        raise AirError(f"{name}: {count_of(sum(counts.values()), 'column')}, at most {MAX_COLUMNS} are possible")
    return dict(counts)
