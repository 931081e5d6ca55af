"""The CPU implementation of `kernels.interface.multilinear.MultilinearKernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.interface.arrays import Array, Empty
from kernels.interface.multilinear import MultilinearKernels, Words
from kernels.maths.goldilocks import P, root_of_unity


class CpuMultilinear(MultilinearKernels):
    """The multilinear kernels on a pool of threads of the extension module `native`."""

    def __init__(self, native: Any, pool: Any, empty: Empty = np.empty, *, instruction_set: str | None = None) -> None:
        self._native, self._pool, self._empty = native, pool, empty
        self._set: str = instruction_set or native.gl_instruction_sets()[-1]

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        width, n = coefficients.shape
        log_n = n.bit_length() - 1
        step = root_of_unity(log_n + log_blowup)
        shifts = np.array([pow(step, k, P) for k in range(1 << log_blowup)], dtype=np.uint64)
        out = self._empty((width, 1 << log_blowup, n), np.uint64)
        self._native.gl_encode(
            self._pool, self._set, _flat(coefficients), log_n, root_of_unity(log_n), shifts, out.reshape(-1)
        )
        return out

    def _apply_runs(self, columns: Array, matrix: Words) -> Array:
        rows, size = matrix.shape
        out = self._empty((columns.shape[0], columns.shape[1] // size * rows), np.uint64)
        self._native.gl_apply_runs(self._pool, _flat(columns), size, _flat(matrix), out.reshape(-1))
        return out

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        out = np.empty((weights.shape[0], size), dtype=np.uint64)
        self._native.gl_sum_runs(self._pool, _flat(columns), size, _flat(weights), out.reshape(-1))
        return out


def _flat(array: Words) -> Words:
    return np.ascontiguousarray(array).reshape(-1)
