"""The interface of the multilinear engine's kernels, beside those of `kernels.interface.goldilocks`.

Elements, matrices (width, n) and extension vectors are those of that module. A *run* is 2^k neighbouring elements of a
column. A backend without this family is not refused: the engine does the same with other kernels, more slowly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface.arrays import Array
from kernels.maths.goldilocks import TWO_ADICITY

Words = NDArray[np.uint64]


class MultilinearKernels(ABC):
    """The multilinear kernels of one device. Arrays are in the backend's memory unless noted.

    The public methods check what they are given, once for every backend.
    """

    def encode(self, coefficients: Array, log_blowup: int) -> Array:
        """Return (w, B, n): the polynomials with coefficients (w, n) at w_{Bn}^k w_n^j for entry [c, k, j]."""
        _, n = _columns(coefficients)
        if log_blowup < 0 or n.bit_length() - 1 + log_blowup > TWO_ADICITY:
            raise SizeError(f"{n} coefficients with a blow-up of 2^{log_blowup}: there are 2^{TWO_ADICITY} roots of 1")
        return self._encode(coefficients, log_blowup)

    def apply_runs(self, columns: Array, matrix: Words) -> Array:
        """Apply `matrix` (r, 2^k), on the host, to each run of 2^k elements of columns (w, n): (w, n r / 2^k)."""
        _, n = _columns(columns)
        if matrix.ndim != 2 or n % matrix.shape[1]:
            raise SizeError(f"a matrix {matrix.shape} does not fit runs of columns {columns.shape}")
        return self._apply_runs(columns, matrix)

    def sum_runs(self, columns: Array, weights: Array, size: int) -> Words:
        """Return, on the host, (s, size): for each set of `weights` (s, w n / size) the sum of weight times run over
        all runs of `size` elements of columns (w, n)."""
        width, n = _columns(columns)
        if size < 1 or n % size or weights.ndim != 2 or weights.shape[1] != width * n // size:
            raise SizeError(f"weights {weights.shape} for runs of {size} of columns {columns.shape}")
        return self._sum_runs(columns, weights, size)

    @abstractmethod
    def _encode(self, coefficients: Array, log_blowup: int) -> Array: ...

    @abstractmethod
    def _apply_runs(self, columns: Array, matrix: Words) -> Array: ...

    @abstractmethod
    def _sum_runs(self, columns: Array, weights: Array, size: int) -> Words: ...


def _columns(array: Array) -> tuple[int, int]:
    if array.ndim != 2 or array.dtype != np.dtype(np.uint64) or not array.shape[0]:
        raise SizeError(f"columns (w, n) of uint64 were expected, not {array.shape} of {array.dtype}")
    width, n = map(int, array.shape)
    if n < 1 or n & (n - 1):
        raise SizeError(f"{n} rows are not a power of two")
    return width, n
