"""The digest of the rows of an R1CS in their order, by the rule of tests/interop/filecoin.

SHA-256 over the rows: of each its A, B and C, and of each the number of entries and then, by ascending wires, each
entry's wire and coefficient. At the end come the numbers of rows, of public wires with the constant 1, and of private
wires. Private wires are numbered from 2^31 on. Numbers are little-endian, of 4, 32 (coefficients) and 8 bytes.
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

PRIVATE = 1 << 31
AT_ONCE = 1 << 18
"""Rows that are encoded at a time."""
ENTRY = 9
"""Words of 32 bits of an entry."""


@dataclass(frozen=True)
class Digest:
    """Sizes of a constraint system and the digest of its rows."""

    constraints: int
    private: int
    """Private wires."""
    public: int
    """Public wires, with the constant 1."""
    sha256: str


def row_digest(r1cs: R1cs) -> Digest:
    """The digest of a system's rows. A row has a wire at most once in each matrix, and no coefficient that is zero."""
    public, rows = 1 + r1cs.n_public, r1cs.n_constraints
    private = r1cs.n_vars - public
    matrices = [(matrix, _words(r1cs.curve.fr, matrix)) for matrix in (r1cs.a, r1cs.b, r1cs.c)]
    digest = hashlib.sha256()
    for begin in range(0, rows, AT_ONCE):
        digest.update(_encoded(matrices, begin, min(begin + AT_ONCE, rows), public))
    digest.update(np.array([rows, public, private], dtype="<u8").tobytes())
    return Digest(rows, private, public, digest.hexdigest())


def _words(field: Field, matrix: CsrMatrix) -> NDArray[np.uint32]:
    """The coefficients as words, (distinct, 8)."""
    ints = field_to_ints(field, matrix.values)
    assert 0 not in ints
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in ints), "<u4").reshape(-1, 8)


def _encoded(
    matrices: list[tuple[CsrMatrix, NDArray[np.uint32]]], begin: int, end: int, public: int
) -> NDArray[np.uint32]:
    """What is hashed of rows begin to end - 1."""
    ends = [matrix.row_ptr[begin : end + 1].astype(np.int64) for matrix, _ in matrices]
    counts = np.stack([np.diff(each) for each in ends], axis=1)  # (rows, 3)
    sizes = (1 + ENTRY * counts).reshape(-1)
    starts = (np.cumsum(sizes) - sizes).reshape(-1, 3)
    out = np.empty(int(sizes.sum()), dtype="<u4")
    out[starts] = counts
    for side, (matrix, words) in enumerate(matrices):
        entries = slice(int(ends[side][0]), int(ends[side][-1]))
        wires, values = matrix.columns[entries], matrix.value_index[entries]
        rows = np.repeat(np.arange(end - begin), counts[:, side])
        order = np.argsort(rows << 32 | wires, kind="stable")
        within = np.arange(len(rows)) - np.repeat(ends[side][:-1] - ends[side][0], counts[:, side])
        place = starts[rows, side] + 1 + ENTRY * within
        wires = wires[order]
        out[place] = np.where(wires < public, wires, wires + np.uint32(PRIVATE - public))
        out[place[:, None] + np.arange(1, ENTRY)] = words[values[order]]
    return out
