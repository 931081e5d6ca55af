"""The matrices that move runs of 2^k values between a subgroup, its cosets and coefficients."""

from __future__ import annotations

from functools import cache

import numpy as np

from distprove.stark.field import P, Words
from kernels.maths.goldilocks import root_of_unity


@cache
def inverse_matrix(log_run: int) -> Words:
    """The matrix that interpolates 2^log_run values over the powers of w(log_run)."""
    size, root = 1 << log_run, pow(root_of_unity(log_run), -1, P)
    scale = pow(size, -1, P)
    rows = [[pow(root, k * a % size, P) * scale % P for a in range(size)] for k in range(size)]
    return np.array(rows, dtype=np.uint64)


@cache
def coset_matrix(log_run: int, shift: int) -> Words:
    """The matrix that moves values over the powers of w = w(log_run) to those on the coset shift <w>."""
    size, root = 1 << log_run, root_of_unity(log_run)
    inverse = inverse_matrix(log_run).tolist()
    forward = [[pow(shift * pow(root, a, P), k, P) for k in range(size)] for a in range(size)]
    rows = [
        [sum(x * row[a] for x, row in zip(line, inverse, strict=True)) % P for a in range(size)] for line in forward
    ]
    return np.array(rows, dtype=np.uint64)
