"""The family of sparse matrices over a prime field, and their products with vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from kernels.errors import BackendError, SizeError
from kernels.interface import preconditions
from kernels.interface.arrays import Array, HostArray
from kernels.interface.staged import MadeOnUse, Staged
from kernels.maths.curves import Field


@dataclass(frozen=True)
class CsrMatrix:
    """A sparse matrix over a prime field whose values come from a small dictionary (most R1CS values are 1 or -1).

    Row i holds entries row_ptr[i] to row_ptr[i + 1]; entry k is values[value_index[k]] at column columns[k].
    """

    rows: int
    cols: int
    row_ptr: HostArray
    """Index of each row's first entry, (rows + 1,) uint32, ascending from 0 to nnz."""
    columns: HostArray
    """Column of each entry, (nnz,) uint32, each < cols."""
    value_index: HostArray
    """Index into `values` of each entry, (nnz,) uint32, each < len(values)."""
    values: HostArray
    """Dictionary of the values, (distinct, limbs) uint64, Montgomery form."""

    @property
    def nnz(self) -> int:
        return int(self.columns.shape[0])

    def check(self, field: Field) -> None:
        """Raise SizeError unless shapes and dtypes fit together and `field`, and all indices are in range.

        Reads every index once, for native code and kernels that follow the indices unchecked.
        """
        indices = {"row_ptr": self.row_ptr, "columns": self.columns, "value_index": self.value_index}
        for name, array in indices.items():
            if array.ndim != 1 or array.dtype != np.uint32:
                raise SizeError(f"a matrix's {name} is a vector of uint32, not {array.dtype} of shape {array.shape}")
        if self.values.ndim != 2 or self.values.shape[1] != field.limbs or self.values.dtype != np.uint64:
            raise SizeError(f"values of shape {self.values.shape} {self.values.dtype} are not elements of {field.name}")
        if self.row_ptr.shape != (self.rows + 1,) or self.row_ptr[0] != 0 or self.row_ptr[-1] != self.nnz:
            raise SizeError(f"row_ptr does not describe {self.rows} rows of {self.nnz} entries")
        if np.any(self.row_ptr[1:] < self.row_ptr[:-1]):
            raise SizeError("row_ptr does not rise")
        for array, limit, name in (
            (self.columns, self.cols, "column"),
            (self.value_index, self.values.shape[0], "value"),
        ):
            if array.shape[0] != self.nnz or (self.nnz and int(array.max()) >= limit):
                raise SizeError(f"an entry names a {name} beyond the {limit} there are")


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


M = TypeVar("M", bound=Matrix)


class Sparse(ABC, Generic[M]):
    """Sparse matrices of one backend, whose class is M. Raises SizeError for arrays that do not fit."""

    loaded: type[M]
    """The class of the matrices that this family loads."""

    def __init__(self, empty: Callable[..., Array]) -> None:
        """`empty` makes an uninitialised array of a shape and dtype in the backend's memory."""
        self._empty = empty

    def load_matrix(self, field: Field, matrix: CsrMatrix) -> Matrix:
        """Load `matrix`. Raises SizeError if it is not well formed (see `CsrMatrix.check`)."""
        matrix.check(field)
        return self._load_matrix(field, matrix)

    def spmv(self, matrix: Matrix, x: Array, out: Array | None = None, *, standard_form: bool = False) -> Array:
        """Return matrix @ x, (rows, limbs), in Montgomery form. `standard_form`: x is canonical (a raw witness)."""
        if not isinstance(matrix, self.loaded):
            raise BackendError("this matrix was loaded by another backend")
        limbs = matrix.field.limbs
        preconditions.elements(matrix.field, x, "x")
        if x.shape != (matrix.cols, limbs):
            raise SizeError(f"a matrix of {matrix.cols} columns takes ({matrix.cols}, {limbs}), not {x.shape}")
        if out is None:
            out = self._empty((matrix.rows, limbs), np.uint64)
        else:
            preconditions.writable(out, (matrix.rows, limbs))
        self._spmv(matrix, x, out, standard_form)
        return out

    def stage_spmv(self, matrix: Matrix, x: Staged, *, standard_form: bool = False) -> Staged:
        """Begin matrix @ x (see `spmv`) for a staged x, now if that does not disturb what the backend computes.

        Like `Backend.stage` it may be called while another thread computes. The caller owns the array and may change
        it; `release` before the first `array` cancels the product. A backend that cannot compute in the background
        computes when the array is asked for; `x` must not be released before that.
        """
        return MadeOnUse(lambda: self.spmv(matrix, x.array(), standard_form=standard_form))

    # -- what a backend implements, on checked arguments ------------------------------------------------------------

    @abstractmethod
    def _load_matrix(self, field: Field, matrix: CsrMatrix) -> M: ...

    @abstractmethod
    def _spmv(self, matrix: M, x: Array, out: Array, standard_form: bool) -> None: ...
