"""The family of sparse matrices over a prime field, and their products with vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from kernels.errors import BackendError, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array
from kernels.interface.matrix import CsrMatrix
from kernels.interface.templated import TemplatedMatrix
from kernels.maths.curves import Field


class Matrix(Protocol):
    """A CSR matrix resident in the backend. Made by `load_matrix`."""

    @property
    def field(self) -> Field: ...
    @property
    def rows(self) -> int: ...
    @property
    def cols(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


@dataclass(frozen=True)
class MatrixOnUse:
    """A `Matrix` that is in the backend's memory only while a product with it is computed: `make` makes it there."""

    field: Field
    rows: int
    cols: int
    make: Callable[[], Matrix]
    nbytes: int = 0


SparseRows = CsrMatrix | TemplatedMatrix
"""A sparse matrix on the host. Both kinds have a `check`."""

M = TypeVar("M", bound=Matrix)


class Sparse(ABC, Generic[M]):
    """Sparse matrices of one backend, whose class is M. Raises SizeError for arrays that do not fit."""

    loaded: type[M]
    """The class of the matrices that this family loads."""

    def __init__(self, empty: Callable[..., Array]) -> None:
        """`empty` makes an uninitialised array of a shape and dtype in the backend's memory."""
        self._empty = empty

    def load_matrix(
        self, field: Field, matrix: SparseRows, *, transposed: bool = False, on_use: bool = False
    ) -> Matrix:
        """Load `matrix`, or its transpose. With `on_use` a matrix that is not transposed stays on the host, and each
        product brings it over, or makes it of its templates. Raises SizeError if it is not well formed (see
        `CsrMatrix.check`)."""
        matrix.check(field)
        if on_use and not transposed:
            return MatrixOnUse(field, matrix.rows, matrix.cols, self._on_use(field, matrix))
        if transposed:
            return self._load_transposed(field, matrix)
        return self._load_matrix(field, matrix) if isinstance(matrix, CsrMatrix) else self._load_placed(field, matrix)

    def spmv(self, matrix: Matrix, x: Array, *, standard_form: bool = False) -> Array:
        """Return matrix @ x, (rows, limbs), in Montgomery form. `standard_form`: x is canonical (a raw witness)."""
        if isinstance(matrix, MatrixOnUse):
            matrix = matrix.make()
        if not isinstance(matrix, self.loaded):
            raise BackendError("this matrix was loaded by another backend")
        limbs = matrix.field.limbs
        preconditions.elements(matrix.field, x, "x")
        if x.shape != (matrix.cols, limbs):
            raise SizeError(f"a matrix of {matrix.cols} columns takes ({matrix.cols}, {limbs}), not {x.shape}")
        out = self._empty((matrix.rows, limbs), np.uint64)
        self._spmv(matrix, x, out, standard_form)
        return out

    def matrix_bytes(self, rows: int, nnz: int) -> int:
        """Bytes of the backend's memory of a matrix, without its few distinct values and long rows."""
        return 4 * (2 * nnz + rows + 1)

    # -- what a backend implements, on checked arguments ------------------------------------------------------------

    @abstractmethod
    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> M: ...

    def _load_placed(self, field: Field, matrix: TemplatedMatrix) -> M:
        return self._load_matrix(field, matrix.csr())

    def _on_use(self, field: Field, matrix: SparseRows) -> Callable[[], Matrix]:
        """What makes a checked matrix in the backend's memory, any number of times."""
        loaded = self.load_matrix(field, matrix)
        return lambda: loaded

    def _load_transposed(self, field: Field, matrix: SparseRows) -> M:
        return self._load_matrix(field, matrix.csr().transposed())

    @abstractmethod
    def _spmv(self, matrix: M, x: Array, out: Array, standard_form: bool) -> None: ...
