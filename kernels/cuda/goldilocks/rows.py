"""Goldilocks on CUDA, row by row: the pointwise operations and scans of `GoldilocksKernels`.

Row programs are compiled one by one (`kernels.cuda.goldilocks.row_program`); the other kernels are in
`cuda/src/gl_rows.cu` and `gl_scan.cu`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernels.cuda.device import ByValue, Device, Stream, check_index32, grid_for, layout, parallel
from kernels.cuda.goldilocks.kept_code import generated
from kernels.cuda.goldilocks.root_powers import RootPowers, log2
from kernels.cuda.goldilocks.row_program import BLOCK, KERNEL, MAX_COSETS, MAX_MATRICES, RowPlan, RowProfile
from kernels.errors import SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.goldilocks import RowJob
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import GENERATOR, Ext, P, root_of_unity
from kernels.maths.goldilocks_extension import ext_of
from kernels.source import KernelSource

ROWS, SCAN = KernelSource("gl_rows"), KernelSource("gl_scan")

CHUNK = 8
"""Elements that share an inversion. Must equal CHUNK in gl_rows.cu and gl_openings.cu."""
SCAN_TILE, SCAN_BLOCK = 8 * 32, 1024
"""Rows of a tile, and threads that add up the tiles. Must equal STEPS * 32 and BLOCK in gl_scan.cu."""

_SHAPE = layout(
    ("u8", "rows"),
    (("u8", (MAX_MATRICES,)), "columns cosets"),
    (("u8", (MAX_COSETS,)), "factors"),
    ("u4", "log_n add"),
)
"""The layout of `struct RowShape` in row_program.h."""


@dataclass(frozen=True)
class _Evaluation:
    """A checked row program that is about to run."""

    job: RowJob
    plan: RowPlan
    shape: HostArray
    """The kernel's `struct RowShape`, of dtype `_SHAPE`."""
    out: Array


