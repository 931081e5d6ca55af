"""Sparse matrix times a vector of points, on the CPU: how a ceremony's points become a proving key."""

from __future__ import annotations

import numpy as np

from kernels.backend import CsrMatrix, HostArray, SizeError
from kernels.cpu import point_bytes
from kernels.curves import Curve, Group
from kernels.native import native


def combine(curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray, threads: int) -> HostArray:
    """matrix @ points, (rows, point_limbs) uint64 affine.

    `points`: (cols, point_limbs) uint64 or (cols, 8 * point_limbs) uint8, at any address. Unlike elsewhere, the
    matrix's values are canonical integers, not in Montgomery form. Raises SizeError for shapes or indices that do not
    fit.
    """
    flat = point_bytes(curve, group, np.ascontiguousarray(points))
    if points.shape[0] != matrix.cols:
        raise SizeError(f"a matrix of {matrix.cols} columns times {points.shape[0]} points")
    row_ptr = matrix.row_ptr
    if row_ptr.shape != (matrix.rows + 1,) or row_ptr[0] != 0 or row_ptr[-1] != matrix.nnz:
        raise SizeError(f"row_ptr does not describe {matrix.rows} rows of {matrix.nnz} entries")
    if np.any(row_ptr[1:] < row_ptr[:-1]):
        raise SizeError("row_ptr does not rise")
    for index, limit, name in (
        (matrix.columns, matrix.cols, "column"),
        (matrix.value_index, matrix.values.shape[0], "value"),
    ):
        if index.shape[0] != matrix.nnz or (matrix.nnz and int(index.max()) >= limit):
            raise SizeError(f"an entry names a {name} beyond the {limit} there are")
    out = np.empty((matrix.rows, curve.point_limbs(group)), dtype=np.uint64)
    native.sparse_points(
        native.Pool(threads),
        curve.name,
        group.value,
        _bytes(row_ptr.astype(np.uint32, copy=False)),
        _bytes(matrix.columns.astype(np.uint32, copy=False)),
        _bytes(matrix.value_index.astype(np.uint32, copy=False)),
        _bytes(matrix.values),
        flat,
        _bytes(out),
    )
    return out


def _bytes(array: HostArray) -> HostArray:
    """The array's memory as flat bytes; a view where it is contiguous."""
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1)
