"""The product of a sparse matrix and a vector of points on the CPU: it turns a ceremony's points into a proving key."""

from __future__ import annotations

import numpy as np

from kernels.cpu.points import flat_bytes, point_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface.arrays import HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Curve, Group


def combine(curve: Curve, group: Group, matrix: CsrMatrix, points: HostArray, threads: int) -> HostArray:
    """Return matrix @ points, (rows, point_limbs) uint64 affine, computed on `threads` threads.

    `points`: (cols, point_limbs) uint64 or (cols, 8 * point_limbs) uint8, at any address. Unlike elsewhere, the
    matrix's values are canonical integers, not in Montgomery form. Raises SizeError for shapes or indices that do not
    fit.
    """
    flat = point_bytes(curve, group, np.ascontiguousarray(points))
    if points.shape[0] != matrix.cols:
        raise SizeError(f"a matrix of {matrix.cols} columns times {points.shape[0]} points")
    matrix.check(curve.fr)
    out = np.empty((matrix.rows, curve.point_limbs(group)), dtype=np.uint64)
    parts = (matrix.row_ptr, matrix.columns, matrix.value_index, matrix.values)
    arrays = [flat_bytes(np.ascontiguousarray(part)) for part in parts]
    native.sparse_points(native.Pool(threads), curve.name, group.value, *arrays, flat, flat_bytes(out))
    return out
