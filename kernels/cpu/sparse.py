"""Sparse matrices on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.cpu.leased_pool import LeasedPool
from kernels.cpu.points import flat_bytes
from kernels.interface.arrays import Array, Empty
from kernels.interface.matrix import CsrMatrix
from kernels.interface.sparse import Sparse
from kernels.maths.curves import Field


@dataclass(frozen=True)
class CpuMatrix:
    """A CSR matrix in the form of the extension."""

    rows: int
    cols: int
    nbytes: int
    entries: int
    field: Field
    native: Any


class CpuSparse(Sparse[CpuMatrix]):
    """Products of sparse matrices, on the threads of `pool`."""

    loaded = CpuMatrix

    def __init__(self, pool: LeasedPool, empty: Empty) -> None:
        super().__init__(empty)
        self._pool = pool

    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> CpuMatrix:
        parts = (matrix.row_ptr, matrix.columns, matrix.value_index, matrix.values)
        arrays = [flat_bytes(np.ascontiguousarray(part)) for part in parts]
        native = self._pool.native.Matrix(field.name, matrix.cols, *arrays)
        return CpuMatrix(matrix.rows, matrix.cols, sum(a.nbytes for a in arrays), matrix.nnz, field, native)

    def _spmv(self, matrix: CpuMatrix, x: Array, out: Array, standard_form: bool) -> None:
        with self._pool.leased(matrix.entries) as threads:
            self._pool.native.spmv(threads, matrix.native, flat_bytes(x), standard_form, flat_bytes(out))
