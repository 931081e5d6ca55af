"""Tables of multilinear polynomials over BabyBear's extension in NumPy arrays.

A table over n variables has 2^n entries; bit i of an entry's number is the value of variable i. Binding the first
variable therefore joins neighbouring entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import Elements, add, ext_one, sub
from kernels.maths.babybear_ntt import subset_sums


def eq_table(k: BabyBearKernels, point: Sequence[Elements], scale: Elements | None = None) -> Elements:
    """Return eq(point, b) for all b, (2^n, 4), times `scale`."""
    table = (ext_one() if scale is None else scale)[None]
    for coordinate in point:
        high = k.ext_mul(table, coordinate)
        table = np.concatenate((sub(table, high), high))
    return table


def mobius_table(k: BabyBearKernels, point: Sequence[Elements]) -> Elements:
    """Return the product over i of (1 - 2 x_i) where b_i = 0, x_i where b_i = 1, for all b, (2^n, 4).

    The sum over b of it times F(b) is f(point), if F has the values of f on the cube as its coefficients.
    """
    table = ext_one()[None]
    for coordinate in point:
        high = k.ext_mul(table, coordinate)
        table = np.concatenate((sub(table, add(high, high)), high))
    return table


def message(k: BabyBearKernels, columns: Elements, log_skip: int) -> Elements:
    """Return the messages of columns (..., 2^n) of the base field, as `CodeKernels.commit` encodes them."""
    runs = columns.reshape(*columns.shape[:-1], -1, 1 << log_skip)
    return subset_sums(k.intt(runs)).reshape(columns.shape)
