"""Sparse matrices of circuits with repeated parts: rows of a template are stored once, with where its instances lie.

A matrix of 10^8 rows is some dozens of templates, placed some hundreds of times. A backend makes of it what it
multiplies by, in its own memory, so that the host never holds an entry of 8 bytes for each of 10^9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.interface.runs import require_exact
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
    """Instances of a template. In instance i, column c of the template is run c at runs[c, 0] + i * runs[c, 1], or
    beyond the runs the own column first + i * step + c - len(runs).

    Instance i has the matrix' rows from row + i * row_step on, and its entries from entry + i * entry_step on.
    """

    template: RowTemplate
    runs: HostArray
    """(inputs, 2) int64."""
    first: int
    step: int
    lanes: int
    """Number of instances, at least one."""
    row: int
    row_step: int
    entry: int
    entry_step: int

    @classmethod
    def stacked(
        cls, template: RowTemplate, runs: HostArray, first: int = 0, step: int = 0, lanes: int = 1
    ) -> TemplatedRows:
        """Instances one below the other, from row 0 on."""
        return cls(template, runs, first, step, lanes, 0, template.rows, 0, template.nnz)

    def below(self, row: int, entry: int) -> TemplatedRows:
        """The same instances so many rows and entries further down."""
        return replace(self, row=self.row + row, entry=self.entry + entry)

    @property
    def rows(self) -> int:
        return self.lanes * self.template.rows

    @property
    def nnz(self) -> int:
        return self.lanes * self.template.nnz

    def instances(self) -> tuple[HostArray, HostArray]:
        """The first row and the first entry of each instance, (lanes,) int64."""
        number = np.arange(self.lanes, dtype=np.int64)
        return self.row + number * self.row_step, self.entry + number * self.entry_step

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
    """A sparse matrix over a prime field whose first rows are those of `parts`, and the others empty: row i of these is
    the matrix' row i * spread modulo `rows`."""

    rows: int
    cols: int
    parts: tuple[TemplatedRows, ...]
    values: HostArray
    """Dictionary of the values, (distinct, limbs) uint64, Montgomery form."""
    position: HostArray | None = None
    """The matrix' column for each column that a part names, (cols,) uint32; None where they are the same."""
    spread: int = 1
    """Odd, and 1 for a number of rows that is no power of two."""

    @cached_property
    def nnz(self) -> int:
        return sum(part.nnz for part in self.parts)

    @cached_property
    def filled(self) -> int:
        """Number of the rows of the parts."""
        return sum(part.rows for part in self.parts)

    def check(self, field: Field) -> None:
        """Raise SizeError unless shapes and dtypes fit together and `field`, and all indices are in range."""
        if self.nnz >= MAX_INDEX or self.cols >= MAX_INDEX or self.filled > self.rows:
            raise SizeError(f"{self.nnz} entries of {self.cols} columns do not fit {self.rows} rows or 32-bit indices")
        if self.spread != 1 and (self.rows & (self.rows - 1) or not self.spread % 2 or not 0 < self.spread < self.rows):
            raise SizeError(f"{self.rows} rows cannot be {self.spread} apart")
        for template in {id(part.template): part.template for part in self.parts}.values():
            columns = template.last_column + 1
            CsrMatrix(
                template.rows, columns, template.row_ptr, template.columns, template.value_index, self.values
            ).check(field)
        for part in self.parts:
            require_exact(part.runs, part.lanes)
            require_exact(np.array([[part.first, part.step]], dtype=np.int64), part.lanes)
            low, high = part.ends()
            if not 1 <= part.lanes <= max(1, self.rows) or low < 0 or high >= self.cols:
                raise SizeError(f"an instance names a column beyond the {self.cols} there are")
        if not _tile(self.parts):
            raise SizeError("instances do not lie one below the other")
        if self.position is not None:
            if self.position.shape != (self.cols,) or self.position.dtype != np.uint32:
                raise SizeError(f"positions of {self.cols} columns have shape ({self.cols},) and dtype uint32")
            if self.cols and int(self.position.max()) >= self.cols:
                raise SizeError(f"a position is beyond the {self.cols} columns")

    def csr(self) -> CsrMatrix:
        """Every row with its entries."""
        row_ptr = np.zeros(self.rows + 1, dtype=np.uint32)
        columns, value_index = np.empty(self.nnz, dtype=np.uint32), np.empty(self.nnz, dtype=np.uint32)
        for part in self.parts:
            template = part.template
            rows, entries = part.instances()
            row_ptr[(rows + 1)[:, None] + np.arange(template.rows)] = entries[:, None] + template.row_ptr[1:]
            places = entries[:, None] + np.arange(template.nnz)
            columns[places] = part.columns() if self.position is None else self.position[part.columns()]
            value_index[places] = template.value_index
        row_ptr[self.filled + 1 :] = self.nnz
        matrix = CsrMatrix(self.rows, self.cols, row_ptr, columns, value_index, self.values)
        return matrix if self.spread == 1 else matrix.spread_rows(self.spread)

    def occurring(self) -> NDArray[np.bool_]:
        """Which columns have an entry with a coefficient other than zero, (cols,)."""
        marked = occurring(self.parts, self.cols, np.any(self.values != 0, axis=1))
        if self.position is None:
            return marked
        found = np.empty_like(marked)
        found[self.position] = marked
        return found


def occurring(
    parts: Sequence[TemplatedRows], columns: int, not_zero: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Which of so many columns the parts name; with `not_zero`, those of coefficients whose values are marked there."""
    marked = np.zeros(columns, dtype=np.bool_)
    for part in parts:
        runs, named = part.runs, np.zeros(part.template.last_column + 1, dtype=np.bool_)
        kept = slice(None) if not_zero is None else not_zero[part.template.value_index]
        named[part.template.columns[kept]] = True
        local = np.flatnonzero(named)
        for first, stride in runs[local[local < len(runs)]].tolist():
            marked[first + stride * np.arange(part.lanes if stride else 1)] = True
        own = local[local >= len(runs)] - len(runs)
        if own.size:
            firsts = part.first + part.step * np.arange(part.lanes, dtype=np.int64)
            marked[firsts[:, None] + own] = True
    return marked


def _tile(parts: tuple[TemplatedRows, ...]) -> bool:
    """Whether the instances of all parts lie one below the other, with their entries in the same order."""
    if not parts:
        return True
    rows, entries = (np.concatenate(starts) for starts in zip(*(part.instances() for part in parts), strict=True))
    lanes = [part.lanes for part in parts]
    sizes = (
        np.repeat([part.template.rows for part in parts], lanes),
        np.repeat([p.template.nnz for p in parts], lanes),
    )
    order = np.lexsort((sizes[0], rows))
    return all(
        np.array_equal(starts[order], np.cumsum(size[order]) - size[order])
        for starts, size in zip((rows, entries), sizes, strict=True)
    )
