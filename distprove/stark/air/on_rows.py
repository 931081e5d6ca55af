"""Evaluates a row program over the base field on rows of a trace, in NumPy.

Instructions of equal depth in the expression graph and of one kind are one NumPy operation: a small table has more
instructions than rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distprove.stark import field
from distprove.stark.air.point import cells_of, depths
from distprove.stark.field import Words
from kernels.interface.row_program import Op, RowProgram

Indices = NDArray[np.signedinteger[Any]]

STEP_BYTES = 1 << 20
"""Bytes of the values that one NumPy operation computes, about: its temporary arrays then fit the cache."""


class _Step(NamedTuple):
    """Computes the values numbered `start` to `stop` - 1 from those numbered `a` and `b`."""

    operation: Callable[[Words, Words], Words]
    start: int
    stop: int
    a: Indices
    b: Indices


class RowsProgram:
    """A row program of base values, without a fold, prepared for evaluation. Values are numbered by depth and kind."""

    def __init__(self, program: RowProgram) -> None:
        code = program.code
        keys = depths(program) * len(Op) + code[:, 0]
        order = np.argsort(keys, kind="stable")
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        self.size = len(code)
        """Number of values of a row."""
        self._outputs = place[list(program.outputs)]
        leaves = code[order]
        self._cells = cells_of(leaves, len(program.widths))
        self._constants = np.flatnonzero(leaves[:, 0] == Op.CONST)
        self._values = np.array(program.constants, dtype=np.uint64)[leaves[self._constants, 1]]
        self._public = np.flatnonzero(leaves[:, 0] == Op.BASE_SCALAR)
        self._indices = leaves[self._public, 1]
        self._steps: list[_Step] = []
        edges = [0, *(1 + np.flatnonzero(np.diff(keys[order]))).tolist(), len(order)]
        for start, stop in itertools.pairwise(edges):
            if start < stop and leaves[start, 0] in _OPERATIONS:
                a, b = place[leaves[start:stop, 1]], place[leaves[start:stop, 2]]
                self._steps.append(_Step(_OPERATIONS[int(leaves[start, 0])], start, stop, a, b))

    def __call__(self, matrices: Mapping[int, Callable[[], Words]], public: Words, rows: Indices) -> Words:
        """Evaluate the program on the given rows: its outputs, (outputs, len(rows)).

        `matrices` gives the input matrices that the program loads from, (columns, height), and `public` the base
        scalars. The row after the last one is the first.
        """
        values = np.empty((self.size, len(rows)), dtype=np.uint64)
        for cells in self._cells:
            matrix = matrices[cells.matrix]()
            chosen = rows
            if cells.next_row:
                chosen = rows + 1
                chosen[chosen == matrix.shape[1]] = 0
            values[cells.places] = matrix[cells.columns[:, None], chosen]
        values[self._constants] = self._values[:, None]
        values[self._public] = public[self._indices][:, None]
        most = max(1, STEP_BYTES // (8 * max(1, len(rows))))
        for operation, start, stop, a, b in self._steps:
            for i in range(0, stop - start, most):
                part = slice(i, i + most)
                values[start:stop][part] = operation(values[a[part]], values[b[part]])
        return values[self._outputs]


_OPERATIONS: dict[int, Callable[[Words, Words], Words]] = {
    Op.ADD: field.add,
    Op.SUB: field.sub,
    Op.MUL: field.mul,
}
