"""Runs of 2^k values: matrices that move them between a subgroup, its cosets and coefficients; and interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernels.maths.goldilocks import P, root_of_unity

Words = NDArray[np.uint64]

LOG_COSETS = 9
"""log2 of the number of cosets of the univariate round, more than the greatest degree."""


def coset_shift(log_run: int, coset: int) -> int:
    """The shift of a coset of the univariate round's domain; that of coset 0 is 1. There are 2^LOG_COSETS."""
    return pow(root_of_unity(log_run + LOG_COSETS), coset, P)


@cache
def inverse_matrix(log_run: int) -> Words:
    """The matrix that interpolates 2^log_run values over the powers of w(log_run)."""
    size, root = 1 << log_run, pow(root_of_unity(log_run), -1, P)
    scale = pow(size, -1, P)
    rows = [[pow(root, k * a % size, P) * scale % P for a in range(size)] for k in range(size)]
    return np.array(rows, dtype=np.uint64)


@cache
def from_integers(degree: int) -> Words:
    """The matrix that interpolates values at 0, 1 .. degree."""
    return _interpolation(range(degree + 1))


@cache
def from_cosets(log_run: int, first: int, count: int) -> Words:
    """The matrix that interpolates values at what Z^(2^log_run) is on some cosets."""
    return _interpolation([pow(coset_shift(log_run, first + i), 1 << log_run, P) for i in range(count)])


def _interpolation(points: Sequence[int]) -> Words:
    """Entry [j, i] is the coefficient of y^j in the Lagrange polynomial of point i."""
    columns = []
    for i, point in enumerate(points):
        coefficients, scale = [1], 1
        for j, other in enumerate(points):
            if j != i:
                shifted = [0, *coefficients]
                coefficients = [(a - other * b) % P for a, b in zip(shifted, [*coefficients, 0], strict=True)]
                scale = scale * (point - other) % P
        inverse = pow(scale, -1, P)
        columns.append([c * inverse % P for c in coefficients])
    rows = [list(row) for row in zip(*columns, strict=True)]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), len(rows))
