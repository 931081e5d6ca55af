"""Openings, DEEP and FRI on CUDA: what `GoldilocksKernels` computes after the quotient. The kernels are in
`cuda/src/gl_openings.cu`, that of FRI's fold in `gl_rows.cu`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kernels.cuda.device import ByValue, Device, grid_for, layout
from kernels.cuda.goldilocks.root_powers import RootPowers, log2
from kernels.cuda.goldilocks.rows import CHUNK, ROWS
from kernels.errors import SizeError
from kernels.interface.arrays import Array, HostArray
from kernels.interface.goldilocks import DeepPoint, OpenedColumns, OpenedRuns, Words
from kernels.maths.goldilocks import GENERATOR, Ext, P, root_of_unity
from kernels.maths.goldilocks_extension import ext_add, ext_mul, ext_pow, ext_scale, ext_scale_all, ext_sub
from kernels.source import KernelSource

OPENINGS = KernelSource("gl_openings")

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

_COLUMNS = np.dtype(
    [("base", "<u8", MATRICES), ("stride", "<u8", MATRICES), ("first", "<u4", MATRICES + 1), ("count", "<u4")]
)
_DEEP = layout(
    (("u8", (MATRICES,)), "base"),
    (("u4", (MATRICES,)), "width flush"),
    (("u8", (MATRICES, 2, 3)), "scale"),
    (("u8", (2, 3)), "point value"),
    ("u4", "matrices points log_n log_blowup add unused"),
)
"""The layouts of `struct Columns` and `struct Deep` in gl_openings.cu."""


class CudaDeepFri:
    """Openings, DEEP and FRI's fold on one device."""

    def __init__(self, device: Device, powers: RootPowers) -> None:
        self._device = device
        self._powers = powers

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
        powers = self._powers.of(log2(n))
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

    def _combine(self, matrices: Sequence[Array], weights: Words, out: Array | None) -> Array:
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
        out = self._device.empty((3, n)) if out is None else out
        partial = out[None] if sum(chunks) == 1 else self._device.empty((sum(chunks), 3, n))
        on_device = self._device.upload(weights)
        sizes = np.uint64(n), np.uint32(per_chunk)
        done = begin = 0
        for part, width, count in zip(parts, widths, chunks, strict=True):
            here, columns = on_device[begin : begin + width], ByValue(self._columns(part))
            kernel.launch((blocks, count), COMBINE_BLOCK, (columns, here, partial[done : done + count], *sizes))
            done, begin = done + count, begin + width
        if done == 1:
            return out
        finish = self._device.kernel(OPENINGS, "gl_combine_finish")
        finish.launch_items(3 * n, (partial, out, np.uint64(3 * n), np.uint32(done)))
        return out

    def _deep(self, points: Sequence[DeepPoint], shape: tuple[int, ...]) -> Array:
        """Combine matrices at one or two points by each launch. If the weights at both points are the same but for
        `DeepPoint.factor`, the second point costs next to nothing."""
        out = self._device.empty(shape)
        if shape[1] * shape[2] < DEEP_ROWS:
            return self._deep_of_one_row(points, out)
        for number, job in enumerate(_jobs(points)):
            self._launch_deep(job, out, add=number > 0)
        return out

    def _deep_of_one_row(self, points: Sequence[DeepPoint], out: Array) -> Array:
        """Combine one row on one coset as the first of two, at 7 and -7: the kernel takes at least two."""
        doubled = [replace(p, matrices=tuple(self._doubled(m) for m in p.matrices)) for p in points]
        out[...] = self._deep(doubled, (3, 1, 2))[:, :, :1]
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
        packed["log_n"], packed["log_blowup"], packed["add"] = log2(n), log2(blowup), add
        kernel = self._device.kernel(OPENINGS, f"gl_deep_{job.weights.shape[1]}")
        powers = self._powers.of(log2(n) + log2(blowup), first=GENERATOR)
        grid = grid_for(blowup * n, DEEP_BLOCK * DEEP_ROWS)
        kernel.launch(grid, DEEP_BLOCK, (ByValue(packed), self._device.upload(job.weights), *powers, out))

    # -- FRI ------------------------------------------------------------------------------------------------------

    def _fold(self, codeword: Array, log_arity: int, beta: Ext, add: Array | None) -> Array:
        if not 1 <= log_arity <= MAX_LOG_ARITY:
            raise SizeError(f"a fold by 2^{log_arity}; the kernels fold by 2 to 2^{MAX_LOG_ARITY}")
        blowup, n = int(codeword.shape[1]), int(codeword.shape[2])
        log_n, log_blowup = log2(n), log2(blowup)
        out = self._device.empty((3, blowup, n >> log_arity))
        betas: list[int] = []
        for _ in range(log_arity + 1):
            betas += beta
            beta = ext_mul(beta, beta)
        step = np.zeros((17,), dtype=np.uint64)  # struct FoldStep
        step[:5] = _fold_constants(log_arity)
        step[5 : 5 + len(betas)] = betas
        rows = blowup * n >> log_arity
        inverses = self._powers.of(log_n + log_blowup, inverse=True)
        sizes = (np.uint64(rows), np.uint32(log_n), np.uint32(log_blowup))
        kernel = self._device.kernel(ROWS, f"gl_fold_{1 << log_arity}")
        kernel.launch_items(rows, (codeword, add, out, *inverses, *sizes, ByValue(step)))
        return out


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


@lru_cache(MAX_LOG_ARITY)
def _fold_constants(log_arity: int) -> list[int]:
    """Return the constants of `struct FoldStep`: 1 / arity, and w^-t for t < 4, w of order arity."""
    root = pow(root_of_unity(log_arity), -1, P)
    return [pow(1 << log_arity, -1, P), *(pow(root, t, P) for t in range(4))]


def _by_value(element: Ext) -> ByValue:
    return ByValue(np.array(element, dtype=np.uint64))
