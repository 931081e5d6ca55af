"""Univariate polynomials of the prover's first rounds: coefficients (n, 4), lowest first, over BabyBear's extension."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import (
    GENERATOR,
    Elements,
    P,
    add,
    elements,
    ext_mul,
    ext_powers,
    mul,
    powers,
    total,
)
from kernels.maths.babybear_ntt import intt, ntt


def shifts(count: int) -> list[int]:
    """The shifts of the cosets that round 0 evaluates on: 31, 31^2, ... None is 1, where Z^n - 1 is 0."""
    return [pow(GENERATOR, i + 1, P) for i in range(count)]


def on_cosets(k: BabyBearKernels, values: Elements, count: int) -> Elements:
    """Return the values on cosets, (..., count, n), of polynomials of degree below n with values (..., n) on D."""
    n = values.shape[-1]
    coefficients = k.intt(values)
    scales = np.stack([powers(shift, n) for shift in shifts(count)])
    return k.ntt(k.mul(coefficients[..., None, :], scales))


@cache
def _vandermonde_inverse(points: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Row c, item i: the coefficient of X^c in the polynomial that is 1 at points[i] and 0 at the others."""
    columns = []
    for i, x in enumerate(points):
        poly, scale = [1], 1
        for j, y in enumerate(points):
            if j != i:
                poly = [(a - y * b) % P for a, b in zip([0, *poly], [*poly, 0], strict=True)]
                scale = scale * (x - y) % P
        columns.append([a * pow(scale, -1, P) % P for a in poly])
    return tuple(zip(*columns, strict=True))


def from_cosets(values: Elements) -> Elements:
    """Return the coefficients (count * n, 4) of the polynomial with values (count, n, 4) on the first cosets."""
    count, n = values.shape[:2]
    if not count:
        return np.zeros((0, 4), dtype=np.uint32)
    rests = intt(values, axis=-2)
    unscaled = np.stack([powers(pow(shift, -1, P), n) for shift in shifts(count)])
    rests = mul(rests, unscaled[..., None])
    # X^n is constant on a coset: the i-th rest is the sum over c of (shift_i^n)^c times the c-th run of coefficients.
    matrix = elements(_vandermonde_inverse(tuple(pow(shift, n, P) for shift in shifts(count))))
    return np.concatenate([total(mul(rests, row[:, None, None]), 0) for row in matrix])


def multiply(a: Elements, b: Elements, length: int) -> Elements:
    """Return the first `length` coefficients of the product of a (..., m, 4) and b (..., n, 4), which has no more."""
    size = 1 << (length - 1).bit_length()
    return intt(ext_mul(ntt(padded(a, size), -2), ntt(padded(b, size), -2)), -2)[..., :length, :]


def padded(a: Elements, size: int) -> Elements:
    """Return coefficients (..., m, 4) with zeros up to `size`. More than `size` are cut: they must be zero."""
    found = np.zeros((*a.shape[:-2], size, 4), dtype=np.uint32)
    kept = a[..., :size, :]
    found[..., : kept.shape[-2], :] = kept
    return found


def evaluate(coefficients: Elements, at: Elements) -> Elements:
    """Return the value (4,) at an element (4,)."""
    return total(ext_mul(coefficients, ext_powers(at, len(coefficients))), 0)


def interpolate(values: Sequence[Elements]) -> Elements:
    """Return the coefficients of the polynomial with the given values at 0, 1, 2, ..."""
    matrix = elements(_vandermonde_inverse(tuple(range(len(values)))))
    return total(mul(np.stack(values), matrix[..., None]), 1)


def times_line(coefficients: Elements, constant: Elements, slope: Elements) -> Elements:
    """Return the coefficients of a polynomial times constant + slope X."""
    zero = np.zeros((1, 4), dtype=np.uint32)
    low = np.concatenate((ext_mul(coefficients, constant), zero))
    return add(low, np.concatenate((zero, ext_mul(coefficients, slope))))
