"""Row programs rewritten for the prover's rounds, in which next rows are columns and cells may be elements of F.

In the univariate round cells are base elements on a coset: next columns lie in a matrix of their own. In the
multilinear rounds all cells of a table are vectors of F in one matrix, coordinate by coordinate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from weakref import WeakValueDictionary

import numpy as np

from distprove.formats import canonical
from distprove.stark.air.expression import PREPROCESSED, SELECTORS
from distprove.stark.multilinear.air import Rules, degrees
from kernels.interface.multilinear_rows import LARGE, RuleProgram
from kernels.interface.row_program import Op, RowProgram

LEAST_DEGREE = 2
"""Degree from which constraints are told apart."""
NEXT = 4
"""The matrix of next columns in a program on a coset, after those of the table's programs."""


@dataclass(frozen=True)
class ConstraintPart:
    """Constraints of a table that are evaluated as often as their own degree needs."""

    program: RuleProgram
    """They, folded."""
    degree: int
    scalars: tuple[int, ...]
    """The scalars of the table's constraints that it takes, in order."""


@dataclass(frozen=True)
class CellPrograms:
    """A table's programs for the prover. Cells are numbered: columns, next columns, selectors.

    Backends keep what they compile by the programs' objects, so `of` makes equal rules one object.
    """

    rules: Rules

    @classmethod
    def of(cls, rules: Rules) -> CellPrograms:
        """The programs of these rules, which all keys in use that have equal rules share: a tree's nodes do."""
        name = hashlib.sha256(canonical.encode(rules.to_record())).digest()
        return _IN_USE.setdefault(name, cls(rules))

    @property
    def cells(self) -> int:
        return self.rules.cells

    @cached_property
    def leaves(self) -> RuleProgram | None:
        """All numerators and fingerprints, on base cells."""
        return self._of(self.rules.leaves, vectors=False)

    @cached_property
    def constraints(self) -> RuleProgram | None:
        """The folded constraints."""
        return self._of(self.rules.constraints)

    @cached_property
    def constraint_parts(self) -> tuple[ConstraintPart, ...]:
        """The folded constraints: all together, or if they are long those of each degree."""
        whole = self.rules.constraints
        if whole is None:
            return ()
        if len(whole.code) <= LARGE:
            together = self.constraints
            assert together is not None, "a table with constraints has their program"
            return (ConstraintPart(together, self.rules.constraint_degree, tuple(range(whole.scalars))),)
        first, of_degree = whole.fold or 0, dict[int, list[int]]()
        for number, degree in enumerate(degrees(whole)):
            of_degree.setdefault(max(LEAST_DEGREE, degree), []).append(number)
        parts = []
        for degree, numbers in sorted(of_degree.items()):
            program = self._of(part_of(whole, numbers))
            assert program is not None, "a program was given"
            scalars = (*range(first), *(first + number for number in numbers))
            parts.append(ConstraintPart(program, degree, scalars))
        return tuple(parts)

    @property
    def programs(self) -> list[RuleProgram]:
        """All of them, as they run."""
        own = [self.leaves, *(part.program for part in self.constraint_parts), self.interactions]
        return [program for program in own if program is not None]

    @cached_property
    def interactions(self) -> RuleProgram | None:
        """The folded numerators and fingerprints."""
        return self._of(self.rules.interactions)

    def _of(self, program: RowProgram | None, *, vectors: bool = True) -> RuleProgram | None:
        if program is None:
            return None
        cut, after = self.rules.preprocessed_width, self.rules.columns
        selectors = after + len(self._next)
        spans = (0, cut), (cut, after), (0, 0), (selectors, self.cells), (after, selectors)
        made = partial(self._on_vectors, program) if vectors else None
        return RuleProgram(self._on_coset(program), made, spans, self.rules.next_row)

    @cached_property
    def _next(self) -> Mapping[int, int]:
        """The number among next columns of each column that is read at the next row."""
        return {column: number for number, column in enumerate(self.rules.next_row)}

    def _column(self, matrix: int, column: int) -> int:
        return column if matrix == PREPROCESSED else self.rules.preprocessed_width + column

    def _on_coset(self, program: RowProgram) -> RowProgram:
        def load(matrix: int, column: int, later: int) -> list[tuple[int, int, int, int]]:
            if later:
                return [(Op.LOAD, NEXT, self._next[self._column(matrix, column)], 0)]
            return [(Op.LOAD, matrix, column, 0)]

        selectors = 3 * self.rules.reads_selectors
        widths = (self.rules.preprocessed_width, self.rules.main_width, 0, selectors, len(self.rules.next_row))
        return _rewritten(program, load, widths, program.scalars)

    def _on_vectors(self, program: RowProgram) -> RowProgram:
        cells, units = self.cells, program.scalars

        def load(matrix: int, column: int, later: int) -> list[tuple[int, int, int, int]]:
            if matrix == SELECTORS:
                cell = self.rules.columns + len(self._next) + column
            else:
                cell = self._column(matrix, column)
                cell = self.rules.columns + self._next[cell] if later else cell
            loads = [(int(Op.LOAD), 0, k * cells + cell, 0) for k in range(3)]
            scalars = [(int(Op.SCALAR), units + k, 0, 0) for k in range(2)]
            # Operands below zero count back from the instruction: a + (b x + c x^2).
            products = [(int(Op.MUL), -4, -2, 0), (int(Op.MUL), -4, -2, 0)]
            return [*loads, *scalars, *products, (int(Op.ADD), -2, -1, 0), (int(Op.ADD), -8, -1, 0)]

        return _rewritten(program, load, (3 * cells,), units + 2)


