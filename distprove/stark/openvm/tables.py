"""Tables of multilinear polynomials over BabyBear's extension, as the prover holds them: NumPy arrays.

A table over n variables has 2^n entries; bit i of an entry's number is the value of variable i. Binding the first
variable therefore joins neighbouring entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import Elements, P, add, ext_mul, ext_one, ext_scale, powers, root_of_unity, sub
from kernels.maths.babybear_ntt import log2_of, ntt


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


def subset_sums(a: Elements) -> Elements:
    """Return the values on the cube of multilinear polynomials from their coefficients (..., 2^n) of the base field."""
    n = a.shape[-1]
    for bit in range(log2_of(n)):
        pairs = a.reshape(*a.shape[:-1], -1, 2, 1 << bit)
        a = np.stack((pairs[..., 0, :], add(pairs[..., 0, :], pairs[..., 1, :])), axis=-2).reshape(a.shape)
    return a


def cube_coefficients(a: Elements) -> Elements:
    """Return the coefficients of multilinear polynomials from their values on the cube (..., 2^n): the inverse."""
    n = a.shape[-1]
    for bit in range(log2_of(n)):
        pairs = a.reshape(*a.shape[:-1], -1, 2, 1 << bit)
        a = np.stack((pairs[..., 0, :], sub(pairs[..., 1, :], pairs[..., 0, :])), axis=-2).reshape(a.shape)
    return a


def message(k: BabyBearKernels, columns: Elements, log_skip: int) -> Elements:
    """Return the messages that Reed-Solomon encodes, from columns (..., 2^n) of the base field.

    A run of 2^log_skip values of a column gives the coefficients of the polynomial over the subgroup D that has them.
    These are taken as coefficients of a multilinear polynomial, of which the message has the values on the cube.
    """
    runs = columns.reshape(*columns.shape[:-1], -1, 1 << log_skip)
    return subset_sums(k.intt(runs)).reshape(columns.shape)


def lagrange(log_skip: int, at: Elements) -> Elements:
    """Return eq_D(at, w^z) for all z, (2^log_skip, 4): the weights that give a polynomial's value at `at` from its
    values on D."""
    n = 1 << log_skip
    exponents = -np.arange(n)
    # eq_D(x, w^z) is the mean over k < 2^log_skip of (x / w^z)^k.
    powers_of_x = [ext_one()]
    for _ in range(n - 1):
        powers_of_x.append(ext_mul(powers_of_x[-1], at))
    return np.ascontiguousarray(ext_scale(ntt(np.stack(powers_of_x), -2)[exponents % n], _inverse(n)))


def _inverse(n: int) -> Elements:
    return np.asarray(pow(n, -1, P), dtype=np.uint32)


def roots(log_n: int) -> Elements:
    """Return the (2^log_n,) points of the subgroup."""
    return powers(root_of_unity(log_n), 1 << log_n)


def weighted(k: BabyBearKernels, values: Elements, weights: Elements) -> Elements:
    """Return the sums over the last axis of base elements (..., n) times weights (n, 4): (..., 4)."""
    return k.matmul(values.reshape(-1, len(weights)), weights).reshape(*values.shape[:-1], 4)


def linear_sum(k: BabyBearKernels, coefficients: Elements, columns: Elements) -> Elements:
    """Return the sum over i of coefficients[i] times columns[i]: (m, 4) and base elements (m, n) give (4, n)."""
    return k.matmul(np.ascontiguousarray(coefficients.T), columns)
