"""The steps of `kernels.interface.multilinear` for a backend that does not have them: NumPy and other kernels."""

from __future__ import annotations

import numpy as np

from distprove.stark.field import Words, add, dot, dots, powers, spread
from kernels.interface.backend import Backend
from kernels.interface.goldilocks import GoldilocksKernels
from kernels.maths.goldilocks import root_of_unity

BLOCK = 1 << 14
"""Number of runs whose weights are split into limbs at once."""


def transform(kernels: GoldilocksKernels, backend: Backend, columns: Words) -> Words:
    """The values of polynomials with coefficients (w, n) at the powers of w_n, in natural order."""

    def of(operation: str, a: Words, b: Words) -> Words:
        given = [backend.to_device(np.ascontiguousarray(v).reshape(-1)) for v in (a, b)]
        made: Words = backend.to_host(getattr(kernels, operation)(*given))
        return made.reshape(a.shape)

    width, n = columns.shape
    values, done = columns.reshape(width, 1, n), 1
    while done < n:
        half = n // done // 2
        factors = powers(root_of_unity(done.bit_length()), done)
        odd = of("mul", values[:, :, half:], np.broadcast_to(factors[:, None], (width, done, half)))
        even = values[:, :, :half]
        values = np.concatenate([of("add", even, odd), of("sub", even, odd)], axis=1)
        done *= 2
    return np.ascontiguousarray(values.reshape(width, n))


def apply_runs(columns: Words, matrix: Words) -> Words:
    """`matrix` (r, size) applied to each run of columns (w, n): (w, n r / size)."""
    rows, size = matrix.shape
    runs = np.ascontiguousarray(columns).reshape(-1, size)
    out = np.empty((len(runs), rows), dtype=np.uint64)
    for begin in range(0, rows, 3):  # as the three coordinates of an extension element
        weights = np.zeros((size, 3), dtype=np.uint64)
        weights[:, : rows - begin] = matrix[begin : begin + 3].T
        out[:, begin : begin + 3] = dot([runs], spread(weights))[:, : rows - begin]
    return out.reshape(len(columns), -1)


def sum_runs(columns: Words, weights: Words, size: int) -> Words:
    """For each set of `weights` (s, runs), s a multiple of 3, the sum of weight times run: (s, size)."""
    runs = np.ascontiguousarray(columns).reshape(-1, size)
    out = np.zeros((len(weights), size), dtype=np.uint64)
    for begin in range(0, len(runs), BLOCK):
        part = slice(begin, begin + BLOCK)
        sets = [spread(np.ascontiguousarray(weights[i : i + 3, part].T)) for i in range(0, len(weights), 3)]
        found = dots([np.ascontiguousarray(runs[part].T)], sets)
        more = np.concatenate([each.T for each in found])
        out = add(out, more)
    return out
