"""Evaluates a constraint program at one point outside the trace's domain, for the verifier.

At such a point every column is an extension element. Instructions of equal depth in the expression graph are evaluated
together, with one NumPy operation for each kind, so that the cost is a few hundred array operations and not a Python
step per instruction. Where few instructions are of equal depth, as in a chain of sums, Python's integers are faster.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distprove.stark import field
from distprove.stark.field import Ext, Words
from kernels.errors import SizeError
from kernels.host.units import count_of
from kernels.interface.row_program import Op, RowProgram

Indices = NDArray[np.signedinteger[Any]]

BLOCK = 4096
"""Number of values computed at once. Nine products of so many values still fit the second-level cache."""
NARROW = 24
"""Number of values of equal depth and kind from which on one NumPy operation is faster than Python's integers."""


class _Kind(IntEnum):
    LEAF = 0
    ADD = 1
    SUB = 2
    SCALE = 3
    """A product whose second factor is a base field element."""
    MUL = 4
    CHAIN = 5
    """Values of any kinds, one after the other."""


class _Step(NamedTuple):
    """Computes values `start` to `stop` - 1, all of one kind and depth, or of a chain."""

    kind: _Kind
    start: int
    stop: int


@dataclass(frozen=True)
class Cells:
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
        code, (kinds, swapped) = program.code, _classify(program.code)
        keys = depths(program) * len(_Kind) + kinds
        order = np.argsort(keys, kind="stable")
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self._outputs = place[list(program.outputs)]
        keys, self._kinds = keys[order], kinds[order]
        self._first = int(np.searchsorted(keys, len(_Kind)))  # leaves, of depth 0, are at places 0, 1, ..
        self._leaves, operations = code[order[: self._first]], order[self._first :]
        self._cells = cells_of(self._leaves, len(program.widths))
        a, b, swapped = code[operations, 1], code[operations, 2], swapped[operations]
        self._a, self._b = place[np.where(swapped, b, a)], place[np.where(swapped, a, b)]
        self.steps = _steps(keys, self._kinds, self._first)

    def __call__(self, this: Sequence[Words | None], next_: Sequence[Words | None], scalars: Words) -> Ext:
        """Evaluate the fold of the program at a point.

        `this` and `next_` hold the values of each input matrix's columns, (w, 3), at the point and at w_n times the
        point, canonical; None for a matrix that is not read there. `scalars` is (program.scalars, 3). Raises SizeError
        for other shapes.
        """
        self._check(this, next_, scalars)
        values = np.empty((3, len(self.program.code)), dtype=np.uint64)
        values[:, : self._first] = self._load(this, next_, scalars)
        for step in self.steps:
            for start in range(step.start, step.stop, BLOCK):
                stop = min(start + BLOCK, step.stop)
                part = slice(start - self._first, stop - self._first)
                a, b = self._a[part], self._b[part]
                if step.kind == _Kind.CHAIN:
                    _follow(values, start, self._kinds[start:stop], a, b)
                else:
                    values[:, start:stop] = _OPERATIONS[step.kind](values.take(a, axis=1), values.take(b, axis=1))
        first = self.program.fold
        weights = scalars[first:][: len(self._outputs)]
        return field.e_dot(weights, values[:, self._outputs].T)

    def _check(self, this: Sequence[Words | None], next_: Sequence[Words | None], scalars: Words) -> None:
        program = self.program
        if scalars.shape != (program.scalars, 3):
            raise SizeError(f"scalars of shape {scalars.shape}, expected {(program.scalars, 3)}")
        for row in (this, next_):
            if len(row) != len(program.widths):
                raise SizeError(f"values of {count_of(len(row), 'matrix', 'matrices')}, expected {len(program.widths)}")
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


def cells_of(leaves: NDArray[np.int32], matrices: int) -> list[Cells]:
    """The cells that instructions (n, 4) load, by matrix and row: their places are those among the instructions."""
    op, matrix, column, next_row = leaves.T
    found = []
    for m, c in itertools.product(range(matrices), (0, 1)):
        places = np.flatnonzero((op == Op.LOAD) & (matrix == m) & (next_row == c))
        if len(places):
            found.append(Cells(m, c, places, column[places].astype(np.int64)))
    return found


def _steps(keys: Indices, kinds: NDArray[np.int8], first: int) -> list[_Step]:
    """The steps that compute the values from number `first` on, whose `keys` ascend and are equal within a step."""
    if first == len(keys):
        return []
    starts = np.concatenate([[first], first + 1 + np.flatnonzero(np.diff(keys[first:]))])
    narrow = np.diff(starts, append=len(keys)) < NARROW
    begins = ~narrow
    begins[0] = True
    begins[1:] |= ~narrow[:-1]  # narrow ones that follow one another are one chain
    edges = [*starts[begins].tolist(), len(keys)]
    found = np.where(narrow, _Kind.CHAIN, kinds[starts])[begins].tolist()
    return [_Step(_Kind(kind), *edge) for kind, edge in zip(found, itertools.pairwise(edges), strict=True)]


def depths(program: RowProgram) -> Indices:
    """The depth of each value in the expression graph: 0 for a leaf, and more than that of its operands else."""
    found = array("i")
    first = int(Op.ADD)
    for op, a, b, _ in program.instructions():
        if op < first:
            found.append(0)
        else:
            x, y = found[a], found[b]
            found.append(1 + (x if x > y else y))
    return np.array(found, dtype=np.int64)


def _classify(code: NDArray[np.int32]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """The kind of each instruction, and whether its operands must be swapped."""
    op, a, b, _ = code.T
    # At a point only constants and public values are base field elements (values made of these alone are rare).
    base = (op == Op.CONST) | (op == Op.BASE_SCALAR)
    multiplies = op == Op.MUL
    left, right = (multiplies & base[np.where(multiplies, x, 0)] for x in (a, b))
    kinds = np.array([_Kind.LEAF] * Op.ADD + [_Kind.ADD, _Kind.SUB, _Kind.MUL], dtype=np.int8)[op]
    kinds[left | right] = _Kind.SCALE
    return kinds, left & ~right


def _follow(values: Words, start: int, kinds: NDArray[np.int8], a: Indices, b: Indices) -> None:
    """Compute the values from number `start` on, one after the other, from those at `a` and `b`."""
    x, y, z = (memoryview(row) for row in values)
    operands = zip(kinds.tolist(), a.tolist(), b.tolist(), strict=True)
    for i, (kind, left, right) in enumerate(operands, start):
        x[i], y[i], z[i] = _SINGLE[kind]((x[left], y[left], z[left]), (x[right], y[right], z[right]))


def _mul(a: Words, b: Words) -> Words:
    """The products a b of extension elements (3, n). This layout is faster here than the usual (n, 3)."""
    product: Words = field.ext_mul(a.T, b.T).T
    return product


def _scale(a: Words, b: Words) -> Words:
    return field.mul(a, b[0])


_OPERATIONS = {_Kind.ADD: field.add, _Kind.SUB: field.sub, _Kind.SCALE: _scale, _Kind.MUL: _mul}
_SINGLE = [field.e_add, field.e_add, field.e_sub, lambda a, b: field.e_scale(a, b[0]), field.e_mul]
"""Operation on single elements of the extension, by kind."""
