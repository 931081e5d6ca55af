"""The CPU implementation of `kernels.interface.multilinear.MultilinearKernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels.interface.arrays import Array, Empty
from kernels.interface.multilinear import MultilinearKernels, Words
from kernels.maths.goldilocks import P, root_of_unity

_NONE = np.empty(0, dtype=np.uint64)


class CpuMultilinear(MultilinearKernels):
    """The multilinear kernels on a pool of threads of the extension module `native`."""

    def __init__(
        self,
        native: Any,
        pool: Any,
        empty: Empty = np.empty,
        zeros: Empty = np.zeros,
        *,
        instruction_set: str | None = None,
    ) -> None:
        self._native, self._pool, self._new, self._new_zeros = native, pool, empty, zeros
        self._set: str = instruction_set or native.gl_instruction_sets()[-1]

    def _encode(self, coefficients: Array, log_blowup: int) -> Array:
        width, n = coefficients.shape
        log_n = n.bit_length() - 1
        step = root_of_unity(log_n + log_blowup)
        shifts = np.array([pow(step, k, P) for k in range(1 << log_blowup)], dtype=np.uint64)
        out = self._empty((width, 1 << log_blowup, n))
        self._native.gl_encode(
            self._pool, self._set, _flat(coefficients), log_n, root_of_unity(log_n), shifts, out.reshape(-1)
        )
        return out

    def _apply_runs(self, columns: Array, matrix: Words) -> Array:
        rows, size = matrix.shape
        out = self._empty((columns.shape[0], columns.shape[1] // size * rows))
        self._native.gl_apply_runs(self._pool, _flat(columns), size, _flat(matrix), out.reshape(-1))
        return out

    def _bind_runs(self, columns: Array, weights: Words) -> Array:
        return np.ascontiguousarray(self._apply_runs(columns, np.ascontiguousarray(weights.T)).reshape(-1, 3).T)

    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        out = np.empty((3 * len(weights), size), dtype=np.uint64)
        self._native.gl_sum_runs(self._pool, _flat(columns), size, _flat(weights), out.reshape(-1))
        return np.ascontiguousarray(np.moveaxis(out.reshape(-1, 3, size), 1, 2))

    def _run(self, step: str, items: int, arguments: Any) -> None:
        self._native.gl_step(self._pool, step, arguments.tobytes(), items, 0, _NONE)

    def _run_sum(self, step: str, items: int, log_classes: int, arguments: Any, out: Array) -> None:
        self._native.gl_step(self._pool, step, arguments.tobytes(), items, log_classes, out.reshape(-1))

    def _empty(self, shape: tuple[int, ...]) -> Array:
        return self._new(shape, np.uint64)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return self._new_zeros(shape, np.uint64)

    def _address(self, array: Array) -> int:
        assert array.flags.c_contiguous, "a step walks arrays by their shape"
        return int(array.ctypes.data)

    def _upload(self, host: Words) -> Array:
        return np.ascontiguousarray(host)

    def _download(self, array: Array) -> Words:
        return np.asarray(array)

    def _join(self, arrays: Sequence[Array], out: Array) -> None:
        flat, at = out.reshape(-1), 0
        for array in arrays:
            flat[at : at + array.size] = array.reshape(-1)
            at += array.size
        flat[at:] = 0


def _flat(array: Words) -> Words:
    return np.ascontiguousarray(array).reshape(-1)
