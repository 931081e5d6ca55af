"""The terms of linear forms that are linear in cells. Their sums over the cube are moved to cosets on the host: round 0
computes them in the rows alone, and no cell of theirs is moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kernels.cuda.openvm.bound_code import joined_indices, starts_of
from kernels.host.babybear import Indices, ProductTerms
from kernels.interface.openvm_rules import BoundForms, GraphProgram, NodeKind
from kernels.maths.babybear import Elements, P, ext
from kernels.maths.distinct import distinct_with_places

MOST_CELLS = 64
"""Most cells of a node that is expanded."""

Linear = dict[int, int]
"""A sum of cells, and of nodes that have the same value in every row, each by its number and with a factor."""


class SplitForms:
    """A program as two: the linear terms, as forms of cells, and the other ones."""

    def __init__(self, program: GraphProgram) -> None:
        expanded = _linear(program)
        rest: list[list[int]] = [[] for _ in program.forms]
        cells: list[Linear] = [{} for _ in program.forms]
        kept, moved = list[int](), list[tuple[int, int, int, int]]()
        for term, (node, form) in enumerate(zip(program.term_nodes, program.term_forms, strict=True)):
            sum_ = expanded[node]
            if sum_ is None:
                rest[form].append(node)
                kept.append(term)
                continue
            for cell, factor in sum_.items():
                cells[form].setdefault(cell, 0)
                moved.append((term, form, cell, factor))
        self.program_terms = len(program.term_nodes)
        """Number of the program's terms."""
        self.rest = GraphProgram(program.nodes, tuple(np.array(nodes, dtype=np.int64) for nodes in rest))
        self.linear = GraphProgram(program.nodes, tuple(np.array(sorted(own), dtype=np.int64) for own in cells))
        place = {
            (form, node): number
            for number, (form, node) in enumerate(zip(self.linear.term_forms, self.linear.term_nodes, strict=True))
        }
        self.on_cosets: tuple[bool, ...] = tuple(bool(nodes) for nodes in rest)
        """Whether each form has other terms."""
        self.kept: Indices = np.array(kept, dtype=np.int64)
        """The other terms."""
        self.terms: Indices = np.array([term for term, *_ in moved], dtype=np.int64)
        """The term of each part of a linear one."""
        self.places: Indices = np.array([place[form, cell] for _, form, cell, _ in moved], dtype=np.int64)
        """The term of `linear` to which each part belongs."""
        self.factors: Elements = np.array([factor for *_, factor in moved], dtype=np.uint32)
        """The factor of each part."""


@dataclass(frozen=True, eq=False)
class JoinedSplits:
    """The splits of some tables' programs, what they have in every proof one behind another."""

    splits: tuple[SplitForms, ...]
    linear: list[int]
    """Where the terms of each table's linear forms begin, and their number."""
    kept: list[int]
    """The same of the other terms."""
    others: Indices
    """Each of the other terms, among all terms of the programs."""
    parts: ProductTerms
    """The terms of the linear forms: terms of the programs times `factors`."""
    factors: Elements
    """The factors, each once, (n, 4)."""

    @classmethod
    def of(cls, splits: tuple[SplitForms, ...]) -> JoinedSplits:
        """Join the splits of programs, one for each table."""
        offsets = starts_of([own.program_terms for own in splits]).tolist()
        linear, kept = (
            starts_of(sizes) for sizes in ([len(s.linear.term_nodes) for s in splits], [len(s.kept) for s in splits])
        )
        terms = joined_indices([own.terms + at for own, at in zip(splits, offsets, strict=False)])
        places = joined_indices([own.places + at for own, at in zip(splits, linear.tolist(), strict=False)])
        factors, which = distinct_with_places(
            np.concatenate([np.zeros(0, dtype=np.uint32), *(own.factors for own in splits)])
        )
        others = joined_indices([own.kept + at for own, at in zip(splits, offsets, strict=False)])
        parts = ProductTerms(terms, which, places, int(linear[-1]))
        return cls(splits, linear.tolist(), kept.tolist(), others, parts, ext(factors))


@lru_cache(maxsize=4)
def joined_splits(splits: tuple[SplitForms, ...]) -> JoinedSplits:
    """Join splits, once for proofs of the same AIRs."""
    return JoinedSplits.of(splits)


class BoundSplit:
    """Programs as two, with a proof's coefficients."""

    def __init__(self, splits: Sequence[SplitForms], forms: Sequence[BoundForms]) -> None:
        self._splits, self._forms, self._joined = splits, forms, joined_splits(tuple(splits))
        self._coefficients = np.concatenate([np.zeros((0, 4), dtype=np.uint32), *(own.coefficients for own in forms)])

    def others(self) -> list[BoundForms]:
        """The terms that are not linear, and the constants."""
        own, ends = self._coefficients[self._joined.others], self._joined.kept
        return [
            BoundForms(split.rest, own[a:b], bound.constants)
            for split, bound, a, b in zip(self._splits, self._forms, ends, ends[1:], strict=False)
        ]

    def linear(self) -> list[BoundForms]:
        """The linear terms."""
        own, ends = self._joined.parts.summed(self._coefficients, self._joined.factors), self._joined.linear
        return [
            BoundForms(split.linear, own[a:b], np.zeros_like(bound.constants))
            for split, bound, a, b in zip(self._splits, self._forms, ends, ends[1:], strict=False)
        ]


def _linear(program: GraphProgram) -> list[Linear | None]:
    """Each node as a sum, None if it is none or has too many cells."""
    found, values = list[Linear | None](), list[int | None]()
    for number, (kind, a, b, _) in enumerate(program.rows):
        value: int | None = None
        sum_: Linear | None = {number: 1}
        if kind == NodeKind.CONSTANT:
            value = a
        elif kind == NodeKind.NEG:
            value, sum_ = _scaled_value(values[a], -1), _scaled(found[a], -1)
        elif kind == NodeKind.MUL:
            x, y = values[a], values[b]
            value = None if y is None else _scaled_value(x, y)
            sum_ = _scaled(found[b], x) if x is not None else None if y is None else _scaled(found[a], y)
        elif kind in (NodeKind.ADD, NodeKind.SUB):
            x, y, sign = values[a], values[b], 1 if kind == NodeKind.ADD else -1
            value = None if x is None or y is None else (x + sign * y) % P
            sum_ = _sum(found[a], _scaled(found[b], sign))
        values.append(value)
        found.append(sum_ if value is None else {number: 1})
    return found


def _scaled_value(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor % P


def _scaled(sum_: Linear | None, factor: int) -> Linear | None:
    return None if sum_ is None else {cell: own * factor % P for cell, own in sum_.items()}


def _sum(a: Linear | None, b: Linear | None) -> Linear | None:
    if a is None or b is None or len(a) + len(b) > MOST_CELLS:
        return None
    found = dict(a)
    for cell, factor in b.items():
        found[cell] = (found.get(cell, 0) + factor) % P
    return found
