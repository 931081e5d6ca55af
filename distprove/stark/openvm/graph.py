"""An AIR's expressions as a graph: constraints, interactions, and their values at a point.

A node is a row (kind, a, b, c) of `tests/interop/openvm-judge/FORMAT.md`; its operands come before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from distprove.errors import FormatError
from distprove.stark.field_operations import E, FieldOperations
from kernels.interface.openvm_rules import NodeKind
from kernels.maths.babybear import Elements, P

Kind = NodeKind
MAX_BUS = 1 << 16
MOST_DEGREE = 1 << 16
"""The degree that stands for itself and all above. A file of some MB could have nodes of degree 2^400000."""


@dataclass(frozen=True)
class Interaction:
    """A message that a row sends to a bus. Its numbers are of nodes."""

    bus: int
    count: int
    """Node of the multiplicity."""
    weight: int
    """Its part in the constraints of trace heights."""
    message: tuple[int, ...]
    """Nodes of the message's elements."""


@dataclass(frozen=True)
class Graph:
    """The constraints and interactions of an AIR."""

    nodes: Elements
    """(nodes, 4)"""
    constraints: tuple[int, ...]
    """Nodes that are zero in every row, in ascending order."""
    interactions: tuple[Interaction, ...]

    @property
    def reads_next(self) -> bool:
        """Whether a node is a column of the next row."""
        columns = self.nodes[self.nodes[:, 0] <= Kind.MAIN]
        return bool(columns[:, 3].any())

    @cached_property
    def cells(self) -> int:
        """Number of different cells that nodes read in a row: columns of this row and the next, and selectors."""
        kinds = self.nodes[:, 0]
        return len({*map(tuple, self.nodes[(kinds <= Kind.IS_TRANSITION) & (kinds != Kind.PUBLIC)].tolist())})

    @property
    def degree(self) -> int:
        """The greatest degree of a constraint, of a multiplicity or of a message."""
        degrees = self.degrees()
        used = [*self.constraints, *(node for each in self.interactions for node in (each.count, *each.message))]
        return max((degrees[node] for node in used), default=0)

    def check(self, widths: Sequence[int | None], public_values: int, what: str) -> None:
        """Raise FormatError unless every node is of a known kind, and every reference has a target.

        `widths`: columns of the preprocessed part, which may be None, of each cached part, and of the common part.
        """
        for i, (kind, a, b, c) in enumerate(self.nodes.tolist()):
            if kind <= Kind.MAIN:
                right = is_column(widths, kind, a, b, c)
            elif kind == Kind.PUBLIC:
                right = a < public_values and b == c == 0
            elif kind <= Kind.IS_TRANSITION:
                right = a == b == c == 0
            elif kind == Kind.CONSTANT:
                right = a < P and b == c == 0
            else:
                right = kind <= Kind.MUL and a < i and (b == 0 if kind == Kind.NEG else b < i)
            if not right:
                raise FormatError(f"{what}: node {i} is of no known kind, or refers to nothing")
        count = len(self.nodes)
        if any(node >= count for node in self.constraints):
            raise FormatError(f"{what}: a constraint is no node")
        if any(a >= b for a, b in zip(self.constraints, self.constraints[1:], strict=False)):
            raise FormatError(f"{what}: the constraints are not in ascending order")
        for interaction in self.interactions:
            if not interaction.message or max(interaction.count, *interaction.message) >= count:
                raise FormatError(f"{what}: an interaction has no message, or refers to no node")

    def degrees(self) -> list[int]:
        """The degree of each node, at most `MOST_DEGREE`: a column counts 1, and so does a selector of rows, the
        transition too."""
        found = list[int]()
        for kind, a, b, _ in self.nodes.tolist():
            if kind == Kind.MUL:
                found.append(min(found[a] + found[b], MOST_DEGREE))
            elif kind in (Kind.ADD, Kind.SUB):
                found.append(max(found[a], found[b]))
            elif kind == Kind.NEG:
                found.append(found[a])
            else:
                found.append(int(kind not in (Kind.PUBLIC, Kind.CONSTANT)))
        return found


def is_column(widths: Sequence[int | None], kind: int, column: int, part: int, offset: int) -> bool:
    """Whether a node is a column of a part, of this row or the next; `widths` as for `Graph.check`."""
    if kind > Kind.MAIN or (kind == Kind.PREPROCESSED and part) or offset > 1:
        return False
    at = part + 1 if kind == Kind.MAIN else 0
    width = widths[at] if at < len(widths) else None
    return width is not None and column < width


@dataclass(frozen=True)
class PointValues(Generic[E]):
    """The values at a point from which an AIR's nodes are evaluated."""

    parts: Sequence[Sequence[tuple[E, E]]]
    """For the preprocessed part, empty without one, each cached one and the common one: a column and its next row."""
    public: Sequence[int]
    is_first: E
    is_last: E


def values(f: FieldOperations[E], graph: Graph, at: PointValues[E]) -> list[E]:
    """Return the values of all nodes."""
    found = list[E]()
    for kind, a, b, c in graph.nodes.tolist():
        if kind == Kind.MUL:
            value = f.mul(found[a], found[b])
        elif kind == Kind.ADD:
            value = f.add(found[a], found[b])
        elif kind == Kind.SUB:
            value = f.sub(found[a], found[b])
        elif kind <= Kind.MAIN:
            value = at.parts[b + 1 if kind else 0][a][c]
        elif kind == Kind.NEG:
            value = f.sub(f.zero, found[a])
        elif kind == Kind.CONSTANT:
            value = f.constant(a)
        elif kind == Kind.PUBLIC:
            value = f.constant(at.public[a])
        elif kind == Kind.IS_FIRST:
            value = at.is_first
        elif kind == Kind.IS_LAST:
            value = at.is_last
        else:
            value = f.sub(f.one, at.is_last)
        found.append(value)
    return found
