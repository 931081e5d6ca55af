"""The digest of the rows of an R1CS in their order, by the rule of tests/interop/filecoin.

SHA-256 over the rows: of each its A, B and C, and of each the number of entries and then, by ascending wires, each
entry's wire and coefficient. At the end come the numbers of rows, of public wires with the constant 1, and of private
wires. Private wires are numbered from 2^31 on. Numbers are little-endian, of 4, 32 (coefficients) and 8 bytes.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.registry import CIRCUITS
from distprove.groth16.r1cs import R1cs
from distprove.groth16.templated import TemplatedSystem
from kernels.interface.matrix import CsrMatrix
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Field
from kernels.maths.encoding import field_to_ints

PRIVATE = 1 << 31
AT_ONCE = 1 << 18
"""Rows that are encoded at a time, or a few more."""
ENTRY = 9
"""Words of 32 bits of an entry."""

Piece = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]
"""Some rows of a matrix: the number of entries of each, and each entry's column and value index."""


@dataclass(frozen=True)
class Digest:
    """Sizes of a constraint system and the digest of its rows."""

    constraints: int
    private: int
    """Private wires."""
    public: int
    """Public wires, with the constant 1."""
    sha256: str


def row_digest(system: R1cs | TemplatedSystem) -> Digest:
    """The digest of a system's rows. A row has a wire at most once in each matrix, and no coefficient that is zero."""
    public, rows = 1 + system.n_public, system.n_constraints
    private = system.n_vars - public
    words = [_words(system.curve.fr, matrix) for matrix in (system.a, system.b, system.c)]
    digest, seen = hashlib.sha256(), 0
    for pieces in _rows(system) if isinstance(system, R1cs) else _instances(system):
        digest.update(_encoded(pieces, words, public))
        seen += len(pieces[0][0])
    assert seen == rows
    digest.update(np.array([rows, public, private], dtype="<u8").tobytes())
    return Digest(rows, private, public, digest.hexdigest())


def _words(field: Field, matrix: CsrMatrix | TemplatedMatrix) -> NDArray[np.uint32]:
    """The coefficients as words, (distinct, 8)."""
    ints = field_to_ints(field, matrix.values)
    assert 0 not in ints
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in ints), "<u4").reshape(-1, 8)


def _rows(system: R1cs) -> Iterator[list[Piece]]:
    """All rows, some at a time, of A, B and C."""
    for begin in range(0, system.n_constraints, AT_ONCE):
        pieces = []
        for matrix in (system.a, system.b, system.c):
            ends = matrix.row_ptr[begin : begin + AT_ONCE + 1].astype(np.int64)
            own = slice(int(ends[0]), int(ends[-1]))
            pieces.append((np.diff(ends), matrix.columns[own].astype(np.int64), matrix.value_index[own]))
        yield pieces


def _instances(system: TemplatedSystem) -> Iterator[list[Piece]]:
    """All rows, some at a time, of A, B and C, instance by instance in their order."""
    matrices = (system.a, system.b, system.c)
    assert all(matrix.position is None and matrix.spread == 1 for matrix in matrices)
    numbers = [(number, lane) for number, part in enumerate(system.a.parts) for lane in range(part.lanes)]
    starts = np.concatenate([part.instances()[0] for part in system.a.parts])
    some: list[tuple[int, int]] = []
    rows = 0
    for place in np.argsort(starts, kind="stable").tolist():
        number, lane = numbers[place]
        assert len({matrix.parts[number].row + lane * matrix.parts[number].row_step for matrix in matrices}) == 1
        some.append((number, lane))
        rows += system.a.parts[number].template.rows
        if rows >= AT_ONCE:
            yield [_of(matrix, some) for matrix in matrices]
            some, rows = [], 0
    if some:
        yield [_of(matrix, some) for matrix in matrices]


def _of(matrix: TemplatedMatrix, instances: list[tuple[int, int]]) -> Piece:
    """The rows of instances, each a part and a lane."""
    counts, columns, values = [], [], []
    for number, lane in instances:
        part = matrix.parts[number]
        counts.append(np.diff(part.template.row_ptr.astype(np.int64)))
        runs = np.stack([part.runs[:, 0] + lane * part.runs[:, 1], part.runs[:, 1]], axis=1)
        columns.append(replace(part, runs=runs, first=part.first + lane * part.step, lanes=1).columns()[0])
        values.append(part.template.value_index)
    return np.concatenate(counts), np.concatenate(columns), np.concatenate(values)


def _encoded(pieces: list[Piece], words: list[NDArray[np.uint32]], public: int) -> NDArray[np.uint32]:
    """What is hashed of some rows."""
    counts = np.stack([piece[0] for piece in pieces], axis=1)  # (rows, 3)
    sizes = (1 + ENTRY * counts).reshape(-1)
    starts = (np.cumsum(sizes) - sizes).reshape(-1, 3)
    out = np.empty(int(sizes.sum()), dtype="<u4")
    out[starts] = counts
    for side, (own, wires, values) in enumerate(pieces):
        rows = np.repeat(np.arange(len(own)), own)
        order = np.argsort(rows << 32 | wires, kind="stable")
        within = np.arange(len(rows)) - np.repeat(np.cumsum(own) - own, own)
        place = starts[rows, side] + 1 + ENTRY * within
        wires = wires[order]
        out[place] = np.where(wires < public, wires, wires + (PRIVATE - public))
        out[place[:, None] + np.arange(1, ENTRY)] = words[side][values[order]]
    return out


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, row_digest(CIRCUITS[f"filecoin/{name}"].make().system()))
