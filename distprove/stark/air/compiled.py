"""The compiled form of an AIR for prover, verifier and verifying key: two row programs and the meaning of their values.

    Constraint program, scalars in order:
        public values | local z, beta .. beta^w | global z, beta .. beta^w | local T/n | global T/n | x, x^2 | weights
    Interaction program:
        public values | local z, beta .. beta^w | global z, beta .. beta^w | 0

Scalars that an AIR does not use are left out: the challenges and terminal of a scope without interactions and, without
any interactions, x, x^2 (which build an extension column from three base columns) and 0 (which turns a base element
into an extension element). Both programs number their public values and challenges alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from distprove.errors import FormatError
from distprove.stark.air.definition import MAX_BUS_WIDTH, MAX_COLUMNS, MAX_NAME, Bus, Scope
from distprove.stark.air.expression import AUX, MAIN, PREPROCESSED, SELECTORS, leaf_degree, whole_degree
from distprove.stark.air.point import PointProgram
from kernels.errors import SizeError
from kernels.host.units import count_of
from kernels.interface.row_program import Op, RowProgram
from kernels.maths.goldilocks import P

SCOPES: tuple[Scope, Scope] = ("local", "global")
EXTENSION_DEGREE = 3
SELECTOR_COLUMNS = 3
MAX_DEGREE = 256
MAX_PUBLIC = 4096
"""Maximum number of public values of a partition."""
MAX_INSTRUCTIONS = 1 << 22
MAX_BUSES = (1 << 16) - 1


@dataclass(frozen=True)
class ScalarLayout:
    """The indices of the scalars of both programs."""

    public: int
    local_width: int
    """Length of the longest tuple on a local bus; 0 without local interactions."""
    global_width: int

    @property
    def local(self) -> int:
        """Index of the local z, which the powers of beta follow."""
        return self.public

    @property
    def global_(self) -> int:
        return self.local + _challenges(self.local_width)

    @property
    def challenges_end(self) -> int:
        """Index after the last challenge, which is that of the first T/n, or of the interaction program's 0."""
        return self.global_ + _challenges(self.global_width)

    @property
    def basis(self) -> int:
        """Index of x, which x^2 follows."""
        return self.challenges_end + (self.local_width > 0) + (self.global_width > 0)

    @property
    def weights(self) -> int:
        """Index of the first fold weight."""
        return self.basis + (2 if self.local_width or self.global_width else 0)

    def start(self, scope: Scope) -> int:
        """Index of the challenge z of a scope."""
        return self.local if scope == "local" else self.global_

    def terminal(self, scope: Scope) -> int:
        """Index of the terminal T/n of a scope."""
        return self.challenges_end + (scope == "global" and self.local_width > 0)


def _challenges(width: int) -> int:
    return 1 + width if width else 0


@dataclass(frozen=True)
class BusUse:
    """One interaction of an AIR, as far as the check of multiplicities needs it."""

    bus: Bus
    number: int
    """Number of the bus in its program, which is part of each fingerprint."""
    sends: bool
    at_most: int | None
    """Maximum multiplicity of one row; None means unbounded."""


class UsesBuses(Protocol):
    """A compiled table of either engine, as far as LogUp needs it."""

    @property
    def name(self) -> str: ...

    @property
    def public_count(self) -> int: ...

    @property
    def uses(self) -> tuple[BusUse, ...]: ...

    @property
    def local_width(self) -> int: ...

    @property
    def global_width(self) -> int: ...


@dataclass(frozen=True)
class Group:
    """Consecutive interactions that share the auxiliary extension column h = sum of times / fingerprint."""

    scope: Scope
    size: int


class TupleWidths:
    """What follows from the interactions of a table, for both engines."""

    uses: tuple[BusUse, ...]

    @property
    def has_local(self) -> bool:
        return self.local_width > 0

    @property
    def has_global(self) -> bool:
        return self.global_width > 0

    @cached_property
    def local_width(self) -> int:
        """Length of the longest tuple on a local bus; 0 without local interactions."""
        return longest(self.uses, "local")

    @cached_property
    def global_width(self) -> int:
        return longest(self.uses, "global")


