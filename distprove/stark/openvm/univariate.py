"""Univariate polynomials of the prover's first rounds: coefficients (n, 4), lowest first, over BabyBear's extension."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from kernels.cpu.babybear_caller import ext_mul, intt, ntt
from kernels.host.babybear import ext_powers
from kernels.interface.openvm_rules import coset_shifts
from kernels.maths.babybear import (
    Elements,
    P,
    elements,
    mul,
    powers,
    total,
)


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
    """Return coefficients (..., count * n, 4) of polynomials with values (..., count, n, 4) on D's first cosets."""
    *others, count, n, _ = values.shape
    if not count:
        return np.zeros((*others, 0, 4), dtype=np.uint32)
    rests = intt(values, axis=-2)
    unscaled, matrix = _interpolation(count, n)
    rests = mul(rests, unscaled[..., None])
    # X^n is constant on a coset: the i-th rest is the sum over c of (shift_i^n)^c times the c-th run of coefficients.
    runs = total(mul(rests[..., None, :, :, :], matrix[:, :, None, None]), -3)
    return np.ascontiguousarray(runs).reshape(*others, count * n, 4)


@cache
def _interpolation(count: int, n: int) -> tuple[Elements, Elements]:
    """The powers of the inverse shifts of D's first cosets, (count, n), and the inverse of the matrix of the powers of
    their n-th powers."""
    unscaled = np.stack([powers(pow(shift, -1, P), n) for shift in coset_shifts(count)])
    return unscaled, elements(_vandermonde_inverse(tuple(pow(shift, n, P) for shift in coset_shifts(count))))


def sum_of_products(a: Elements, b: Elements, length: int) -> Elements:
    """Return the first `length` coefficients of the sum over i of the products of a[i] and b[i], polynomials (k, m, 4)
    and (k, n, 4). It has no more."""
    size = 1 << (length - 1).bit_length()
    return intt(total(ext_mul(ntt(_padded(a, size), -2), ntt(_padded(b, size), -2)), 0), -2)[:length]


def _padded(a: Elements, size: int) -> Elements:
    """Return coefficients (..., m, 4) with zeros up to `size`. More than `size` are cut: they must be zero."""
    found = np.zeros((*a.shape[:-2], size, 4), dtype=np.uint32)
    kept = a[..., :size, :]
    found[..., : kept.shape[-2], :] = kept
    return found


@cache
def values_on_subgroup(count: int, n: int) -> Elements:
    """Row y of coset c, all in one axis, (count * n, n): the values on D of the polynomial below count * n that is 1 at
    point y of coset c and 0 at the others of D's first cosets."""
    # That below n, times the polynomial in X^n that is 1 on coset c and 0 on the others: it is constant on D.
    shifts = coset_shifts(count)
    places, rows = [pow(shift, n, P) for shift in shifts], []
    for shift, place in zip(shifts, places, strict=True):
        others = [other for other in places if other != place]
        scale = prod(1 - other for other in others) * pow(prod(place - other for other in others), -1, P) % P
        unscaled = mul(powers(pow(shift, -1, P), n), np.uint32(scale))
        rows.append(ntt(mul(intt(np.eye(n, dtype=np.uint32)), unscaled)))
    return np.concatenate(rows)


def lagrange(log_skip: int, at: Elements) -> Elements:
    """Return eq_D(at, w^z) for all z, (2^log_skip, 4): the weights that give a polynomial's value at `at` from its
    values on D. eq_D(x, w^z) is the mean over k < 2^log_skip of (x / w^z)^k."""
    return intt(ext_powers(at, 1 << log_skip), -2)


def evaluate(coefficients: Elements, at: Elements) -> Elements:
    """Return the value (4,) at an element (4,)."""
    return total(ext_mul(coefficients, ext_powers(at, len(coefficients))), 0)
