"""Assembles the CSR matrices of an R1CS from blocks of constraints, without a Python object per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.circuits.linear import Linear
from distprove.groth16.r1cs import R1cs
from kernels.interface.sparse import CsrMatrix
from kernels.maths.curves import Curve, Field
from kernels.maths.encoding import field_from_ints


@dataclass(frozen=True)
class ConstraintBlock:
    """A block of `lanes` constraints a * b = c that share their coefficients."""

    a: Linear
    b: Linear
    c: Linear
    lanes: int


class _Dictionary:
    """Numbers distinct field values in order of first use. A circuit has few of them."""

    def __init__(self) -> None:
        self.index: dict[int, int] = {}

    def __getitem__(self, value: int) -> int:
        return self.index.setdefault(value, len(self.index))


def _matrix(
    field: Field, sides: Sequence[tuple[Linear, int]], position: NDArray[np.uint32], rows: int, cols: int
) -> CsrMatrix:
    """The matrix whose rows are the lanes of each side in turn. `position` maps the builder's wires to final wires."""
    values = _Dictionary()
    columns: list[NDArray[np.uint32]] = []
    indices: list[NDArray[np.uint32]] = []
    for linear, lanes in sides:
        runs = np.array(list(linear.terms), dtype=np.int64).reshape(-1, 2)
        entries = np.array([values[c] for c in linear.terms.values()], dtype=np.uint32)
        wires = runs[:, 0] + np.arange(lanes, dtype=np.int64)[:, None] * runs[:, 1]
        columns.append(position[wires].reshape(-1))
        indices.append(np.broadcast_to(entries, wires.shape).reshape(-1))
    row_ptr = np.zeros(rows + 1, dtype=np.uint32)
    lengths = np.repeat([len(linear.terms) for linear, _ in sides], [lanes for _, lanes in sides])
    np.cumsum(lengths, out=row_ptr[1:])
    return CsrMatrix(
        rows, cols, row_ptr, np.concatenate(columns), np.concatenate(indices), field_from_ints(field, values.index)
    )


def assemble(
    curve: Curve,
    blocks: Sequence[ConstraintBlock],
    position: NDArray[np.uint32],
    *,
    outputs: int,
    public_inputs: int,
    private_inputs: int,
) -> R1cs:
    """Assemble the R1CS of all blocks in order. `position[w]` is the final number of the builder's wire w."""
    rows = sum(block.lanes for block in blocks)
    sides = [[(getattr(block, side), block.lanes) for block in blocks] for side in ("a", "b", "c")]
    a, b, c = (_matrix(curve.fr, side, position, rows, len(position)) for side in sides)
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
