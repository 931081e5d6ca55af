"""Evaluates a constraint program at one point outside the trace's domain, for the verifier.

At such a point every column is an extension element. Instructions of equal depth in the expression graph are evaluated
together, with one NumPy operation for each kind, so that the cost is a few hundred array operations and not a Python
step per instruction.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from distprove.stark import field
from distprove.stark.field import Ext, Words
from kernels.errors import SizeError
from kernels.interface.row_program import Op, RowProgram

Indices = NDArray[np.int64]

BLOCK = 4096
"""Number of values computed at once. Nine products of so many values still fit the second-level cache."""


class _Kind(IntEnum):
    LEAF = 0
    ADD = 1
    SUB = 2
    SCALE = 3
    """A product whose second factor is a base field element."""
    MUL = 4


@dataclass(frozen=True)
class _Step:
    """Computes values `start` to `stop` - 1, all of one kind and depth, from the values at `a` and `b`."""

    kind: _Kind
    start: int
    stop: int
    a: Indices
    b: Indices


@dataclass(frozen=True)
class _Cells:
    """The leaves that load from one row of one matrix: their places among the values, and the columns they load."""

    matrix: int
    next_row: int
    places: Indices
    columns: Indices


class PointProgram:
    """A fold program prepared for evaluation at points. Values are numbered by depth and kind."""

    def __init__(self, program: RowProgram) -> None:
        """Prepare `program`. Raises SizeError when it does not fold."""
        if program.fold is None:
            raise SizeError("only a program that folds has one value at a point")
        self.program = program
        code = program.code
        depths, kinds, swapped = _classify(code)
        order = np.lexsort((kinds, depths))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self._outputs = place[list(program.outputs)]
        self._leaves = code[order[kinds[order] == _Kind.LEAF]]  # at places 0, 1, ..: only leaves have depth 0
        self._cells = _cells(self._leaves, len(program.widths))
        a, b = code[:, 1], code[:, 2]
        first, second = np.where(swapped, b, a)[order], np.where(swapped, a, b)[order]
        bounds = np.flatnonzero(np.diff(depths[order] * len(_Kind) + kinds[order])) + 1
        edges = [*bounds.tolist(), len(order)]
        self._steps = [
            _Step(_Kind(kinds[order[start]]), start, stop, place[first[start:stop]], place[second[start:stop]])
            for start, stop in itertools.pairwise(edges)
        ]

    def __call__(self, this: Sequence[Words | None], next_: Sequence[Words | None], scalars: Words) -> Ext:
        """Evaluate the fold of the program at a point.

        `this` and `next_` hold the values of each input matrix's columns, (w, 3), at the point and at w_n times the
        point, canonical; None for a matrix that is not read there. `scalars` is (program.scalars, 3). Raises SizeError
        for other shapes.
        """
        self._check(this, next_, scalars)
        values = np.empty((3, len(self.program.code)), dtype=np.uint64)
        values[:, : len(self._leaves)] = self._load(this, next_, scalars)
        for step in self._steps:
            for start in range(step.start, step.stop, BLOCK):
                stop = min(start + BLOCK, step.stop)
                part = slice(start - step.start, stop - step.start)
                a, b = values.take(step.a[part], axis=1), values.take(step.b[part], axis=1)
                values[:, start:stop] = _OPERATIONS[step.kind](a, b)
        first = self.program.fold
        weights = scalars[first:][: len(self._outputs)]
        return field.e_dot(weights, values[:, self._outputs].T)

    def _check(self, this: Sequence[Words | None], next_: Sequence[Words | None], scalars: Words) -> None:
        program = self.program
        if scalars.shape != (program.scalars, 3):
            raise SizeError(f"scalars of shape {scalars.shape}, expected {(program.scalars, 3)}")
        for row in (this, next_):
            if len(row) != len(program.widths):
                raise SizeError(f"values of {len(row)} matrices, expected {len(program.widths)}")
        for row in (this, next_):
            for matrix, (width, values) in enumerate(zip(program.widths, row, strict=True)):
                if values is not None and values.shape != (width, 3):
                    raise SizeError(f"matrix {matrix} has values of shape {values.shape}, expected {(width, 3)}")
        for cells in self._cells:
            if (this, next_)[cells.next_row][cells.matrix] is None:
                where = "the next row" if cells.next_row else "zeta"
                raise SizeError(f"matrix {cells.matrix} is read, but has no values at {where}")

    def _load(self, this: Sequence[Words | None], next_: Sequence[Words | None], scalars: Words) -> Words:
        """The values of all leaves (cells, constants and scalars), (3, leaves)."""
        op, a = self._leaves[:, 0], self._leaves[:, 1]
        out = np.zeros((len(op), 3), dtype=np.uint64)
        for cells in self._cells:
            values = (this, next_)[cells.next_row][cells.matrix]
            assert values is not None, "_check has seen to it"
            out[cells.places] = values[cells.columns]
        constant, scalar, base = op == Op.CONST, op == Op.SCALAR, op == Op.BASE_SCALAR
        out[constant, 0] = np.array(self.program.constants, dtype=np.uint64)[a[constant]]
        out[scalar] = scalars[a[scalar]]
        out[base, 0] = scalars[a[base], 0]
        return np.ascontiguousarray(out.T)


def _cells(leaves: NDArray[np.int32], matrices: int) -> list[_Cells]:
    op, matrix, column, next_row = leaves.T
    found = []
    for m, c in itertools.product(range(matrices), (0, 1)):
        places = np.flatnonzero((op == Op.LOAD) & (matrix == m) & (next_row == c))
        if len(places):
            found.append(_Cells(m, c, places, column[places].astype(np.int64)))
    return found


def _classify(code: NDArray[np.int32]) -> tuple[Indices, Indices, NDArray[np.bool_]]:
    """The depth and the kind of each instruction, and whether its operands must be swapped."""
    op, a, b, _ = code.T
    depths = [0] * len(code)
    operations = np.flatnonzero(op >= Op.ADD)
    for i, x, y in zip(operations.tolist(), a[operations].tolist(), b[operations].tolist(), strict=True):
        dx, dy = depths[x], depths[y]
        depths[i] = 1 + (dx if dx > dy else dy)
    # At a point only constants and public values are base field elements (values made of these alone are rare).
    base = (op == Op.CONST) | (op == Op.BASE_SCALAR)
    multiplies = op == Op.MUL
    left, right = (multiplies & base[np.where(multiplies, x, 0)] for x in (a, b))
    kinds = np.choose(np.maximum(op - Op.ADD + 1, 0), (_Kind.LEAF, _Kind.ADD, _Kind.SUB, _Kind.MUL))
    kinds = np.where(left | right, _Kind.SCALE, kinds)
    return np.array(depths, dtype=np.int64), kinds.astype(np.int64), left & ~right


def _mul(a: Words, b: Words) -> Words:
    """The products a b of extension elements (3, n). This layout is faster here than the usual (n, 3)."""
    product: Words = field.ext_mul(a.T, b.T).T
    return product


def _scale(a: Words, b: Words) -> Words:
    return field.mul(a, b[0])


_OPERATIONS = {_Kind.ADD: field.add, _Kind.SUB: field.sub, _Kind.SCALE: _scale, _Kind.MUL: _mul}
