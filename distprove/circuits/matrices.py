"""Assembles the CSR matrices of an R1CS from blocks of constraints, without a Python object per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.linear import Linear
from distprove.groth16.r1cs import R1cs
from kernels.interface.sparse import CsrMatrix
from kernels.maths.curves import Curve
from kernels.maths.encoding import field_from_ints

SIDES = (0, 1, 2)
"""The matrices A, B and C of a constraint system."""


class Dictionary:
    """Numbers distinct field values in order of first use. A circuit has few of them."""

    def __init__(self) -> None:
        self.index: dict[int, int] = {}

    def __getitem__(self, value: int) -> int:
        return self.index.setdefault(value, len(self.index))


@dataclass(frozen=True)
class Entries:
    """Rows of one matrix in the builder's numbering of wires."""

    lengths: NDArray[np.uint32]
    """Number of entries of each row, (rows,)."""
    columns: NDArray[np.int64]
    """Wire of each entry, (nnz,)."""
    index: NDArray[np.uint32]
    """Index of each entry's value into a dictionary, (nnz,)."""


class Rows(Protocol):
    """A part of a constraint system."""

    @property
    def rows(self) -> int: ...

    def nnz(self, side: int) -> int:
        """The number of entries of one matrix."""

    def entries(self, side: int, values: Dictionary) -> Entries:
        """The rows of one matrix. Their values are numbered by `values`."""

    def mark(self, side: int, wires: NDArray[np.bool_]) -> None:
        """Set `wires[w]` for every wire w that occurs in one matrix."""


@dataclass(frozen=True)
class ConstraintBlock:
    """A block of `rows` constraints a * b = c that share their coefficients, as lanes of a, b and c."""

    a: Linear
    b: Linear
    c: Linear
    rows: int

    def side(self, side: int) -> Linear:
        return (self.a, self.b, self.c)[side]

    def nnz(self, side: int) -> int:
        return self.rows * len(self.side(side).terms)

    def entries(self, side: int, values: Dictionary) -> Entries:
        terms = self.side(side).terms
        runs = np.array(list(terms), dtype=np.int64).reshape(-1, 2)
        index = np.array([values[c] for c in terms.values()], dtype=np.uint32)
        wires = runs[:, 0] + np.arange(self.rows, dtype=np.int64)[:, None] * runs[:, 1]
        lengths = np.full(self.rows, len(terms), dtype=np.uint32)
        return Entries(lengths, wires.reshape(-1), np.tile(index, self.rows))

    def mark(self, side: int, wires: NDArray[np.bool_]) -> None:
        for first, stride in self.side(side).terms:
            wires[first + stride * np.arange(self.rows if stride else 1)] = True


def gather(parts: Sequence[Rows], side: int, values: Dictionary) -> Entries:
    """The rows of all parts in order. Blocks of one row, of which a template has thousands, are gathered in lists."""
    found: list[Entries] = []
    lengths: list[int] = []
    columns: list[int] = []
    index: list[int] = []
    numbers = values.index

    def flush() -> None:
        if lengths:
            found.append(Entries(np.array(lengths, np.uint32), np.array(columns, np.int64), np.array(index, np.uint32)))
            for collected in (lengths, columns, index):
                collected.clear()

    for part in parts:
        if isinstance(part, ConstraintBlock) and part.rows == 1:
            terms = part.side(side).terms
            lengths.append(len(terms))
            columns.extend([first for first, _ in terms])
            index.extend([numbers.setdefault(c, len(numbers)) for c in terms.values()])
        else:
            flush()
            found.append(part.entries(side, values))
    flush()
    if len(found) == 1:
        return found[0]
    return Entries(
        np.concatenate([part.lengths for part in found]),
        np.concatenate([part.columns for part in found]),
        np.concatenate([part.index for part in found]),
    )


def assemble(
    curve: Curve,
    parts: Sequence[Rows],
    position: NDArray[np.uint32],
    *,
    outputs: int,
    public_inputs: int,
    private_inputs: int,
) -> R1cs:
    """Assemble the R1CS of all parts in order. `position[w]` is the final number of the builder's wire w."""

    def matrix(side: int) -> CsrMatrix:
        values = Dictionary()
        entries = gather(parts, side, values)
        row_ptr = np.zeros(entries.lengths.shape[0] + 1, dtype=np.uint32)
        np.cumsum(entries.lengths, out=row_ptr[1:])
        columns = position[entries.columns]
        distinct = field_from_ints(curve.fr, values.index)
        return CsrMatrix(entries.lengths.shape[0], len(position), row_ptr, columns, entries.index, distinct)

    a, b, c = (matrix(side) for side in SIDES)
    return R1cs(
        curve=curve,
        n_vars=len(position),
        n_outputs=outputs,
        n_public_inputs=public_inputs,
        n_private_inputs=private_inputs,
        a=a,
        b=b,
        c=c,
    )


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

    def occurring(side: int) -> int:
        marked = np.zeros(private.shape[0], dtype=np.bool_)
        for part in parts:
            part.mark(side, marked)
        return int(np.count_nonzero(marked & private))

    a, b, c = (sum(part.nnz(side) for part in parts) for side in SIDES)
    auxiliary = int(np.count_nonzero(private))
    return Shape(
        constraints=sum(part.rows for part in parts),
        inputs=private.shape[0] - auxiliary,
        auxiliary=auxiliary,
        nnz=(a, b, c),
        a_auxiliary=occurring(0),
        b_auxiliary=occurring(1),
    )
