"""Goldilocks on CUDA, row by row: the pointwise operations, scans and sums over rows of `GoldilocksKernels`.

Row programs are compiled one by one (`kernels.cuda.goldilocks.row_program`); the other kernels are in
`cuda/src/gl_rows.cu`,
`gl_scan.cu` and `gl_openings.cu`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kernels.cuda.device import ByValue, Device, Stream, check_index32, grid_for, parallel
from kernels.cuda.goldilocks.row_program import BLOCK, KERNEL, MAX_COSETS, MAX_MATRICES, RowPlan, RowProfile
from kernels.errors import SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.goldilocks import DeepPoint, OpenedColumns, OpenedRuns, RowJob, Words
from kernels.interface.row_program import RowProgram
from kernels.maths.goldilocks import GENERATOR, Ext, P, root_of_unity
from kernels.maths.goldilocks_extension import ext_add, ext_mul, ext_pow, ext_scale, ext_scale_all, ext_sub
from kernels.source import KernelSource

ROWS, SCAN, OPENINGS = KernelSource("gl_rows"), KernelSource("gl_scan"), KernelSource("gl_openings")

CHUNK = 8
"""Elements that share an inversion. Must equal CHUNK in gl_rows.cu and gl_openings.cu."""
SCAN_TILE, SCAN_BLOCK = 8 * 32, 1024
"""Rows of a tile, and threads that add up the tiles. Must equal STEPS * 32 and BLOCK in gl_scan.cu."""
MATRICES = 32
"""Matrices, or runs of a matrix' columns, that one launch takes. Must equal MATRICES in gl_openings.cu."""
BLOCK_WARPS = 8
"""Warps of a block, each with two columns at one point or one column at two. Must equal that in gl_openings.cu."""
DEEP_BLOCK, DEEP_ROWS = 256, 2
"""Threads of a block and rows of a thread of `deep`. Must equal those in gl_openings.cu."""
COMBINE_BLOCK, COMBINE_ROWS = 256, 2
"""Threads of a block and rows of a thread of `combine`. Must equal those in gl_openings.cu."""
COMBINE_LEAST = 16
"""Fewest columns of a chunk when `combine` cuts the columns: each chunk's sum is written and read once more."""
OPEN_CHUNK = 512
"""Fewest rows of a chunk when an opening cuts a column: a warp's reduction costs as much as some 300 rows."""
MAX_LOG_ARITY = 3

_SHAPE = np.dtype(
    [
        ("rows", "<u8"),
        ("columns", "<u8", MAX_MATRICES),
        ("cosets", "<u8", MAX_MATRICES),
        ("factors", "<u8", MAX_COSETS),
        ("log_n", "<u4"),
        ("add", "<u4"),
    ]
)
_COLUMNS = np.dtype(
    [("base", "<u8", MATRICES), ("stride", "<u8", MATRICES), ("first", "<u4", MATRICES + 1), ("count", "<u4")]
)
_DEEP = np.dtype(
    [
        ("base", "<u8", MATRICES),
        ("width", "<u4", MATRICES),
        ("flush", "<u4", MATRICES),
        ("scale", "<u8", (MATRICES, 2, 3)),
        ("point", "<u8", (2, 3)),
        ("value", "<u8", (2, 3)),
        ("matrices", "<u4"),
        ("points", "<u4"),
        ("log_n", "<u4"),
        ("log_blowup", "<u4"),
        ("add", "<u4"),
        ("unused", "<u4"),
    ]
)
"""The layouts of `struct RowShape` in row_program.h, and of `struct Columns` and `struct Deep` in gl_openings.cu."""


@dataclass(frozen=True)
class _Powers:
    """A device table, in two levels, of first * w^i for every i below the order of w, a power of two."""

    table: Array
    log_low: int

    @property
    def arguments(self) -> tuple[Array, np.uint32]:
        return self.table, np.uint32(self.log_low)


@dataclass(frozen=True)
class _Evaluation:
    """A checked row program that is about to run."""

    job: RowJob
    plan: RowPlan
    shape: HostArray
    """The kernel's `struct RowShape`, of dtype `_SHAPE`."""
    out: Array


