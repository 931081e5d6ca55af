"""Checks whether an AIR's own constraints enforce the declared bounds on its multiplicities.

LogUp is sound only if the bounds hold, and forgetting `t.boolean(on)` is easy. The check recognises the usual forms: a
column or expression that a constraint restricts to 0 and 1 on every row, a column that marks the first or last row,
products and sums of these, complements, and selectors of which at most one is 1: their sum is constrained to 1, or to 0
and 1. A multiplicity that it does not recognise may still be right, by an argument that only the author knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property

from distprove.stark.air.definition import Definition, Interaction
from distprove.stark.air.expression import MAIN, Graph
from kernels.interface.row_program import Op
from kernels.maths.goldilocks import P


def unconfirmed(definition: Definition) -> list[Interaction]:
    """Interactions with a bound that no recognised constraint enforces.

    Constants need no constraint. Multiplicities made of preprocessed columns alone are fixed by the program.
    """
    graph, bounds = definition.graph, _Bounds(definition)
    return [
        interaction
        for interaction in definition.interactions
        if interaction.at_most is not None
        and graph.value(interaction.times) is None
        and any(matrix == MAIN for _, matrix, _, _ in graph.leaves([interaction.times]))
        and not bounds.holds(interaction.times, interaction.at_most)
    ]


class _Bounds:
    """Upper bounds of expressions as integers, which follow from the constraints of one AIR.

    A bound b of an expression says that its value, as an integer from 0 to p - 1, is at most b on every row.
    """

    def __init__(self, definition: Definition) -> None:
        self._graph: Graph = definition.graph
        self._always = [c.node for c in definition.constraints if c.kind == "always"]
        self._booleans = {*definition.marks, *_booleans(self._graph, self._always)}

    def holds(self, node: int, most: int) -> bool:
        bound = self._bound(node)
        return bound is not None and bound <= most

    @cached_property
    def _groups(self) -> list[frozenset[int]]:
        """Sets of boolean nodes of which at most one is 1 in each row."""
        sums = [each for each in (_Sum.of(self._graph, node) for node in self._booleans) if each.constant == 0]
        for node in self._always:
            found = _Sum.of(self._graph, node)
            sums += [each for each in (found, found.negated()) if each.constant == -1]
        groups = (frozenset(each.terms) for each in sums if set(each.terms.values()) == {1})
        return [group for group in groups if len(group) > 1 and all(map(self._is_boolean, group))]

    def _is_boolean(self, node: int) -> bool:
        return self._this_row(node) in self._booleans

    def _this_row(self, node: int) -> int:
        """The cell in this row for one of the next row: what holds in every row of the one holds of the other."""
        op, a, b, c = self._graph.nodes[node]
        return self._graph.load(a, b) if op == Op.LOAD and c == 1 else node

    def _bound(self, node: int) -> int | None:
        if self._is_boolean(node):
            return 1
        whole = _Sum.of(self._graph, node)
        if whole.constant >= 0 and all(times > 0 for times in whole.terms.values()):
            return self._bound_of_sum(whole.terms, whole.constant)
        if whole.constant > 0 and all(times < 0 for times in whole.terms.values()):  # a constant less a sum
            taken = self._bound_of_sum(whole.negated().terms, 0)
            return whole.constant if taken is not None and taken <= whole.constant else None
        return None

    def _bound_of_sum(self, terms: Mapping[int, int], constant: int) -> int | None:
        """Bound of a constant plus positive multiples of terms; of selectors in one group the largest counts alone."""
        total, members = constant, dict[tuple[int, int], Counter[int]]()
        for node, times in terms.items():
            factors = _factors(self._graph, node)
            group, member = self._group_of(factors)
            rest = [factor for factor in factors if factor != member]
            bounds = [1 if self._is_boolean(f) else self._bound(f) if len(factors) > 1 else None for f in rest]
            product = times
            for bound in bounds:
                if bound is None:
                    return None
                product *= bound
            if member is None:
                total += product
            else:
                members.setdefault(group, Counter())[member] += product
        total += sum(max(of.values()) for of in members.values())
        return total if total < P else None

    def _group_of(self, factors: Iterable[int]) -> tuple[tuple[int, int], int | None]:
        """The number of a group and the row, this or the next, with the factor that is a member of it, if any is."""
        for factor in factors:
            base = self._this_row(factor)
            for number, group in enumerate(self._groups):
                if base in group:
                    return (number, int(base != factor)), factor
        return (0, 0), None


class _Sum:
    """An expression as a constant plus integer multiples of other expressions, which are no sums."""

    def __init__(self, terms: Mapping[int, int], constant: int) -> None:
        self.terms, self.constant = terms, constant

    @classmethod
    def of(cls, graph: Graph, root: int) -> _Sum:
        terms: Counter[int] = Counter()
        constant, stack = 0, [(root, 1)]
        while stack:
            node, times = stack.pop()
            value, (op, a, b, _) = graph.value(node), graph.nodes[node]
            if value is not None:
                constant += times * _signed(value)
            elif op in (Op.ADD, Op.SUB):
                stack += [(a, times), (b, times if op == Op.ADD else -times)]
            elif op == Op.MUL and graph.value(b) is not None:
                stack.append((a, times * _signed(graph.value(b) or 0)))
            else:
                terms[node] += times
        return cls({node: times for node, times in terms.items() if times}, constant)

    def negated(self) -> _Sum:
        return _Sum({node: -times for node, times in self.terms.items()}, -self.constant)


def _signed(value: int) -> int:
    return value if value <= P // 2 else value - P


def _factors(graph: Graph, node: int) -> list[int]:
    op, a, b, _ = graph.nodes[node]
    return [*_factors(graph, a), *_factors(graph, b)] if op == Op.MUL else [node]


def _booleans(graph: Graph, always: Iterable[int]) -> set[int]:
    """Nodes x that a constraint x (x - 1), x (1 - x) or x x - x makes boolean on every row."""
    nodes, one = graph.nodes, graph.one
    found = set()
    for node in always:
        op, a, b, _ = nodes[node]
        if op == Op.MUL:
            found |= {x for x, y in ((a, b), (b, a)) if nodes[y] in ((Op.SUB, x, one, 0), (Op.SUB, one, x, 0))}
        elif op == Op.SUB and nodes[a] == (Op.MUL, b, b, 0):
            found.add(b)
    return found
