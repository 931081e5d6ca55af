"""The row-by-row part of `kernels.interface.goldilocks.GoldilocksKernels` on the CPU: row programs, openings, FRI
folds."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import Array, Empty
from kernels.interface.goldilocks import DeepPoint, OpenedRuns, RowJob, Words
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import GENERATOR, Ext, P
from kernels.maths.goldilocks_extension import ext_scale_all

MAX_LOG_ARITY = 6
"""log2 of the largest arity of a fold, which keeps 2^6 values of a row at once."""


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
        arrays = [np.empty((0, cosets, n), dtype=np.uint64) if m is None else _cube(m) for m in job.inputs]
        factors = None if job.coset_factors is None else _host(job.coset_factors, "coset factors")
        scalars = _host(job.scalars, "scalars")
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

    def _evaluate_at(self, opened: OpenedRuns, point: Ext) -> None:
        for (n, points), runs in opened.items():
            if point[1:] == (0, 0) and pow(point[0], n, P) == pow(GENERATOR, n, P):
                raise SizeError("the point lies on the coset that the polynomials are evaluated from")
            widths = [len(run.columns) for run in runs]
            values = np.empty((sum(widths), points, 3), dtype=np.uint64)
            self._rows.evaluate_at([_cube(run.columns) for run in runs], _ext(point), points == 2, values)
            for run, found in zip(runs, np.split(values, np.cumsum(widths)[:-1]), strict=True):
                run.put(found)

    def _combine(self, matrices: Sequence[Array], weights: Words) -> Array:
        out = self._empty((3, matrices[0].shape[2]), np.uint64)
        self._rows.combine([_cube(m) for m in matrices], _host(weights, "weights"), out)
        return out

    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...], out: Array | None) -> Array:
        if out is None:
            out = self._empty(shape, np.uint64)
            out[...] = 0
        groups: list[list[Words]] = []
        openings = []
        for i, p in enumerate(points):
            same = i > 0 and [id(m) for m in p.matrices] == [id(m) for m in points[i - 1].matrices]
            if not same:
                groups.append([_cube(m) for m in p.matrices])
            weights = ext_scale_all(p.weights, p.factor)
            openings.append((len(groups) - 1, _ext(p.point), _host(weights, "weights"), _ext(p.value)))
        self._rows.deep(groups, openings, out)
        return out

    def _fold(self, codeword: Array, log_arity: int, beta: Ext, add: Array | None) -> Array:
        if log_arity > MAX_LOG_ARITY:
            raise SizeError(f"a fold by 2^{log_arity}; the kernels fold by at most 2^{MAX_LOG_ARITY}")
        _, blowup, n = codeword.shape
        out = self._empty((3, blowup, n >> log_arity), np.uint64)
        added = None if add is None else _cube(add)
        self._rows.fold(_cube(codeword), log_arity, _ext(beta), added, out)
        return out

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


def _cube(array: Array) -> Words:
    """Return a matrix (width, n) or (width, C, n) as a contiguous (width, C, n) array."""
    return np.ascontiguousarray(array[:, None] if array.ndim == 2 else array)


def _host(array: Words, what: str) -> Words:
    if array.dtype != np.uint64 or not bool((array < np.uint64(P)).all()):
        raise SizeError(f"{what} must be canonical field elements in an array of uint64")
    return np.ascontiguousarray(array)


def _ext(element: Ext) -> Words:
    if len(element) != 3 or not all(0 <= c < P for c in element):
        raise SizeError("an extension element is three canonical field elements")
    return np.array(element, dtype=np.uint64)