class CudaRows:
    """Selectors, row programs, extension quotients, running sums, openings, DEEP and FRI's fold on one device."""

    def __init__(self, device: Device, profile: RowProfile | None = None) -> None:
        """`profile` says how row programs are cut into kernels."""
        self._device = device
        self._profile = profile or RowProfile()
        self._powers: dict[tuple[int, int, bool], _Powers] = {}
        self._plans: dict[int, tuple[weakref.ref[RowProgram], RowPlan]] = {}

    def prepare_rows(self, programs: Iterable[RowProgram] = ()) -> None:
        """Begin to compile every kernel in the background, including those of `programs`."""
        for source in (ROWS, SCAN, OPENINGS):
            self._device.prepare(source)
        for program in programs:
            self._plan(program)

    # -- row by row -------------------------------------------------------------------------------------------------

    def _selectors(self, log_n: int, log_cosets: int) -> Array:
        cosets, n = _few_cosets(1 << log_cosets), 1 << log_n
        shifts = [
            GENERATOR * pow(root_of_unity(log_n + log_cosets), k, P) % P for k in range(cosets)
        ]  # k B/D steps of w_{Bn}
        tables = np.zeros((2, MAX_COSETS), dtype=np.uint64)
        tables[0, :cosets] = shifts
        tables[1, :cosets] = [(pow(s, n, P) - 1) % P for s in shifts]
        out = self._device.empty((3, cosets, n))
        root = root_of_unity(log_n)
        rows, count = cosets * n, -(-cosets * n // CHUNK)
        arguments = (
            out,
            *self._powers_of(log_n).arguments,
            np.uint64(rows),
            np.uint64(count),
            np.uint32(log_n),
            np.uint64(root),
            np.uint64(pow(root, -1, P)),
            ByValue(tables),
        )
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
        shape["rows"], shape["log_n"] = cosets * n, _log2(n)
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
        arguments = (numerators, denominators, out, np.uint64(total), np.uint64(count), np.uint32(_log2(n)))
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
        return s, _ext(total.result())

    def _count(self, rows: Array, times: Array, counts: Array) -> None:
        n, m = int(rows.shape[0]), int(counts.shape[0])
        self._device.kernel(ROWS, "gl_count").launch_items(n, (rows, times, counts, np.uint64(n), np.uint64(m)))

    def _fold(self, codeword: Array, log_arity: int, beta: Ext, add: Array | None) -> Array:
        if not 1 <= log_arity <= MAX_LOG_ARITY:
            raise SizeError(f"a fold by 2^{log_arity}; the kernels fold by 2 to 2^{MAX_LOG_ARITY}")
        blowup, n = int(codeword.shape[1]), int(codeword.shape[2])
        log_n, log_blowup = _log2(n), _log2(blowup)
        out = self._device.empty((3, blowup, n >> log_arity))
        betas: list[int] = []
        for _ in range(log_arity + 1):
            betas += beta
            beta = ext_mul(beta, beta)
        step = np.zeros((17,), dtype=np.uint64)  # struct FoldStep
        step[:5] = _fold_constants(log_arity)
        step[5 : 5 + len(betas)] = betas
        rows = blowup * n >> log_arity
        inverses = self._powers_of(log_n + log_blowup, inverse=True).arguments
        sizes = (np.uint64(rows), np.uint32(log_n), np.uint32(log_blowup))
        kernel = self._device.kernel(ROWS, f"gl_fold_{1 << log_arity}")
        kernel.launch_items(rows, (codeword, add, out, *inverses, *sizes, ByValue(step)))
        return out

    # -- openings ---------------------------------------------------------------------------------------------------

    def _evaluate_at(self, opened: OpenedRuns, point: Ext) -> None:
        """Waits for the device, once."""
        if not opened:
            return
        y = ext_scale(point, pow(GENERATOR, -1, P))
        weights = {n: self._opening_weights(n, y) for n in sorted({n for n, _ in opened})}
        values = self._device.empty((sum(out.size for runs in opened.values() for run in runs for out in run.outs),))
        parts: list[tuple[list[OpenedColumns], tuple[int, int, int]]] = []
        done = 0
        for (n, points), runs in opened.items():
            for begin in range(0, len(runs), MATRICES):
                part = runs[begin : begin + MATRICES]
                shape = (sum(int(run.columns.shape[0]) for run in part), points, 3)
                words = math.prod(shape)
                self._open([run.columns for run in part], *weights[n], values[done : done + words].reshape(shape))
                parts.append((part, shape))
                done += words
        fetched = self._device.fetch(values).result()
        for part, shape in parts:
            found, fetched = fetched[: math.prod(shape)].reshape(shape), fetched[math.prod(shape) :]
            for run in part:
                run.put(found[: len(run.outs[0])])
                found = found[len(run.outs[0]) :]

    def _opening_weights(self, n: int, y: Ext) -> tuple[Array, Ext]:
        """Return W_j = w^j / (y - w^j) for j < n, (3, n), and the factor for sums weighted by it."""
        weights = self._device.empty((3, n))
        count = -(-n // CHUNK)
        kernel = self._device.kernel(OPENINGS, "gl_open_weights")
        powers = self._powers_of(_log2(n)).arguments
        kernel.launch_items(count, (weights, *powers, np.uint64(n), np.uint64(count), _by_value(y)))
        return weights, ext_scale(ext_sub(ext_pow(y, n), (1, 0, 0)), pow(n, -1, P))

    def _open(self, matrices: Sequence[Array], weights: Array, scale: Ext, values: Array) -> None:
        """Write `values` (columns, points, 3), the openings of at most MATRICES matrices."""
        n = int(matrices[0].shape[2])
        columns, points = int(values.shape[0]), int(values.shape[1])
        packed = self._columns(matrices)
        kernel = self._device.kernel(OPENINGS, f"gl_open_sums_{points}")
        per_block = BLOCK_WARPS * 2 // points
        groups = grid_for(columns, per_block)
        if groups > 65535:
            raise SizeError(f"{columns} columns opened at once; at most {65535 * per_block}")
        resident = kernel.blocks_per_sm(32 * BLOCK_WARPS) * self._device.sm_count
        chunks = max(1, min(n // OPEN_CHUNK, -(-4 * resident // groups)))
        partial = self._device.empty((columns, chunks, points, 3))
        kernel.launch((chunks, groups), (32, BLOCK_WARPS), (ByValue(packed), weights, partial, np.uint64(n)))
        items = columns * points
        sizes = (np.uint64(items), np.uint32(points), np.uint32(chunks))
        finish = self._device.kernel(OPENINGS, "gl_open_finish")
        finish.launch_items(32 * items, (partial, values, *sizes, _by_value(scale)))

    def _columns(self, matrices: Sequence[Array]) -> HostArray:
        """Return `_COLUMNS`, which says where the columns of at most MATRICES matrices (w, C, n) lie."""
        packed = np.zeros((), dtype=_COLUMNS)
        first = np.cumsum([0, *(int(m.shape[0]) for m in matrices)])
        packed["base"][: len(matrices)] = [self._device.address(m) for m in matrices]
        packed["stride"][: len(matrices)] = [m.shape[1] * m.shape[2] for m in matrices]
        packed["first"][: len(first)] = first
        packed["count"] = len(matrices)
        return packed

    def _combine(self, matrices: Sequence[Array], weights: Words) -> Array:
        """Cut columns into chunks until the device is busy, and add their sums."""
        n = int(matrices[0].shape[2])
        kernel = self._device.kernel(OPENINGS, "gl_combine")
        blocks = grid_for(n, COMBINE_BLOCK * COMBINE_ROWS)
        resident = kernel.blocks_per_sm(COMBINE_BLOCK) * self._device.sm_count
        per_chunk = max(COMBINE_LEAST, -(-len(weights) * blocks // (4 * resident)))
        present = [m for m in matrices if m.shape[0]]
        parts = [present[i : i + MATRICES] for i in range(0, len(present), MATRICES)]
        widths = [sum(int(m.shape[0]) for m in part) for part in parts]
        chunks = [-(-width // per_chunk) for width in widths]
        partial = self._device.empty((sum(chunks), 3, n))
        on_device = self._device.upload(weights)
        sizes = np.uint64(n), np.uint32(per_chunk)
        done = begin = 0
        for part, width, count in zip(parts, widths, chunks, strict=True):
            here, columns = on_device[begin : begin + width], ByValue(self._columns(part))
            kernel.launch((blocks, count), COMBINE_BLOCK, (columns, here, partial[done : done + count], *sizes))
            done, begin = done + count, begin + width
        if done == 1:
            return partial[0]
        out = self._device.empty((3, n))
        finish = self._device.kernel(OPENINGS, "gl_combine_finish")
        finish.launch_items(3 * n, (partial, out, np.uint64(3 * n), np.uint32(done)))
        return out

    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...], out: Array | None) -> Array:
        """Combine matrices at one or two points by each launch. If the weights at both points are the same but for
        `DeepPoint.factor`, the second point costs next to nothing."""
        result = self._device.empty(shape) if out is None else out
        if shape[1] * shape[2] < DEEP_ROWS:
            return self._deep_of_one_row(points, result, add=out is not None)
        add = out is not None
        for job in _jobs(points):
            self._launch_deep(job, result, add=add)
            add = True
        return result

    def _deep_of_one_row(self, points: Sequence[DeepPoint], out: Array, *, add: bool) -> Array:
        """Combine one row on one coset as the first of two, at 7 and -7: the kernel takes at least two."""
        doubled = [replace(p, matrices=tuple(self._doubled(m) for m in p.matrices)) for p in points]
        out[...] = self._deep(doubled, (3, 1, 2), self._doubled(out) if add else None)[:, :, :1]
        return out

    def _doubled(self, row: Array) -> Array:
        twice = self._device.empty((row.shape[0], 1, 2))
        twice[...] = row
        return twice

    def _launch_deep(self, job: _DeepJob, out: Array, *, add: bool) -> None:
        blowup, n = int(out.shape[1]), int(out.shape[2])
        count = len(job.matrices)
        packed = np.zeros((), dtype=_DEEP)
        packed["base"][:count] = [self._device.address(m) for m in job.matrices]
        packed["width"][:count] = [m.shape[0] for m in job.matrices]
        for m, scales in enumerate(job.scales):
            packed["scale"][m, : len(scales)] = scales
            packed["flush"][m] = m + 1 == count or job.scales[m + 1] != scales
        packed["point"][: len(job.points)] = job.points
        packed["value"][: len(job.points)] = job.values
        packed["matrices"], packed["points"] = count, len(job.points)
        packed["log_n"], packed["log_blowup"], packed["add"] = _log2(n), _log2(blowup), add
        kernel = self._device.kernel(OPENINGS, f"gl_deep_{job.weights.shape[1]}")
        powers = self._powers_of(_log2(n) + _log2(blowup), first=GENERATOR).arguments
        grid = grid_for(blowup * n, DEEP_BLOCK * DEEP_ROWS)
        kernel.launch(grid, DEEP_BLOCK, (ByValue(packed), self._device.upload(job.weights), *powers, out))

    # -- what is kept -----------------------------------------------------------------------------------------------

    def _plan(self, program: RowProgram) -> RowPlan:
        """Return the program's kernels, whose compilation has begun; kept as long as the program lives."""
        key = id(program)
        kept = self._plans.get(key)
        if kept is not None and kept[0]() is program:
            return kept[1]
        plan = RowPlan(program, self._profile)
        for kernel in plan.kernels:
            self._device.prepare(kernel.source)
        self._plans[key] = weakref.ref(program, lambda _: self._plans.pop(key, None)), plan
        return plan

    def _powers_of(self, log_order: int, *, first: int = 1, inverse: bool = False) -> _Powers:
        """Return powers of the 2^log_order-th root of unity, or its inverse, times `first`; kept from the first use."""
        key = log_order, first, inverse
        if key not in self._powers:
            root = root_of_unity(log_order)
            root = pow(root, -1, P) if inverse else root
            log_low = (log_order + 1) // 2
            low = _power_list(root, 1, log_low)
            high = _power_list(pow(root, 1 << log_low, P), first, log_order - log_low)
            table = np.array(low + high, dtype=np.uint64)
            self._powers[key] = _Powers(self._device.upload(table), log_low)
        return self._powers[key]


# -- DEEP's points, matched --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _DeepJob:
    """One launch of the DEEP kernel: at most MATRICES matrices at one or two points."""

    matrices: tuple[Array, ...]
    weights: HostArray
    """Weights (columns, sets, 3): one set that `scales` turns into each point's, or set p for each point p."""
    scales: tuple[tuple[Ext, ...], ...]
    """Factors of each matrix' weights at each point; empty if each point has its own set."""
    points: tuple[Ext, ...]
    values: tuple[Ext, ...]


@dataclass(frozen=True)
class _Use:
    """The use of one matrix at one point: the weights of its columns, all times `factor`."""

    weights: Words
    factor: Ext
    source: tuple[int, int]
    """The id of the array that the weights are part of, and their offset: equal for equal weights of one call."""


def _jobs(points: Sequence[DeepPoint]) -> list[_DeepJob]:
    """Return the launches for points of one height: matrices at the same point together, the points two by two."""
    columns: dict[Ext, list[tuple[Array, _Use]]] = {}
    values: dict[Ext, Ext] = {}
    for p in points:
        here = columns.setdefault(p.point, [])
        begin = 0
        for matrix in p.matrices:
            weights = p.weights[begin : begin + matrix.shape[0]]
            here.append((matrix, _Use(weights, p.factor, (id(p.weights), begin))))
            begin += matrix.shape[0]
        values[p.point] = ext_add(values.get(p.point, (0, 0, 0)), p.value)
    distinct = list(columns)
    jobs: list[_DeepJob] = []
    for i in range(0, len(distinct), 2):
        pair = distinct[i : i + 2]
        jobs += _pair_jobs([columns[p] for p in pair], pair, [values[p] for p in pair])
    return jobs


def _pair_jobs(
    columns: Sequence[list[tuple[Array, _Use]]], points: Sequence[Ext], values: Sequence[Ext]
) -> list[_DeepJob]:
    """Return the launches for one point or two, given the matrices and weights of each."""
    uses: list[tuple[Array, list[_Use | None]]] = []
    for p, here in enumerate(columns):
        for matrix, found in here:
            use = next((u for m, u in uses if m is matrix and u[p] is None), None)
            if use is None:
                use = [None] * len(points)
                uses.append((matrix, use))
            use[p] = found
    jobs = []
    for begin in range(0, len(uses), MATRICES):
        part = uses[begin : begin + MATRICES]
        if all(len({u.source for u in use if u is not None}) == 1 for _, use in part):
            sets = [next(u.weights for u in use if u is not None)[:, None] for _, use in part]
            scales = tuple(tuple((0, 0, 0) if u is None else u.factor for u in use) for _, use in part)
        else:
            sets = [np.stack([_scaled(u, m) for u in use], axis=1) for m, use in part]
            scales = ()
        subtracted = tuple((0, 0, 0) if begin else v for v in values)  # by the first launch only
        matrices = tuple(m for m, _ in part)
        jobs.append(_DeepJob(matrices, np.concatenate(sets), scales, tuple(points), subtracted))
    return jobs


def _scaled(use: _Use | None, matrix: Array) -> Words:
    """Return the weights of a matrix' columns at one point: (columns, 3), zero if the point does not use it."""
    if use is None:
        return np.zeros((matrix.shape[0], 3), dtype=np.uint64)
    return ext_scale_all(use.weights, use.factor)


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


def _log2(n: int) -> int:
    return n.bit_length() - 1


def _power_list(root: int, first: int, log_count: int) -> list[int]:
    values = [first]
    for _ in range((1 << log_count) - 1):
        values.append(values[-1] * root % P)
    return values


@lru_cache(MAX_LOG_ARITY)
def _fold_constants(log_arity: int) -> list[int]:
    """Return the constants of `struct FoldStep`: 1 / arity, and w^-t for t < 4, w of order arity."""
    root = pow(root_of_unity(log_arity), -1, P)
    return [pow(1 << log_arity, -1, P), *(pow(root, t, P) for t in range(4))]


def _ext(words: HostArray) -> Ext:
    return int(words[0]), int(words[1]), int(words[2])


def _by_value(element: Ext) -> ByValue:
    return ByValue(np.array(element, dtype=np.uint64))
