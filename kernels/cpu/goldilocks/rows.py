"""The row-by-row part of `kernels.interface.goldilocks.GoldilocksKernels` on the CPU: row programs, quotients, sums."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import Array, Empty
from kernels.interface.goldilocks import RowJob, Words
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import Ext, P


class CpuRows:
    """The row-by-row kernels on the threads of a pool. Results are the same for any number of threads.

    `native` is the extension module, `pool` its `Pool`. Results lie in what `empty` makes. `kernels` is one of the
    inner loops of `native.row_kernels()`; None is the fastest that runs on this CPU. Arrays that are not contiguous are
    copied.
    """

    def __init__(self, native: Any, pool: Any, empty: Empty, kernels: str | None = None) -> None:
        self._row_code = native.RowCode
        self._rows = native.Rows(pool, kernels or native.row_kernels()[-1])
        self._prepared: dict[int, Any] = {}
        self._empty = empty

    def _selectors(self, log_n: int, log_cosets: int) -> Array:
        out = self._empty((3, 1 << log_cosets, 1 << log_n), np.uint64)
        self._rows.selectors(log_n, log_cosets, log_cosets, out)
        return out

    def _evaluate_all(self, jobs: Sequence[RowJob], rows: Sequence[int]) -> list[Array]:
        return [self._evaluate(job, n) for job, n in zip(jobs, rows, strict=True)]

    def _evaluate(self, job: RowJob, n: int) -> Array:
        cosets = 1 << job.log_cosets
        arrays = [np.empty((0, cosets, n), dtype=np.uint64) if m is None else cube(m) for m in job.inputs]
        factors = None if job.coset_factors is None else canonical(job.coset_factors, "coset factors")
        scalars = canonical(job.scalars, "scalars")
        out = self._empty((job.program.output_columns, cosets, n), np.uint64)
        self._rows.evaluate(self._prepare(job.program), arrays, scalars, factors, out)
        return out

    def _divide(self, numerators: Array, denominators: Array) -> Array:
        a, b = np.ascontiguousarray(numerators), np.ascontiguousarray(denominators)
        out = self._empty(a.shape, np.uint64)
        self._rows.divide(a, b, out)
        return out

    def _running_sum(self, terms: Array) -> tuple[Array, Ext]:
        sums, total = self._empty((3, terms.shape[1]), np.uint64), np.empty(3, dtype=np.uint64)
        self._rows.running_sum(np.ascontiguousarray(terms), sums, total)
        return sums, (int(total[0]), int(total[1]), int(total[2]))

    def _count(self, rows: Array, times: Array, counts: Array) -> None:
        counted = np.flatnonzero((times != 0) & (rows < len(counts)))
        np.add.at(counts, rows[counted].astype(np.int64), times[counted])

    def _prepare(self, program: RowProgram) -> Any:
        """Return the program in the form that the interpreter runs; made once and kept as long as the program lives."""
        prepared = self._prepared.get(id(program))
        if prepared is None:
            code = np.ascontiguousarray(program.code)
            prepared = self._row_code(
                program.widths, code, program.constants, program.scalars, program.outputs, program.fold
            )
            self._prepared[id(program)] = prepared
            weakref.finalize(program, self._prepared.pop, id(program), None)
        return prepared


def cube(array: Array) -> Words:
    """Return a matrix (width, n) or (width, C, n) as a contiguous (width, C, n) array."""
    return np.ascontiguousarray(array[:, None] if array.ndim == 2 else array)


def canonical(array: Words, what: str) -> Words:
    """Return an array contiguous. Raises SizeError where an element is not canonical."""
    if array.dtype != np.uint64 or not bool((array < np.uint64(P)).all()):
        raise SizeError(f"{what} must be canonical field elements in an array of uint64")
    return np.ascontiguousarray(array)
