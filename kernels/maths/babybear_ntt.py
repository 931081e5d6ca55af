"""Transforms over BabyBear on NumPy arrays: number-theoretic ones, in natural order on both sides, and on the cube."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernels.maths.babybear import Elements, P, add, mul, powers, root_of_unity, sub


@cache
def _reversal(log_n: int) -> NDArray[np.intp]:
    """The bit reversal of 0 .. 2^log_n - 1."""
    found = np.zeros(1, dtype=np.intp)
    for _ in range(log_n):
        found = np.concatenate((2 * found, 2 * found + 1))
    return found


@cache
def _twiddles(log_n: int) -> Elements:
    """The first half of the powers of the 2^log_n-th root of unity."""
    return powers(root_of_unity(log_n), 1 << (log_n - 1))


def log2_of(n: int) -> int:
    """Return log2 of a power of two. Raises ValueError for another number."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"{n} is no power of two")
    return n.bit_length() - 1


def ntt(coefficients: Elements, axis: int = -1) -> Elements:
    """Return the values at w^0, w^1, ... of the polynomials whose coefficients lie along an axis.

    w is the root of unity of the axis' length, which is a power of two. Elements of the extension transform as four
    base elements: `axis` is then -2. Raises ValueError for another length.
    """
    a = np.moveaxis(coefficients, axis, -1)
    n = a.shape[-1]
    log_n = log2_of(n)
    a = a[..., _reversal(log_n)]
    for log_half in range(log_n):
        half = 1 << log_half
        pairs = a.reshape(*a.shape[:-1], n // (2 * half), 2, half)
        low, high = pairs[..., 0, :], mul(pairs[..., 1, :], _twiddles(log_half + 1))
        a = np.stack((add(low, high), sub(low, high)), axis=-2).reshape(a.shape)
    return np.ascontiguousarray(np.moveaxis(a, -1, axis))


def intt(values: Elements, axis: int = -1) -> Elements:
    """Return the coefficients of the polynomials with values at w^0, w^1, ... along an axis: the inverse of `ntt`."""
    n = values.shape[axis]
    a = np.moveaxis(ntt(values, axis), axis, -1)
    # The values at w^-i are those at w^i in the reverse order, the first apart.
    a = np.concatenate((a[..., :1], a[..., :0:-1]), axis=-1)
    return np.ascontiguousarray(np.moveaxis(mul(a, np.uint32(pow(n, -1, P))), -1, axis))


def subset_sums(a: Elements) -> Elements:
    """Return the values on the cube of multilinear polynomials from their coefficients (..., 2^n) of the base field."""
    return _in_pairs(a, add)


def cube_coefficients(a: Elements) -> Elements:
    """Return the coefficients of multilinear polynomials from their values on the cube (..., 2^n): the inverse."""
    return _in_pairs(a, sub)


def _in_pairs(a: Elements, combine: Callable[[Elements, Elements], Elements]) -> Elements:
    """Combine, for each bit of an index, each item at which the bit is set with that at which it is not."""
    for bit in range(log2_of(a.shape[-1])):
        low, high = np.moveaxis(a.reshape(*a.shape[:-1], -1, 2, 1 << bit), -2, 0)
        a = np.stack((low, combine(high, low)), axis=-2).reshape(a.shape)
    return a