class CudaRows:
    """Selectors, row programs, extension quotients and running sums on one device."""

    def __init__(self, device: Device, powers: RootPowers, profile: RowProfile | None = None) -> None:
        """`profile` says how row programs are cut into kernels."""
        self._device = device
        self._profile = profile or RowProfile()
        self._powers = powers
        self._plans: dict[int, tuple[weakref.ref[RowProgram], RowPlan]] = {}

    def _selectors(self, log_n: int, log_cosets: int) -> Array:
        cosets, n = _few_cosets(1 << log_cosets), 1 << log_n
        step = root_of_unity(log_n + log_cosets)  # B/D steps of w_{Bn}
        shifts = [GENERATOR * pow(step, k, P) % P for k in range(cosets)]
        tables = np.zeros((2, MAX_COSETS), dtype=np.uint64)
        tables[0, :cosets] = shifts
        tables[1, :cosets] = [(pow(s, n, P) - 1) % P for s in shifts]
        out = self._device.empty((3, cosets, n))
        root = root_of_unity(log_n)
        rows, count = cosets * n, -(-cosets * n // CHUNK)
        sizes = np.uint64(rows), np.uint64(count), np.uint32(log_n)
        roots = np.uint64(root), np.uint64(pow(root, -1, P))
        arguments = (out, *self._powers.of(log_n), *sizes, *roots, ByValue(tables))
        self._device.kernel(ROWS, "gl_selectors").launch_items(count, arguments)
        return out

    def _evaluate_all(self, jobs: Sequence[RowJob], rows: Sequence[int]) -> list[Array]:
        """Run the jobs on parallel streams. A program's kernels are compiled on its first use."""
        evaluations = [self._evaluation(job, n) for job, n in zip(jobs, rows, strict=True)]
        with parallel(self._device, len(jobs)) as streams:
            for evaluation, stream in zip(evaluations, streams, strict=True):
                self._evaluate(evaluation, stream)
        return [evaluation.out for evaluation in evaluations]

    def _evaluation(self, job: RowJob, n: int) -> _Evaluation:
        """Allocate the array for the outputs of `job`. Raises SizeError for more cosets than the kernels take."""
        plan, program, factors = self._plan(job.program), job.program, job.coset_factors
        cosets = _few_cosets(1 << job.log_cosets)
        shape = np.zeros((), dtype=_SHAPE)
        for i, matrix in enumerate(job.inputs):
            if matrix is not None:
                read = matrix.shape[1] if matrix.ndim == 3 else 1
                shape["columns"][i] = read * n
                shape["cosets"][i] = read // cosets * n
        shape["rows"], shape["log_n"] = cosets * n, log2(n)
        shape["factors"][:cosets] = 1 if factors is None else factors
        return _Evaluation(job, plan, shape, self._device.empty((program.output_columns, cosets, n)))

    def _evaluate(self, evaluation: _Evaluation, stream: Stream) -> None:
        job, plan, shape, out = evaluation.job, evaluation.plan, evaluation.shape, evaluation.out
        rows, by_value = int(out[0].size), ByValue(shape)
        words_of_all = plan.words(job.scalars, shape["columns"])
        for index, (kernel, words) in enumerate(zip(plan.kernels, words_of_all, strict=True)):
            if index == 1 and job.program.fold is not None:
                shape["add"] = 1
                by_value = ByValue(shape)
            run = self._device.kernel(kernel.source, KERNEL)
            block = run.block(limit=BLOCK)
            begin = out[kernel.first_column :] if kernel.first_column else out
            run.launch(grid_for(rows, block), block, (*job.inputs, begin, by_value, ByValue(words)), stream=stream)

    def _divide(self, numerators: Array, denominators: Array) -> Array:
        vectors, n = _vectors(numerators)
        out = self._device.empty(numerators.shape)
        total, count = vectors * n, -(-vectors * n // CHUNK)
        arguments = (numerators, denominators, out, np.uint64(total), np.uint64(count), np.uint32(log2(n)))
        self._device.kernel(ROWS, "gl_divide").launch_items(count, arguments)
        return out

    def _running_sum(self, terms: Array) -> tuple[Array, Ext]:
        """Waits for the device."""
        vectors, n = _vectors(terms)
        tiles = -(-n // SCAN_TILE)
        s, totals, whole = (self._device.empty(shape) for shape in ((3, n), (3, tiles), (3,)))
        tile_kernel = self._device.kernel(SCAN, "gl_scan_tiles")
        sizes = (np.uint64(n), np.uint64(tiles))
        tile_kernel.launch_items(32 * tiles, (terms, s, totals, np.uint32(vectors), *sizes))
        self._device.kernel(SCAN, "gl_scan_totals").launch(1, SCAN_BLOCK, (totals, whole, np.uint64(tiles)))
        total = self._device.fetch(whole)
        finish = self._device.kernel(SCAN, "gl_scan_finish")
        finish.launch_items(n, (s, totals, whole, *sizes, np.uint64(pow(n, -1, P))))
        return s, ext_of(total.result())

    def _count(self, rows: Array, times: Array, counts: Array) -> None:
        n, m = int(rows.shape[0]), int(counts.shape[0])
        self._device.kernel(ROWS, "gl_count").launch_items(n, (rows, times, counts, np.uint64(n), np.uint64(m)))

    def _plan(self, program: RowProgram) -> RowPlan:
        """Return the program's kernels, whose compilation has begun; kept as long as the program lives."""
        key = id(program)
        kept = self._plans.get(key)
        if kept is not None and kept[0]() is program:
            return kept[1]
        profile = self._profile
        told = profile.max_work, profile.blocks_per_sm
        plan = generated(RowPlan, program, told, lambda: RowPlan(program, profile))
        for kernel in plan.kernels:
            self._device.prepare(kernel.source)
        self._plans[key] = weakref.ref(program, lambda _: self._plans.pop(key, None)), plan
        return plan


# -- sizes and numbers -------------------------------------------------------------------------------------------------


def _vectors(columns: Array) -> tuple[int, int]:
    """Return the number of extension vectors m and of rows n of a (3 m, n) array. Raises SizeError for none."""
    if not columns.shape[0]:
        raise SizeError(f"an array of shape {columns.shape} does not hold extension vectors")
    check_index32("extension vectors", int(columns.shape[0]) // 3)
    return int(columns.shape[0]) // 3, int(columns.shape[1])


def _few_cosets(cosets: int) -> int:
    if cosets > MAX_COSETS:
        raise SizeError(f"{cosets} cosets; the kernels take at most {MAX_COSETS}")
    return cosets
