"""Assembles the matrices of an R1CS from blocks of constraints, without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.linear import Linear
from kernels.interface.templated import RowTemplate, TemplatedMatrix, TemplatedRows, occurring
from kernels.maths.curves import Field
from kernels.maths.encoding import field_from_ints

SIDES = (0, 1, 2)
"""The matrices A, B and C of a constraint system."""


class Dictionary(dict[int, int]):
    """Numbers distinct field values in order of first use. A circuit has few of them."""

    def __missing__(self, value: int) -> int:
        number = self[value] = len(self)
        return number

    def numbers(self, values: Iterable[int]) -> list[int]:
        """The numbers of these values."""
        return list(map(self.__getitem__, values))


class Rows(Protocol):
    """A part of a constraint system."""

    def placed_rows(self, side: int, values: Dictionary, made: Templates) -> Sequence[TemplatedRows]:
        """The rows of one matrix, from a row 0 and an entry 0 of the part's own. Their values are numbered by
        `values`."""


Templates = dict[int, RowTemplate]
"""Templates of one matrix that were made, by the identity of what they were made of."""


@dataclass(frozen=True)
class ConstraintBlock:
    """A block of `rows` constraints a * b = c that share their coefficients, as lanes of a, b and c."""

    a: Linear
    b: Linear
    c: Linear
    rows: int

    def side(self, side: int) -> Linear:
        return (self.a, self.b, self.c)[side]

    def placed_rows(self, side: int, values: Dictionary, made: Templates) -> Sequence[TemplatedRows]:
        terms = self.side(side).terms
        index = np.array(values.numbers(terms.values()), dtype=np.uint32)
        template = RowTemplate(
            np.array([0, len(terms)], dtype=np.uint32), np.arange(len(terms), dtype=np.uint32), index
        )
        runs = np.array(list(terms), dtype=np.int64).reshape(-1, 2)
        return [TemplatedRows.stacked(template, runs, lanes=self.rows)]


def gather(parts: Sequence[Rows], side: int, values: Dictionary) -> tuple[TemplatedRows, ...]:
    """The rows of all parts in order. Successive blocks of one row, of which a template has thousands, are one part."""
    found: list[TemplatedRows] = []
    row = entry = 0
    made: Templates = {}
    ends: list[int] = [0]
    columns: list[int] = []
    index: list[int] = []

    def add(placed: Sequence[TemplatedRows]) -> None:
        nonlocal row, entry
        found.extend([part.below(row, entry) for part in placed])
        row += sum(part.rows for part in placed)
        entry += sum(part.nnz for part in placed)

    def flush() -> None:
        if len(ends) > 1:
            template = RowTemplate(*(np.array(collected, dtype=np.uint32) for collected in (ends, columns, index)))
            add([TemplatedRows.stacked(template, np.empty((0, 2), dtype=np.int64))])
            del ends[1:], columns[:], index[:]

    for part in parts:
        if isinstance(part, ConstraintBlock) and part.rows == 1:
            terms = part.side(side).terms
            columns.extend([first for first, _ in terms])
            index.extend(values.numbers(terms.values()))
            ends.append(len(columns))
        else:
            flush()
            add(part.placed_rows(side, values, made))
    flush()
    return tuple(found)


def template_rows(parts: Sequence[ConstraintBlock], side: int, values: Dictionary) -> RowTemplate:
    """The rows of all parts in order as those of one template."""
    placed = gather(parts, side, values)
    lengths = np.concatenate([np.tile(np.diff(part.template.row_ptr), part.lanes) for part in placed])
    return RowTemplate(
        np.cumsum([0, *lengths], dtype=np.uint32),
        np.concatenate([part.columns().reshape(-1) for part in placed]).astype(np.uint32),
        np.concatenate([np.tile(part.template.value_index, part.lanes) for part in placed]),
    )


def placed_matrices(
    field: Field, parts: Sequence[Rows], wires: int, position: NDArray[np.uint32] | None
) -> tuple[TemplatedMatrix, TemplatedMatrix, TemplatedMatrix]:
    """The matrices of all parts in order. `position[w]` is the final number of the builder's wire w."""

    def matrix(side: int) -> TemplatedMatrix:
        values = Dictionary()
        placed = gather(parts, side, values)
        rows = sum(part.rows for part in placed)
        return TemplatedMatrix(rows, wires, placed, field_from_ints(field, values), position)

    a, b, c = (matrix(side) for side in SIDES)
    return a, b, c


@dataclass(frozen=True)
class Shape:
    """The sizes of a constraint system, counted from its parts without assembling its matrices."""

    constraints: int
    inputs: int
    """Public wires, with the constant one."""
    auxiliary: int
    """Private wires."""
    nnz: tuple[int, int, int]
    """Entries of A, B and C."""
    a_auxiliary: int
    """Private wires that occur in A."""
    b_auxiliary: int
    """Private wires that occur in B."""


def shape_of(parts: Sequence[Rows], private: NDArray[np.bool_]) -> Shape:
    """Count the sizes of a constraint system. `private[w]` says whether the builder's wire w is private."""
    a, b, c = (gather(parts, side, Dictionary()) for side in SIDES)
    auxiliary = int(np.count_nonzero(private))
    return Shape(
        constraints=sum(part.rows for part in a),
        inputs=private.shape[0] - auxiliary,
        auxiliary=auxiliary,
        nnz=(sum(part.nnz for part in a), sum(part.nnz for part in b), sum(part.nnz for part in c)),
        a_auxiliary=int(np.count_nonzero(occurring(a, len(private)) & private)),
        b_auxiliary=int(np.count_nonzero(occurring(b, len(private)) & private)),
    )
