"""Builds a `CsrMatrix` from the entries that circuit files hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distprove.groth16.elements import Words
from kernels.interface.matrix import CsrMatrix

Indices = NDArray[np.uint32]


def csr_from_entries(
    rows: int, cols: int, row: NDArray[np.unsignedinteger], column: Indices, value_index: Indices, values: Words
) -> CsrMatrix:
    """Build a rows x cols matrix from entries in any order; entries of a row keep their order.

    `row`, `column` and `value_index` are (nnz,) and known to be in range. `values` is (distinct, limbs) in Montgomery
    form.
    """
    if row.shape[0] and np.any(row[1:] < row[:-1]):
        order = np.argsort(row, kind="stable")
        column, value_index = column[order], value_index[order]
    row_ptr = np.zeros(rows + 1, dtype=np.uint32)
    np.cumsum(np.bincount(row, minlength=rows), out=row_ptr[1:])
    return CsrMatrix(
        rows=rows,
        cols=cols,
        row_ptr=row_ptr,
        columns=np.ascontiguousarray(column, dtype=np.uint32),
        value_index=np.ascontiguousarray(value_index, dtype=np.uint32),
        values=values,
    )


def row_range(matrix: CsrMatrix, first: int, last: int) -> tuple[slice, Indices]:
    """The slice of the entries in rows first to last - 1, cut to the rows that exist, and the row of each entry."""
    last = min(last, matrix.rows)
    first = min(first, last)
    pointers = matrix.row_ptr[first : last + 1].astype(np.int64)
    rows = np.repeat(np.arange(first, last, dtype=np.uint32), np.diff(pointers))
    return slice(int(pointers[0]), int(pointers[-1])), rows