@dataclass(frozen=True, eq=False, repr=False)
class CompiledAir(TupleWidths):
    """A compiled AIR as plain data. Whatever follows from the programs is computed from them and never stored."""

    name: str
    public_count: int
    """Number of all public values of the partition, including those that this table does not use."""
    constraints: RowProgram
    """The constraint program. Its inputs are preprocessed, main, aux, selectors; it folds the constraints, in the order
    of `constraint_names`, into one extension column."""
    constraint_names: tuple[str, ...]
    """Names of the AIR's own constraints, then one for each group, then one for each scope's running sum."""
    interactions: RowProgram | None
    """The interaction program. Its inputs are preprocessed, main; its outputs are the numerators of all groups, then
    their denominators, all extension elements."""
    groups: tuple[Group, ...]
    """The groups of interactions, local ones first."""
    uses: tuple[BusUse, ...]
    """The interactions, in the order of the groups."""

    def __repr__(self) -> str:
        return (
            f"<CompiledAir: {self.name}, {count_of(self.main_width, 'main column')}, "
            f"{count_of(len(self.constraint_names), 'constraint')}>"
        )

    @property
    def preprocessed_width(self) -> int:
        return self.constraints.widths[PREPROCESSED]

    @property
    def main_width(self) -> int:
        return self.constraints.widths[MAIN]

    @property
    def aux_width(self) -> int:
        """Number of auxiliary base columns, the third commitment: three per group, then three per scope."""
        return self.constraints.widths[AUX]

    @cached_property
    def next_row(self) -> tuple[int, ...]:
        """Columns that the constraints load at the next row, numbered over preprocessed, main and aux columns."""
        return loaded_at_next_row(self.constraints)

    @cached_property
    def reads_public(self) -> bool:
        """Whether an instruction of the constraints reads a public value."""
        op, index, _, _ = self.constraints.code.T
        scalars = (op == Op.BASE_SCALAR) | (op == Op.SCALAR)
        return bool((scalars & (index < self.public_count)).any())

    @cached_property
    def reads_selectors(self) -> bool:
        """Whether an instruction of the constraints loads a selector."""
        op, matrix, _, _ = self.constraints.code.T
        return bool(((op == Op.LOAD) & (matrix == SELECTORS)).any())

    @property
    def programs(self) -> tuple[RowProgram, ...]:
        """The constraint program, and the interaction program if there is one."""
        return (self.constraints,) if self.interactions is None else (self.constraints, self.interactions)

    @cached_property
    def output_degrees(self) -> tuple[tuple[int, int], ...]:
        """The degree of each constraint as (columns, transition selectors), which `expression` explains."""
        columns, selectors = _degrees(self.constraints)
        return tuple((columns[v], selectors[v]) for v in self.constraints.outputs)

    @cached_property
    def degrees(self) -> tuple[int, ...]:
        """The degree of each constraint, in units of the table's height."""
        return tuple(whole_degree(*each) for each in self.output_degrees)

    @property
    def degree(self) -> int:
        """The greatest degree of a constraint, at least 1."""
        return max(self.degrees, default=1)

    @cached_property
    def transitions(self) -> int:
        """Maximum number of transition selectors in a product; each adds degree 1, whatever the table's height."""
        return max((selectors for _, selectors in self.output_degrees), default=0)

    @property
    def quotient_chunks(self) -> int:
        """Number of cosets that hold the quotient: the least power of two D >= max(1, degree - 1)."""
        return chunks_for(self.degree)

    @cached_property
    def at_point(self) -> PointProgram:
        """The constraint program prepared for evaluation at points. Cached: preparing takes as long as evaluating."""
        return PointProgram(self.constraints)

    def to_record(self) -> dict[str, Any]:
        """The AIR as plain values, in the one form that a verifying key holds and its digest covers."""
        return {
            "name": self.name,
            "public": self.public_count,
            "constraints": program_record(self.constraints),
            "names": list(self.constraint_names),
            "interactions": None if self.interactions is None else program_record(self.interactions),
            "groups": [[group.scope, group.size] for group in self.groups],
            "uses": [
                [use.bus.name, use.bus.width, use.bus.scope, use.number, use.sends, use.at_most] for use in self.uses
            ],
        }

    @staticmethod
    def from_record(record: object) -> CompiledAir:
        """Read what `to_record` wrote. Everything is checked; raises FormatError for any other `record`."""
        return AirReader().air(record)


