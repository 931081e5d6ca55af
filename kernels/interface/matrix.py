"""Sparse matrices over a prime field in compressed rows (CSR), as they lie on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
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

    def csr(self) -> CsrMatrix:
        return self

    def spread_rows(self, factor: int) -> CsrMatrix:
        """The matrix whose row i * factor modulo the number of rows, a power of two, is row i of this one. `factor` is
        odd."""
        source = np.empty(self.rows, dtype=np.int64)
        source[np.arange(self.rows, dtype=np.int64) * factor % self.rows] = np.arange(self.rows)
        old = self.row_ptr.astype(np.int64)
        lengths = (old[1:] - old[:-1])[source]
        row_ptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(old[source] - row_ptr[:-1], lengths) + np.arange(self.nnz)
        columns, value_index = self.columns[entries], self.value_index[entries]
        return CsrMatrix(self.rows, self.cols, row_ptr.astype(np.uint32), columns, value_index, self.values)

    def transposed(self) -> CsrMatrix:
        """The transpose. The entries of each of its rows are in the order of their columns."""
        lengths = self.row_ptr[1:] - self.row_ptr[:-1]
        rows = np.repeat(np.arange(self.rows, dtype=np.uint32), lengths)
        order = np.argsort(self.columns, kind="stable")  # a radix sort for integers
        row_ptr = np.zeros(self.cols + 1, dtype=np.uint32)
        np.cumsum(np.bincount(self.columns, minlength=self.cols), out=row_ptr[1:])
        return CsrMatrix(
            self.cols, self.rows, row_ptr, rows[order], np.ascontiguousarray(self.value_index[order]), self.values
        )
