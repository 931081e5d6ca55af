"""Wide Fibonacci: every row is a sequence of its own, c[i+2] = c[i]^2 + c[i+1]^2 across the columns.

It proves that each row was computed correctly from its first two elements, and nothing about these. It is a benchmark
for provers (columns, rows, constraints of degree 2) and not a useful statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.stark.air import Air, Expression, Table
from distprove.stark.air.row_function import Cells, apply, row_function
from distprove.stark.field import GENERATOR, P
from distprove.stark.program import Program, Slice, Trace
from distprove.stark.programs.registry import PROGRAMS
from distprove.stark.statement import Statement
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend
from kernels.interface.row_program import RowProgram


class WideFibonacciAir(Air):
    name = "wide-fibonacci"

    def __init__(self, width: int) -> None:
        self.main = {"c": width}

    def define(self, t: Table) -> None:
        c = t.this["c"]
        for a, b, after in zip(c, c[1:], c[2:], strict=False):
            t.always(after - a * a - b * b)


class WideFibonacci(Program):
    """The program `wide-fibonacci`, of a fixed height. Partitions differ in their first elements, made from a seed."""

    name = "wide-fibonacci"
    statement = Statement()

    def __init__(self, rows: int = 1 << 16, width: int = 32, seed: int = 1) -> None:
        """Raises UsageError for arguments out of range."""
        PROGRAMS["wide-fibonacci"].check(rows=rows, width=width, seed=seed)
        self.rows, self.width, self.seed = rows, width, seed

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"rows": self.rows, "width": self.width}

    @property
    def tables(self) -> Sequence[Air]:
        return (WideFibonacciAir(self.width),)

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        return {"wide-fibonacci": self.rows.bit_length() - 1}

    def slices(self, partitions: int) -> list[Slice]:
        return [Slice(f"part-{i:04}", {"start": pow(GENERATOR, self.seed + i, P)}) for i in range(partitions)]

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        return {"start": np.array([source["start"]], dtype=np.uint64)}

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        (start,) = backend.to_host(inputs["start"]).tolist()
        # The last selector, x - w^-1 on a coset, is a column that differs from row to row.
        selectors = backend.goldilocks.selectors(self.rows.bit_length() - 1, 0, 0)
        return Trace([apply(backend, _rows(self.width), [selectors], [start])], ())

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[int]]) -> dict[str, str]:
        rows = sum(1 << height for (height,) in log_heights)
        return {
            "computed right": f"{count_of(rows, 'row')} of {count_of(self.width, 'column')}, each from its first two"
        }


@lru_cache(maxsize=8)
def _rows(width: int) -> RowProgram:
    """The row function of a trace, which all programs of a width have in common."""

    def columns(cells: Cells, scalars: Sequence[Expression]) -> list[Expression]:
        x, start = cells[0][2], scalars[0]
        c = [x * start, x + start]
        while len(c) < width:
            c.append(c[-2] * c[-2] + c[-1] * c[-1])
        return c

    return row_function([3], columns, scalars=1)