def loaded_at_next_row(*programs: RowProgram) -> tuple[int, ...]:
    """Columns that programs load at the next row, numbered over the matrices of each, in order."""
    found: set[int] = set()  # np.unique imports numpy.ma
    for program in programs:
        op, matrix, column, later = program.code.T
        first = np.cumsum([0, *program.widths])
        loads = (op == Op.LOAD) & (later == 1)
        found |= set((first[matrix[loads]] + column[loads]).tolist())
    return tuple(sorted(found))


def longest(uses: Sequence[BusUse], scope: Scope) -> int:
    """Length of the longest tuple on the buses of a scope; 0 if the scope has no interactions."""
    return max((use.bus.width for use in uses if use.bus.scope == scope), default=0)


def chunks_for(degree: int) -> int:
    """Number of quotient chunks for constraints of `degree`: the least power of two >= max(1, degree - 1)."""
    return 1 << (max(1, degree - 1) - 1).bit_length()


def scope_widths(groups: Sequence[Group]) -> int:
    """Number of auxiliary base columns of these groups and their running sums."""
    return EXTENSION_DEGREE * (len(groups) + len({group.scope for group in groups}))


def _degrees(program: RowProgram) -> tuple[array[int], array[int]]:
    """The two parts of each value's degree, capped at MAX_DEGREE + 1 so that nothing overflows."""
    columns, selectors = array("H"), array("H")
    limit = MAX_DEGREE + 1
    for op, a, b, _ in program.instructions():
        if op == Op.MUL:
            parts = min(columns[a] + columns[b], limit), min(selectors[a] + selectors[b], limit)
        elif op >= Op.ADD:
            parts = max(columns[a], columns[b]), max(selectors[a], selectors[b])
        else:
            parts = leaf_degree(a, b) if op == Op.LOAD else (0, 0)
        columns.append(parts[0])
        selectors.append(parts[1])
    return columns, selectors


def program_record(program: RowProgram) -> dict[str, Any]:
    return {
        "code": program.code.astype("<i4").tobytes(),
        "constants": list(program.constants),
        "outputs": np.array(program.outputs, dtype="<i4").tobytes(),
        "widths": list(program.widths),
    }


