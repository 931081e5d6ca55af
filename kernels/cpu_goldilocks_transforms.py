"""The CPU's part of `kernels.goldilocks.GoldilocksKernels` that transforms and hashes: extensions, trees, grinding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.backend import Array, SizeError
from kernels.goldilocks import Bytes, TreeOpening, Words
from kernels.goldilocks_field import TWO_ADICITY, P

Indices = NDArray[np.int64]


class CpuTransforms:
    """Computes on a pool's threads; results are the same for any number of them."""

    def __init__(self, native: Any, pool: Any) -> None:
        self._native = native
        self._pool = pool

    # -- elementwise ---------------------------------------------------------------

    def add(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_add, a, b)

    def sub(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_sub, a, b)

    def mul(self, a: Array, b: Array) -> Array:
        return self._elementwise(self._native.gl_mul, a, b)

    def _elementwise(self, op: Any, a: Array, b: Array) -> Array:
        if a.dtype != np.uint64 or b.dtype != np.uint64 or b.shape not in (a.shape, (1,)):
            raise SizeError(f"operands {a.shape} {a.dtype} and {b.shape} {b.dtype}: uint64 of one shape, or b a scalar")
        out = np.empty(a.shape, dtype=np.uint64)
        op(self._pool, np.ascontiguousarray(a), np.ascontiguousarray(b), out)
        return out

    # -- extensions ---------------------------------------------------------------

    def lde(self, columns: Array, log_blowup: int, *, coset: int = 1, out: Array | None = None) -> Array:
        if columns.ndim != 2 or columns.dtype != np.uint64:
            raise SizeError(f"columns have shape (width, n) and dtype uint64, not {columns.shape} {columns.dtype}")
        width, n = columns.shape
        log_n = n.bit_length() - 1
        if n != 1 << log_n or log_blowup < 0 or log_n + log_blowup > TWO_ADICITY:
            raise SizeError(f"{n} rows with blow-up 2^{log_blowup}: both powers of two, up to 2^{TWO_ADICITY} in all")
        if not 0 < coset < P:
            raise SizeError("a coset's shift is a field element that is not zero")
        shape = (width, 1 << log_blowup, n)
        target = np.empty(shape, dtype=np.uint64) if out is None else out
        if target.shape != shape or target.dtype != np.uint64 or not target.flags.c_contiguous:
            raise SizeError(f"out must be a contiguous uint64 array of shape {shape}, not {target.shape}")
        self._native.gl_lde(self._pool, np.ascontiguousarray(columns), target, log_n, log_blowup, coset)
        return target

    # -- commitments ---------------------------------------------------------------

    def commit(self, matrices: Sequence[Array], *, log_arity: int = 0, log_cap: int = 0) -> CpuTree:
        return CpuTree(self._native, self._pool, [_cube(m) for m in matrices], log_arity, log_cap)

    def grind(self, seed: bytes, bits: int) -> int:
        return int(self._native.gl_grind(self._pool, np.frombuffer(seed, dtype=np.uint8), bits))


class CpuTree:
    """A tree with all its levels in memory; each level lies as an extension does, coset by coset, while it can."""

    def __init__(self, native: Any, pool: Any, matrices: list[Words], log_arity: int, log_cap: int) -> None:
        if not matrices or (log_arity and len(matrices) != 1):
            raise SizeError("a tree is over at least one matrix, and over one only when its leaves hold several rows")
        self._cosets = matrices[0].shape[1]
        self._matrices = matrices
        self._arity = 1 << log_arity
        rows = [m.shape[2] >> log_arity for m in matrices]
        for m, r in zip(matrices, rows, strict=True):
            if m.shape[1] != self._cosets or r << log_arity != m.shape[2] or m.shape[2] & (m.shape[2] - 1) or r == 0:
                raise SizeError(f"a matrix of shape {m.shape} does not fit a tree of {self._cosets} cosets")
        self._rows = rows
        size = max(rows) * self._cosets
        self._levels = [self._leaves(native, pool, size)]
        while size > 1:
            injected = [self._leaves(native, pool, size // 2)] if size // 2 in self._sizes else []
            groups = self._cosets if size > self._cosets else 1
            level = np.empty((size // 2, 4), dtype=np.uint64)
            native.gl_level(pool, self._levels[-1], injected, level, groups)
            self._levels.append(level)
            size //= 2
        self._log_cap = min(log_cap, len(self._levels) - 1)

    @property
    def _sizes(self) -> set[int]:
        return {r * self._cosets for r in self._rows}

    def _leaves(self, native: Any, pool: Any, size: int) -> Words:
        here = [m for m, r in zip(self._matrices, self._rows, strict=True) if r * self._cosets == size]
        out = np.empty((size, 4), dtype=np.uint64)
        native.gl_leaves(pool, here, self._cosets, size // self._cosets, self._arity, out)
        return out

    @property
    def root(self) -> bytes:
        return self._levels[-1].tobytes()

    @property
    def cap(self) -> Bytes:
        level = self._levels[len(self._levels) - 1 - self._log_cap]
        order = self._positions(np.arange(len(level)), len(level))
        return np.ascontiguousarray(level[order]).view(np.uint8)

    def open(self, indices: Sequence[int]) -> TreeOpening:
        at = np.array(indices, dtype=np.int64)
        opened = []
        for m, r in zip(self._matrices, self._rows, strict=True):
            local = at % (r * self._cosets)
            k, j = local % self._cosets, local // self._cosets
            parts = [m[:, k, t * r + j].T for t in range(self._arity)]
            opened.append(np.ascontiguousarray(np.concatenate(parts, axis=1)))
        depth = len(self._levels) - 1 - self._log_cap
        path = np.empty((len(at), depth, 32), dtype=np.uint8)
        for level in range(depth):
            size = len(self._levels[level])
            sibling = (at % size + size // 2) % size
            path[:, level] = self._levels[level][self._positions(sibling, size)].view(np.uint8)
        return TreeOpening(tuple(opened), path)

    def _positions(self, indices: Indices, size: int) -> Indices:
        """Where nodes lie: coset by coset as long as a level has several rows in each."""
        if size <= self._cosets:
            return indices
        at: Indices = indices % self._cosets * (size // self._cosets) + indices // self._cosets
        return at


def _cube(matrix: Array) -> Words:
    if matrix.ndim != 3 or matrix.dtype != np.uint64:
        raise SizeError(f"an extension has shape (width, B, n) and dtype uint64, not {matrix.shape} {matrix.dtype}")
    return np.ascontiguousarray(matrix)