def part_of(program: RowProgram, numbers: Sequence[int]) -> RowProgram:
    """The program of these outputs of a folded one alone. Its scalars are those before the weights, and their own."""
    code, outputs = program.code.tolist(), [program.outputs[number] for number in numbers]
    needed = bytearray(len(code))
    for v in outputs:
        needed[v] = 1
    for v in range(len(code) - 1, -1, -1):
        op, a, b, _ = code[v]
        if needed[v] and op >= Op.ADD:
            needed[a] = needed[b] = 1
    place = np.cumsum(np.frombuffer(needed, dtype=np.uint8), dtype=np.int64) - 1
    kept = program.code[np.frombuffer(needed, dtype=np.bool_)].copy()
    arithmetic = kept[:, 0] >= Op.ADD
    kept[arithmetic, 1:3] = place[kept[arithmetic, 1:3]]
    first = program.fold or 0
    return replace(
        program,
        code=kept,
        scalars=first + len(numbers),
        outputs=tuple(int(place[v]) for v in outputs),
        fold=first,
    )


Load = Callable[[int, int, int], list[tuple[int, int, int, int]]]


def _rewritten(program: RowProgram, load: Load, widths: tuple[int, ...], scalars: int) -> RowProgram:
    """The program with each load replaced by `load(matrix, column, later)`, whose last instruction has the value."""
    code: list[tuple[int, int, int, int]] = []
    place: list[int] = []
    for op, a, b, c in program.instructions():
        if op == Op.LOAD:
            for own, x, y, z in load(a, b, c):
                at = len(code)
                code.append((own, at + x, at + y, z) if own >= Op.ADD else (own, x, y, z))
        elif op >= Op.ADD:
            code.append((op, place[a], place[b], 0))
        else:
            code.append((op, a, b, c))
        place.append(len(code) - 1)
    return RowProgram(
        widths=widths,
        code=np.array(code, dtype=np.int32).reshape(-1, 4),
        constants=program.constants,
        scalars=scalars,
        outputs=tuple(place[v] for v in program.outputs),
        fold=program.fold,
    )


_IN_USE: WeakValueDictionary[bytes, CellPrograms] = WeakValueDictionary()
"""Programs by a digest of their rules."""