class AirReader:
    """Parses a record of an AIR and trusts nothing in it."""

    def __init__(self) -> None:
        self._where = "AIR"
        """The beginning of error messages, with the table's name as soon as it is read."""

    def air(self, record: object) -> CompiledAir:
        fields = self._map(record, ("name", "public", "constraints", "names", "interactions", "groups", "uses"))
        name = self._text(fields["name"], "an AIR's name")
        self._where = f"table {name}"
        public = self._int(fields["public"], 0, MAX_PUBLIC, "public values")
        uses = tuple(self._use(use) for use in self._list(fields["uses"], "interactions"))
        groups = tuple(self._group(group) for group in self._list(fields["groups"], "groups"))
        self._check_groups(groups, uses)
        layout = ScalarLayout(public, longest(uses, "local"), longest(uses, "global"))
        names = tuple(self._text(n, "a constraint's name") for n in self._list(fields["names"], "constraint names"))

        constraints = self._program(fields["constraints"], 4, layout.weights + len(names), layout.weights)
        self._need(len(constraints.outputs) == len(names) > 0, "constraints without a name each")
        self._need(constraints.widths[MAIN] > 0, "no main columns")
        op, matrix, _, next_row = constraints.code.T
        beyond = (op == Op.LOAD) & (matrix == SELECTORS) & (next_row == 1)
        self._need(not beyond.any(), "the next row's selectors")
        self._need(constraints.widths[2:] == (scope_widths(groups), SELECTOR_COLUMNS), "wrong widths")

        interactions = None
        if uses:
            interactions = self._program(fields["interactions"], 2, layout.challenges_end + 1, None)
            self._need(interactions.widths == constraints.widths[:2], "interactions over other columns")
            self._need(len(interactions.outputs) == 2 * len(groups), "interactions without a group each")
            extension = interactions.is_extension[list(interactions.outputs)]
            self._need(bool(extension.all()), "an interaction outside the extension")
        else:
            self._need(fields["interactions"] is None, "interactions on no bus")
        air = CompiledAir(name, public, constraints, names, interactions, groups, uses)
        self._need(max(air.degree, air.transitions) <= MAX_DEGREE, f"degree above {MAX_DEGREE}")
        return air

    def _check_groups(self, groups: tuple[Group, ...], uses: tuple[BusUse, ...]) -> None:
        # The sum comes first: otherwise a few groups could expand to far more entries than there are interactions.
        self._need(sum(group.size for group in groups) == len(uses), "groups that do not fit the interactions")
        scopes = [scope for group in groups for scope in [group.scope] * group.size]
        self._need(scopes == [use.bus.scope for use in uses], "groups that do not fit the interactions")
        self._need(scopes == sorted(scopes, key=SCOPES.index), "global interactions before local ones")

    def _program(self, record: object, inputs: int, scalars: int, fold: int | None) -> RowProgram:
        fields = self._map(record, ("code", "constants", "outputs", "widths"))
        widths = self._list(fields["widths"], "widths", inputs)
        self._need(
            len(widths) == inputs, f"a program over {count_of(len(widths), 'matrix', 'matrices')}, expected {inputs}"
        )
        code = self._array(fields["code"], 4 * MAX_INSTRUCTIONS, "instructions")
        self._need(code.size % 4 == 0, "an instruction in parts")
        constants = self._list(fields["constants"], "constants")
        try:
            return RowProgram(
                widths=tuple(self._int(w, 0, 2 * MAX_COLUMNS, "columns") for w in widths),
                code=code.reshape(-1, 4),
                constants=tuple(self._int(c, 0, P - 1, "a constant") for c in constants),
                scalars=scalars,
                outputs=tuple(self._array(fields["outputs"], MAX_INSTRUCTIONS, "outputs").tolist()),
                fold=fold,
            )
        except SizeError as error:
            raise FormatError(f"{self._where}: {error}") from None

    def _use(self, record: object) -> BusUse:
        parts = self._list(record, "interaction", 6)
        self._need(len(parts) == 6, "an interaction with parts missing")
        name, width, scope, number, sends, at_most = parts
        self._need(isinstance(sends, bool), "an interaction that neither sends nor receives")
        bus = Bus(
            self._text(name, "a bus's name"),
            self._int(width, 1, MAX_BUS_WIDTH, "the width of a bus"),
            self._scope(scope),
        )
        bound = None if at_most is None else self._int(at_most, 1, P - 1, "a bound on multiplicities")
        return BusUse(bus, self._int(number, 1, MAX_BUSES, "a bus's number"), sends, bound)

    def _group(self, record: object) -> Group:
        parts = self._list(record, "group", 2)
        self._need(len(parts) == 2, "a group with parts missing")
        return Group(self._scope(parts[0]), self._int(parts[1], 1, MAX_DEGREE, "the size of a group"))

    def _scope(self, value: object) -> Scope:
        self._need(value in SCOPES, "a scope that is neither local nor global")
        return "local" if value == "local" else "global"

    def _map(self, record: object, keys: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(record, dict) or set(record) != set(keys):
            raise FormatError(f"{self._where}: expected a map of {', '.join(keys)}")
        return record

    def _list(self, record: object, what: str, most: int = MAX_INSTRUCTIONS) -> list[Any]:
        if not isinstance(record, list) or len(record) > most:
            raise FormatError(f"{self._where}: {what}: expected a list of at most {most}")
        return record

    def _array(self, record: object, most: int, what: str) -> np.ndarray[Any, np.dtype[np.int32]]:
        if not isinstance(record, bytes) or len(record) % 4 or len(record) > 4 * most:
            raise FormatError(f"{self._where}: {what}: expected at most {count_of(most, '32-bit word')}")
        return np.frombuffer(record, dtype="<i4").astype(np.int32)

    def _int(self, value: object, least: int, most: int, what: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise FormatError(f"{self._where}: {what}: expected an integer from {least} to {most}")
        return value

    def _text(self, value: object, what: str) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
            raise FormatError(f"{self._where}: {what} has 1 to {MAX_NAME} characters")
        return value

    def _need(self, holds: bool, what: str) -> None:
        if not holds:
            raise FormatError(f"{self._where}: {what}")
