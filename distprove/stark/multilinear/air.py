"""The compiled form of an AIR for the multilinear engine: its own constraints, and the leaves of its interactions.

    Constraint program, scalars in order:
        public values | weights
    Interaction program:
        public values | local z, beta .. beta^w | global z, beta .. beta^w | weights

No column is added to the author's: LogUp needs none here. The outputs of the interaction program are the numerators of
all uses, negative for what is received, then their fingerprints. Both programs fold their outputs with the weights.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from distprove.errors import AirError
from distprove.formats import canonical
from distprove.stark.air.compiled import (
    MAX_DEGREE,
    MAX_INSTRUCTIONS,
    MAX_PUBLIC,
    SCOPES,
    SELECTOR_COLUMNS,
    AirReader,
    BusUse,
    ScalarLayout,
    TupleWidths,
    loaded_at_next_row,
    longest,
    program_record,
)
from distprove.stark.air.compiler import bus_use, fingerprint
from distprove.stark.air.definition import Definition
from distprove.stark.air.expression import AUX, MAIN, PREPROCESSED, SELECTORS
from distprove.stark.air.lowering import lower
from distprove.stark.air.point import PointProgram
from kernels.host.units import count_of
from kernels.interface.row_program import Op, RowProgram


@dataclass(frozen=True, eq=False, repr=False)
class Rules(TupleWidths):
    """The rules of one table as plain data."""

    name: str
    public_count: int
    """Number of all public values of the partition, including those that this table does not use."""
    constraints: RowProgram | None
    """Folds the constraints over the matrices preprocessed, main, none, selectors; None without constraints."""
    constraint_names: tuple[str, ...]
    interactions: RowProgram | None
    """Folds numerators and fingerprints of `uses` over the same matrices; None without interactions."""
    uses: tuple[BusUse, ...]
    """The interactions, local ones first."""

    def __repr__(self) -> str:
        return (
            f"<Rules: {self.name}, {count_of(self.main_width, 'main column')}, "
            f"{count_of(len(self.constraint_names), 'constraint')}>"
        )

    @property
    def programs(self) -> tuple[RowProgram, ...]:
        return tuple(program for program in (self.constraints, self.interactions) if program is not None)

    @property
    def preprocessed_width(self) -> int:
        return self.programs[0].widths[PREPROCESSED]

    @property
    def main_width(self) -> int:
        return self.programs[0].widths[MAIN]

    @property
    def columns(self) -> int:
        """Number of preprocessed and main columns."""
        return self.preprocessed_width + self.main_width

    @cached_property
    def next_row(self) -> tuple[int, ...]:
        """Columns that a program loads at the next row, numbered over preprocessed and main columns."""
        return loaded_at_next_row(*self.programs)

    @property
    def cells(self) -> int:
        """Number of cells of a row in the prover's rounds: columns, next columns that are read, and the selectors if
        one is read."""
        return self.columns + len(self.next_row) + 3 * self.reads_selectors

    @cached_property
    def reads_public(self) -> bool:
        """Whether an instruction of either program reads a public value."""
        return any(_reads_scalars_below(program, self.public_count) for program in self.programs)

    @cached_property
    def reads_selectors(self) -> bool:
        """Whether an instruction of the constraints loads a selector."""
        return self.constraints is not None and _loads(self.constraints, SELECTORS, later=None)

    @cached_property
    def constraint_degree(self) -> int:
        """The greatest degree of a constraint, at least 1; 0 without constraints."""
        return 0 if self.constraints is None else max(1, *degrees(self.constraints))

    @cached_property
    def interaction_degree(self) -> int:
        """The greatest degree of a numerator or fingerprint, at least 1; 0 without interactions."""
        return 0 if self.interactions is None else max(1, *degrees(self.interactions))

    @cached_property
    def constraints_at(self) -> PointProgram | None:
        """The constraint program prepared for evaluation at points. Cached, since preparing takes as long."""
        return None if self.constraints is None else PointProgram(self.constraints)

    @cached_property
    def interactions_at(self) -> PointProgram | None:
        return None if self.interactions is None else PointProgram(self.interactions)

    @cached_property
    def leaves(self) -> RowProgram | None:
        """The interaction program with all numerators and fingerprints as columns of their own."""
        return None if self.interactions is None else replace(self.interactions, fold=None)

    def to_record(self) -> dict[str, Any]:
        """The rules as plain values, in the one form that a verifying key holds and its digest covers."""
        return {
            "name": self.name,
            "public": self.public_count,
            "constraints": None if self.constraints is None else program_record(self.constraints),
            "names": list(self.constraint_names),
            "interactions": None if self.interactions is None else program_record(self.interactions),
            "uses": [
                [use.bus.name, use.bus.width, use.bus.scope, use.number, use.sends, use.at_most] for use in self.uses
            ],
        }

    @cached_property
    def read_back(self) -> Rules:
        """These rules as a verifier reads them. Cached, since many keys have the same tables. Raises FormatError."""
        return self.from_record(canonical.decode(canonical.encode(self.to_record()), self.name))

    @staticmethod
    def from_record(record: object) -> Rules:
        """Read what `to_record` wrote. Everything is checked; raises FormatError for any other `record`."""
        return _RulesReader().rules(record)


def degrees(program: RowProgram) -> list[int]:
    """The degree of each output: every cell counts 1, selectors included; capped above MAX_DEGREE."""
    found = array("H")
    limit = MAX_DEGREE + 1
    for op, a, b, _ in program.instructions():
        if op == Op.MUL:
            found.append(min(found[a] + found[b], limit))
        elif op >= Op.ADD:
            found.append(max(found[a], found[b]))
        else:
            found.append(1 if op == Op.LOAD else 0)
    return [found[v] for v in program.outputs]


def compile_rules(definition: Definition, buses: Mapping[str, int]) -> Rules:
    """Compile an AIR that `trace_air` has run. `buses` maps names to numbers. Raises AirError."""
    name, graph = definition.name, definition.graph
    if definition.public_count > MAX_PUBLIC:
        raise AirError(
            f"{name}: {count_of(definition.public_count, 'public value')}, at most {MAX_PUBLIC} are possible"
        )
    if len(set(buses.values())) < len(buses):
        raise AirError(f"{name}: two buses of its program have one number, so that their tuples would mix")
    ordered = [i for scope in SCOPES for i in definition.interactions_of(scope)]
    uses = tuple(bus_use(name, i, buses) for i in ordered)
    layout = ScalarLayout(definition.public_count, longest(uses, "local"), longest(uses, "global"))
    widths = (sum(definition.preprocessed.values()), sum(definition.main.values()), 0, SELECTOR_COLUMNS)
    constraints = interactions = None
    if definition.constraints:
        nodes = [constraint.node for constraint in definition.constraints]
        first = definition.public_count
        constraints = lower(graph, nodes, widths=widths, scalars=first + len(nodes), fold=first)
    if ordered:
        leaves = [i.times if i.sends else graph.sub(graph.zero, i.times) for i in ordered]
        leaves += [fingerprint(graph, layout, i, buses) for i in ordered]
        first = layout.challenges_end
        interactions = lower(graph, leaves, widths=widths, scalars=first + len(leaves), fold=first)
    rules = Rules(
        name, definition.public_count, constraints, tuple(c.name for c in definition.constraints), interactions, uses
    )
    degree = max(rules.constraint_degree, rules.interaction_degree)
    if degree > MAX_DEGREE:
        raise AirError(f"{name}: a constraint or a tuple of degree {degree}, at most {MAX_DEGREE} is possible")
    return rules


class _RulesReader(AirReader):
    """Parses a record of rules and trusts nothing in it."""

    def rules(self, record: object) -> Rules:
        fields = self._map(record, ("name", "public", "constraints", "names", "interactions", "uses"))
        name = self._text(fields["name"], "an AIR's name")
        self._where = f"table {name}"
        public = self._int(fields["public"], 0, MAX_PUBLIC, "public values")
        uses = tuple(self._use(use) for use in self._list(fields["uses"], "interactions", MAX_INSTRUCTIONS))
        scopes = [use.bus.scope for use in uses]
        self._need(scopes == sorted(scopes, key=SCOPES.index), "global interactions before local ones")
        layout = ScalarLayout(public, longest(uses, "local"), longest(uses, "global"))
        names = tuple(self._text(n, "a constraint's name") for n in self._list(fields["names"], "constraint names"))
        constraints = self._folded(fields["constraints"], len(names), public, "constraints")
        interactions = self._folded(fields["interactions"], 2 * len(uses), layout.challenges_end, "interactions")
        rules = Rules(name, public, constraints, names, interactions, uses)
        self._need(bool(rules.programs), "neither a constraint nor an interaction")
        self._need(len({program.widths for program in rules.programs}) == 1, "programs over other columns")
        if interactions is not None:
            self._need(not _loads(interactions, SELECTORS, later=None), "interactions that read a selector")
            kinds = interactions.is_extension[list(interactions.outputs)]
            expected = np.repeat([False, True], len(uses))
            self._need(bool((kinds == expected).all()), "numerators or fingerprints of another kind")
        degree = max(rules.constraint_degree, rules.interaction_degree)
        self._need(degree <= MAX_DEGREE, f"degree above {MAX_DEGREE}")
        return rules

    def _folded(self, record: object, outputs: int, first_weight: int, what: str) -> RowProgram | None:
        """Read a program of `outputs` outputs and as many weights, or None for none of them."""
        if record is None or not outputs:
            self._need(record is None and not outputs, f"{what} that are missing, or without outputs")
            return None
        program = self._program(record, 4, first_weight + outputs, first_weight)
        self._need(len(program.outputs) == outputs, f"{what} of another number than their names")
        self._need(program.widths[MAIN] > 0, "no main columns")
        self._need(program.widths[AUX:] == (0, SELECTOR_COLUMNS), "wrong widths")
        self._need(not _loads(program, SELECTORS, later=1), "the next row's selectors")
        return program


def _loads(program: RowProgram, matrix: int, later: int | None) -> bool:
    """Whether an instruction loads a cell of this matrix, at this row (0), the next (1) or either (None)."""
    op, of, _, next_row = program.code.T
    found = (op == Op.LOAD) & (of == matrix)
    return bool((found if later is None else found & (next_row == later)).any())


def _reads_scalars_below(program: RowProgram, count: int) -> bool:
    op, index, _, _ = program.code.T
    return bool((((op == Op.BASE_SCALAR) | (op == Op.SCALAR)) & (index < count)).any())
