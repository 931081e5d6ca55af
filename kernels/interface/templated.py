"""Sparse matrices of circuits with repeated parts: rows of a template are stored once, with where its instances lie.

A matrix of 10^8 rows is some dozens of templates, placed some hundreds of times. A backend makes of it what it
multiplies by, in its own memory, so that the host never holds an entry of 8 bytes for each of 10^9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import Field

MAX_INDEX = 1 << 32
"""Entries and columns are counted by 32 bits."""


@dataclass(frozen=True, eq=False)
class RowTemplate:
    """Rows over columns of their own numbering, as in `CsrMatrix`. Values are numbered by the matrix' dictionary."""

    row_ptr: HostArray
    """(rows + 1,) uint32."""
    columns: HostArray
    """(nnz,) uint32."""
    value_index: HostArray
    """(nnz,) uint32."""

    @property
    def rows(self) -> int:
        return int(self.row_ptr.shape[0]) - 1

    @property
    def nnz(self) -> int:
        return int(self.columns.shape[0])

    @cached_property
    def last_column(self) -> int:
        """The largest of `columns`; -1 without entries."""
        return int(self.columns.max()) if self.nnz else -1


@dataclass(frozen=True, eq=False)
class TemplatedRows:
    """Instances of a template, one below the other. In instance i, column c of the template is run c at
    runs[c, 0] + i * runs[c, 1], or beyond the runs the own column first + i * step + c - len(runs)."""

    template: RowTemplate
    runs: HostArray
    """(inputs, 2) int64."""
    first: int
    step: int
    lanes: int
    """Number of instances, at least one."""

    @property
    def rows(self) -> int:
        return self.lanes * self.template.rows

    @property
    def nnz(self) -> int:
        return self.lanes * self.template.nnz

    def ends(self) -> tuple[int, int]:
        """The least and the greatest column that any instance names, or could."""
        begin = self.runs[:, 0]
        ends = [begin, begin + (self.lanes - 1) * self.runs[:, 1]]
        own = self.template.last_column - len(self.runs)
        if own >= 0:
            last = self.first + (self.lanes - 1) * self.step
            ends.append(np.array([self.first, self.first + own, last, last + own]))
        every = np.concatenate(ends)
        return (int(every.min()), int(every.max())) if every.size else (0, -1)

    def columns(self) -> HostArray:
        """The column of each entry, (lanes, nnz of the template) int64."""
        local = self.template.columns.astype(np.int64)
        own = local >= len(self.runs)
        runs = self.runs if len(self.runs) else np.zeros((1, 2), dtype=np.int64)
        known = np.where(own, 0, local)
        begin = np.where(own, local - len(self.runs) + self.first, runs[known, 0])
        step = np.where(own, self.step, runs[known, 1])
        columns: HostArray = begin + np.arange(self.lanes, dtype=np.int64)[:, None] * step
        return columns


@dataclass(frozen=True, eq=False)
class TemplatedMatrix:
    """A sparse matrix over a prime field whose rows are those of `parts`, in order, and then empty ones."""

    rows: int
    cols: int
    parts: tuple[TemplatedRows, ...]
    values: HostArray
    """Dictionary of the values, (distinct, limbs) uint64, Montgomery form."""
    position: HostArray | None = None
    """The matrix' column for each column that a part names, (cols,) uint32; None where they are the same."""

    @cached_property
    def nnz(self) -> int:
        return sum(part.nnz for part in self.parts)

    def offsets(self) -> Iterator[tuple[TemplatedRows, int, int]]:
        """Each part with its first row and its first entry."""
        row = entry = 0
        for part in self.parts:
            yield part, row, entry
            row, entry = row + part.rows, entry + part.nnz

    def check(self, field: Field) -> None:
        """Raise SizeError unless shapes and dtypes fit together and `field`, and all indices are in range."""
        if self.nnz >= MAX_INDEX or self.cols >= MAX_INDEX or sum(part.rows for part in self.parts) > self.rows:
            raise SizeError(f"{self.nnz} entries of {self.cols} columns do not fit {self.rows} rows or 32-bit indices")
        for template in {id(part.template): part.template for part in self.parts}.values():
            columns = template.last_column + 1
            CsrMatrix(
                template.rows, columns, template.row_ptr, template.columns, template.value_index, self.values
            ).check(field)
        for part in self.parts:
            low, high = part.ends()
            if part.lanes < 1 or low < 0 or high >= self.cols:
                raise SizeError(f"an instance names a column beyond the {self.cols} there are")
        if self.position is not None:
            if self.position.shape != (self.cols,) or self.position.dtype != np.uint32:
                raise SizeError(f"positions of {self.cols} columns have shape ({self.cols},) and dtype uint32")
            if self.cols and int(self.position.max()) >= self.cols:
                raise SizeError(f"a position is beyond the {self.cols} columns")

    def csr(self) -> CsrMatrix:
        """Every row with its entries, in the order of the templates."""
        row_ptr = np.zeros(self.rows + 1, dtype=np.uint32)
        columns, value_index = np.empty(self.nnz, dtype=np.uint32), np.empty(self.nnz, dtype=np.uint32)
        row = entry = 0
        for part, row, entry in self.offsets():
            template, lanes = part.template, part.lanes
            begins = entry + template.nnz * np.arange(lanes, dtype=np.int64)[:, None]
            row_ptr[row + 1 : row + 1 + part.rows] = (begins + template.row_ptr[1:]).reshape(-1)
            named = part.columns() if self.position is None else self.position[part.columns()]
            columns[entry : entry + part.nnz] = named.reshape(-1)
            value_index[entry : entry + part.nnz].reshape(lanes, -1)[...] = template.value_index
        filled = sum(part.rows for part in self.parts)
        row_ptr[filled + 1 :] = self.nnz
        return CsrMatrix(self.rows, self.cols, row_ptr, columns, value_index, self.values)
