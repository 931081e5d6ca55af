"""The digest of an R1CS up to an order of its private wires and of its rows.

Wires and rows are coloured by each other. At first each public wire, the constant 1 included, has a colour of its own
by its number, and all private wires share one. A row's colour follows from its entries in A, B and C, each a
coefficient and a wire's colour, in any order. A wire's next colour follows from its own and from its entries, each a
coefficient and a row's colour. This goes on until all wires differ, or no more do. The digest is that of the rows'
sorted colours.

Where all wires differ at the end, equal digests mean equal systems up to those two orders, unless colours of 64 bits
collide.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.groth16.r1cs import R1cs
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Field
from kernels.maths.encoding import field_to_ints

Words = NDArray[np.uint64]

SIDES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Distinguishes A, B and C."""


@dataclass(frozen=True)
class Digest:
    """Sizes of a constraint system and the digest of its rows."""

    constraints: int
    private: int
    """Private wires."""
    public: int
    """Public wires, with the constant 1."""
    distinct: int
    """Wires whose colours differ from each other's."""
    sha256: str


class _Entries:
    """The entries of a matrix in groups, each a row or a wire."""

    def __init__(self, groups: NDArray[np.int64], others: NDArray[np.int64], values: Words) -> None:
        """`groups` is the number of entries of each group; `others` has the wire, or the row, of each entry."""
        self._others, self._values = others, values
        self._filled = np.flatnonzero(groups)
        self._starts = (np.cumsum(groups) - groups)[self._filled]

    def add(self, sums: Words, colours: Words) -> None:
        """Add to the sum of each group its coefficients times the other side's colours."""
        if len(self._others):
            products = np.take(colours, self._others, mode="clip")
            products *= self._values
            sums[self._filled] += np.add.reduceat(products, self._starts)


def row_digest(r1cs: R1cs) -> Digest:
    """The digest of a system's rows. A row has a wire at most once in each matrix, and no coefficient that is zero."""
    public, rows = 1 + r1cs.n_public, r1cs.n_constraints
    matrices = [_both_ways(r1cs.curve.fr, matrix) for matrix in (r1cs.a, r1cs.b, r1cs.c)]
    sides = [(*both, np.uint64(side)) for both, side in zip(matrices, SIDES, strict=True)]
    wires = np.ones(r1cs.n_vars, dtype=np.uint64)
    wires[:public] += np.arange(1, public + 1, dtype=np.uint64)
    wires, distinct = _mix(wires), public + 1
    while True:
        of_rows = np.zeros(rows, dtype=np.uint64)
        for by_row, _, side in sides:
            sums = np.zeros(rows, dtype=np.uint64)
            by_row.add(sums, wires)
            of_rows = _mix(of_rows + (sums ^ side))
        if distinct == len(wires):
            break
        after = wires.copy()
        for _, by_wire, side in sides:
            by_wire.add(after, _mix(of_rows + side))
        after = _mix(after)
        found = 1 + int(np.count_nonzero(np.diff(np.sort(after))))
        if found <= distinct:
            break
        wires, distinct = after, found
    of_rows.sort()
    sizes = (rows, public, len(wires) - public)
    text = np.array(sizes, dtype="<u8").tobytes() + of_rows.astype("<u8").tobytes()
    return Digest(rows, len(wires) - public, public, distinct, hashlib.sha256(text).hexdigest())


def _both_ways(field: Field, matrix: CsrMatrix) -> tuple[_Entries, _Entries]:
    """A matrix' entries by row, and by wire. An odd number stands for each coefficient."""
    ints = field_to_ints(field, matrix.values)
    assert 0 not in ints
    digests = b"".join(hashlib.sha256(value.to_bytes(32, "little")).digest()[:8] for value in ints)
    values = (np.frombuffer(digests, "<u8") | np.uint64(1))[matrix.value_index]
    ends, wires = matrix.row_ptr.astype(np.int64), matrix.columns.astype(np.int64)
    of_rows: NDArray[np.int64] = ends[1:] - ends[:-1]
    order = np.argsort(wires, kind="stable")
    rows = np.repeat(np.arange(matrix.rows), of_rows)
    of_wires = np.bincount(wires, minlength=matrix.cols)
    return _Entries(of_rows, wires, values), _Entries(of_wires, rows[order], values[order])


def _mix(x: Words) -> Words:
    """The last step of SplitMix64, in place."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
