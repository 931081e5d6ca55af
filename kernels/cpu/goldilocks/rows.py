"""The row-by-row part of `kernels.interface.goldilocks.GoldilocksKernels` on the CPU: row programs, openings, FRI
folds."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.interface.goldilocks import DeepPoint, Words, opened_columns
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import GENERATOR, TWO_ADICITY, Ext, P
from kernels.maths.goldilocks_extension import ext_scale_all

MAX_LOG_ARITY = 6
"""log2 of the largest arity of a fold, which keeps 2^6 values of a row at once."""


class CpuRows:
    """The row-by-row kernels on the threads of a pool. Results are the same for any number of threads.

    `native` is the extension module, `pool` its `Pool`. `kernels` is one of the inner loops of `native.row_kernels()`;
    None is the fastest that runs on this CPU. Arrays that are not contiguous are copied.
    """

    def __init__(self, native: Any, pool: Any, kernels: str | None = None) -> None:
        self._row_code = native.RowCode
        self._rows = native.Rows(pool, kernels or native.row_kernels()[-1])
        self._prepared: dict[int, Any] = {}

    def selectors(self, log_n: int, log_blowup: int, log_cosets: int) -> Array:
        if not (0 <= log_cosets <= log_blowup and 0 <= log_n <= TWO_ADICITY - log_blowup):
            raise SizeError(f"no selectors for 2^{log_n} rows, blow-up 2^{log_blowup}, 2^{log_cosets} cosets")
        out = np.empty((3, 1 << log_cosets, 1 << log_n), dtype=np.uint64)
        self._rows.selectors(log_n, log_blowup, log_cosets, out)
        return out

    def evaluate(
        self,
        program: RowProgram,
        inputs: Sequence[Array | None],
        scalars: Words,
        *,
        log_cosets: int = 0,
        coset_factors: Words | None = None,
    ) -> Array:
        if len(inputs) != len(program.widths):
            raise SizeError(f"a program over {len(program.widths)} matrices was given {len(inputs)}")
        cubes = [_cube(m, f"input {i}") for i, m in enumerate(inputs) if m is not None]
        if not cubes:
            raise SizeError("a program needs at least one matrix: it says how many rows there are")
        cosets, n = 1 << log_cosets, cubes[0].shape[2]
        arrays = [np.empty((0, cosets, n), dtype=np.uint64) if m is None else _cube(m, "input") for m in inputs]
        for i, (array, width) in enumerate(zip(arrays, program.widths, strict=True)):
            if array.shape[0] != width or array.shape[2] != n or array.shape[1] % cosets:
                raise SizeError(f"input {i} has shape {array.shape}, not ({width}, a multiple of {cosets}, {n})")
        if scalars.shape != (program.scalars, 3):
            raise SizeError(f"a program with {program.scalars} scalars was given {scalars.shape}")
        if coset_factors is not None and coset_factors.shape != (cosets,):
            raise SizeError(f"{cosets} cosets need as many factors, not {coset_factors.shape}")
        out = np.empty((program.output_columns, cosets, n), dtype=np.uint64)
        factors = None if coset_factors is None else _host(coset_factors, "coset factors")
        self._rows.evaluate(self._prepare(program), arrays, _host(scalars, "scalars"), factors, out)
        return out

    def divide(self, numerators: Array, denominators: Array) -> Array:
        a, b = _vectors(numerators, "numerators"), _vectors(denominators, "denominators")
        if a.shape != b.shape:
            raise SizeError(f"numerators {a.shape} and denominators {b.shape} differ in shape")
        out = np.empty_like(a)
        self._rows.divide(a, b, out)
        return out

    def running_sum(self, terms: Array) -> tuple[Array, Ext]:
        terms = _vectors(terms, "terms")
        sums, total = np.empty((3, terms.shape[1]), dtype=np.uint64), np.empty(3, dtype=np.uint64)
        self._rows.running_sum(terms, sums, total)
        return sums, (int(total[0]), int(total[1]), int(total[2]))

    def evaluate_at(
        self, matrices: Sequence[Array], point: Ext, *, next_row: Sequence[Sequence[int]] | None = None
    ) -> list[Words]:
        result, opened = opened_columns([_cube(m, f"matrix {i}") for i, m in enumerate(matrices)], next_row)
        for (n, points), runs in opened.items():
            if point[1:] == (0, 0) and pow(point[0], n, P) == pow(GENERATOR, n, P):
                raise SizeError("the point lies on the coset that the polynomials are evaluated from")
            widths = [len(run.columns) for run in runs]
            values = np.empty((sum(widths), points, 3), dtype=np.uint64)
            self._rows.evaluate_at([run.columns for run in runs], _ext(point), points == 2, values)
            for run, found in zip(runs, np.split(values, np.cumsum(widths)[:-1]), strict=True):
                run.put(found)
        return result

    def combine(self, matrices: Sequence[Array], weights: Words) -> Array:
        cubes = [_cube(m, "matrix") for m in matrices]
        if len({m.shape[2] for m in cubes}) != 1:
            raise SizeError(f"columns of one height were expected, not of shapes {[m.shape for m in cubes]}")
        width = sum(m.shape[0] for m in cubes)
        if weights.shape != (width, 3):
            raise SizeError(f"{width} columns need as many weights, not {weights.shape}")
        out = np.empty((3, cubes[0].shape[2]), dtype=np.uint64)
        self._rows.combine(cubes, _host(weights, "weights"), out)
        return out

    def deep(self, points: Sequence[DeepPoint], out: Array | None = None) -> Array:
        shapes = {tuple(m.shape[1:]) for p in points for m in p.matrices}
        if len(shapes) != 1:
            raise SizeError(f"openings of one height were expected, not of shapes {sorted(shapes)}")
        shape = (3, *shapes.pop())
        if out is None:
            out = np.zeros(shape, dtype=np.uint64)
        elif out.shape != shape or out.dtype != np.uint64 or not out.flags.c_contiguous:
            raise SizeError(f"the result is a contiguous {shape} array of uint64, not {out.shape} {out.dtype}")
        groups: list[list[Words]] = []
        openings = []
        for i, p in enumerate(points):
            same = i > 0 and [id(m) for m in p.matrices] == [id(m) for m in points[i - 1].matrices]
            if not same:
                groups.append([_cube(m, "matrix") for m in p.matrices])
            width = sum(m.shape[0] for m in p.matrices)
            if p.weights.shape != (width, 3):
                raise SizeError(f"{width} columns need as many weights, not {p.weights.shape}")
            weights = ext_scale_all(p.weights, p.factor)
            openings.append((len(groups) - 1, _ext(p.point), _host(weights, "weights"), _ext(p.value)))
        self._rows.deep(groups, openings, out)
        return out

    def fold(self, codeword: Array, log_arity: int, beta: Ext, *, add: Array | None = None) -> Array:
        codeword = _cube(codeword, "codeword")
        columns, blowup, n = codeword.shape
        if columns != 3 or not 0 <= log_arity <= MAX_LOG_ARITY or n >> log_arity == 0:
            raise SizeError(f"a codeword {codeword.shape} cannot be folded by 2^{log_arity}")
        out = np.empty((3, blowup, n >> log_arity), dtype=np.uint64)
        if add is not None:
            add = _cube(add, "add")
            if add.shape != out.shape:
                raise SizeError(f"what is added to a fold {out.shape} has another shape: {add.shape}")
        self._rows.fold(codeword, log_arity, _ext(beta), add, out)
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


def _cube(array: Array, what: str) -> Words:
    """Return a matrix (width, n) or (width, C, n) as a contiguous (width, C, n) array. Raises SizeError."""
    if array.dtype != np.uint64 or array.ndim not in (2, 3):
        raise SizeError(f"{what}: a (width, n) or (width, cosets, n) array of uint64, not {array.shape} {array.dtype}")
    cube = array[:, None] if array.ndim == 2 else array
    if 0 in cube.shape[1:] or any(not _is_power_of_two(m) for m in cube.shape[1:]):
        raise SizeError(f"{what}: rows and cosets must be powers of two, not {array.shape}")
    if cube.shape[1] * cube.shape[2] > 1 << TWO_ADICITY:
        raise SizeError(f"{what}: at most 2^{TWO_ADICITY} points, not {array.shape}")
    return np.ascontiguousarray(cube)


def _vectors(array: Array, what: str) -> Words:
    """Return extension vectors (3 m, n), n a power of two, as a contiguous array. Raises SizeError."""
    if array.dtype != np.uint64 or array.ndim != 2 or array.shape[0] % 3 or not _is_power_of_two(array.shape[1]):
        raise SizeError(f"{what}: a (3 m, n) array of uint64, n a power of two, not {array.shape} {array.dtype}")
    return np.ascontiguousarray(array)


def _host(array: Words, what: str) -> Words:
    if array.dtype != np.uint64 or not bool((array < np.uint64(P)).all()):
        raise SizeError(f"{what} must be canonical field elements in an array of uint64")
    return np.ascontiguousarray(array)


def _ext(element: Ext) -> Words:
    if len(element) != 3 or not all(0 <= c < P for c in element):
        raise SizeError("an extension element is three canonical field elements")
    return np.array(element, dtype=np.uint64)


def _is_power_of_two(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0
