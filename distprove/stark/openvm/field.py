"""BabyBear's extension of degree 4 for the verifier: single elements are Python integers, and arrays those of
`kernels.maths.babybear`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from distprove.stark.field_operations import NumberOperations
from kernels.interface.openvm_rules import node_weights
from kernels.maths import babybear
from kernels.maths.babybear import DEGREE, NON_RESIDUE, Elements, P
from kernels.maths.babybear import root_of_unity as root_of_unity

Ext = tuple[int, int, int, int]
"""An element of F[x] / (x^4 - 11): canonical coefficients, that of 1 first."""


class BabyBear4(NumberOperations[Ext]):
    """The extension's operations on single elements, and on arrays (..., 4)."""

    p, word, degree = P, np.uint32, DEGREE
    root_of_unity = staticmethod(root_of_unity)
    adds = staticmethod(babybear.add)
    subs = staticmethod(babybear.sub)
    muls = staticmethod(babybear.ext_mul)
    scales = staticmethod(babybear.ext_scale)
    scalar_muls = staticmethod(babybear.mul)
    inverses = staticmethod(babybear.inverse)

    zero: Ext = (0, 0, 0, 0)
    one: Ext = (1, 0, 0, 0)

    def constant(self, value: int) -> Ext:
        return value % P, 0, 0, 0

    def add(self, a: Ext, b: Ext) -> Ext:
        return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P, (a[3] + b[3]) % P

    def sub(self, a: Ext, b: Ext) -> Ext:
        return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P, (a[3] - b[3]) % P

    def mul(self, a: Ext, b: Ext) -> Ext:
        a0, a1, a2, a3 = a
        b0, b1, b2, b3 = b
        return (
            (a0 * b0 + NON_RESIDUE * (a1 * b3 + a2 * b2 + a3 * b1)) % P,
            (a0 * b1 + a1 * b0 + NON_RESIDUE * (a2 * b3 + a3 * b2)) % P,
            (a0 * b2 + a1 * b1 + a2 * b0 + NON_RESIDUE * a3 * b3) % P,
            (a0 * b3 + a1 * b2 + a2 * b1 + a3 * b0) % P,
        )

    def scale(self, a: Ext, b: int) -> Ext:
        return a[0] * b % P, a[1] * b % P, a[2] * b % P, a[3] * b % P

    def sum(self, values: Iterable[Ext]) -> Ext:
        totals = [sum(coefficients) % P for coefficients in zip(*values, strict=True)]
        return (totals[0], totals[1], totals[2], totals[3]) if totals else self.zero

    def powers_at(self, base: int, exponents: Elements, bits: int) -> Elements:
        found = np.ones(exponents.shape, dtype=np.uint32)
        for bit in range(bits):
            is_set = exponents >> np.uint32(bit) & np.uint32(1)
            found = babybear.mul(found, np.where(is_set, np.uint32(pow(base, 1 << bit, P)), np.uint32(1)))
        return found


BABYBEAR4 = BabyBear4()


def ext(values: Elements) -> Ext:
    """The element of an array (4,)."""
    a, b, c, d = values.tolist()
    return a, b, c, d


exts = BABYBEAR4.elements


@cache
def _node_weights(count: int) -> list[int]:
    weights: list[int] = node_weights(count).tolist()
    return weights


def interpolate(values: Sequence[Ext], x: Ext) -> Ext:
    """Return the value at x of the polynomial that has these values at 0, 1, 2, ..."""
    f, degree = BABYBEAR4, len(values) - 1
    distances = [f.sub(x, f.constant(i)) for i in range(degree + 1)]
    after = [f.one]  # the products of the last distances, the shortest first
    for distance in reversed(distances[1:]):
        after.append(f.mul(after[-1], distance))
    total, before = f.zero, f.one
    for i, (value, weight) in enumerate(zip(values, _node_weights(degree + 1), strict=True)):
        total = f.add(total, f.mul(f.scale(value, weight), f.mul(before, after[degree - i])))
        before = f.mul(before, distances[i])
    return total


def sum_at(claim: Ext, sent: Elements, x: Ext) -> Ext:
    """Return the value at x of a sumcheck's round polynomial: `sent` (degree, 4) are its values at 1, 2, ..., and that
    at 0 is what is left of the claim about the sum of both."""
    values = exts(sent)
    return interpolate([BABYBEAR4.sub(claim, values[0]), *values], x)


def sum_over_domain(coefficients: Sequence[Ext], log_size: int) -> Ext:
    """Return the sum of a polynomial over the subgroup of 2^log_size points. The powers of a coordinate sum to zero but
    for those whose exponent the number of points divides."""
    return BABYBEAR4.scale(BABYBEAR4.sum(coefficients[:: 1 << log_size]), 1 << log_size)


def eq_mle(x: Sequence[Ext], y: Sequence[Ext]) -> Ext:
    """Return the product over i of x_i y_i + (1 - x_i) (1 - y_i)."""
    f, product = BABYBEAR4, BABYBEAR4.one
    for a, b in zip(x, y, strict=True):
        both = f.mul(a, b)
        product = f.mul(product, f.add(f.sub(f.sub(f.one, a), b), f.add(both, both)))
    return product


def eq_uni(log_size: int, x: Ext, y: Ext) -> Ext:
    """Return eq_D(x, y), D the subgroup of 2^log_size points: of degree below 2^log_size in both, 1 where x = y in D,
    and 0 at other pairs of D."""
    f, found = BABYBEAR4, BABYBEAR4.one
    for _ in range(log_size):
        found = f.add(f.mul(f.add(x, y), found), f.mul(f.sub(x, f.one), f.sub(y, f.one)))
        x, y = f.mul(x, x), f.mul(y, y)
    return f.scale(found, pow(f.half, log_size, P))


def eq_uni_one(log_size: int, x: Ext) -> Ext:
    """Return eq_D(x, 1): the mean of the first 2^log_size powers of x."""
    f, found = BABYBEAR4, BABYBEAR4.one
    for _ in range(log_size):
        found = f.mul(found, f.add(x, f.one))
        x = f.mul(x, x)
    return f.scale(found, pow(f.half, log_size, P))


def eq_rows(point: Sequence[Ext], x: Ext) -> Ext:
    """Return the sum over i of eq(point, i) eq_D(x, w^i), D the subgroup of 2^len(point) points that w generates."""
    f, places = BABYBEAR4, ((0, i) for i in range(1 << len(point)))
    weighted = zip(f.eqs(point, places), f.lagrange(x, len(point)), strict=True)
    return f.sum([f.mul(weight, value) for weight, value in weighted])


def eq_prism(log_skip: int, x: Sequence[Ext], y: Sequence[Ext]) -> Ext:
    """Return eq of two points (z, x_1, .. x_n) of the prism: eq_D of the first coordinates times eq of the others."""
    return BABYBEAR4.mul(eq_uni(log_skip, x[0], y[0]), eq_mle(x[1:], y[1:]))


def rotation(log_skip: int, x: Sequence[Ext], y: Sequence[Ext]) -> Ext:
    """Return the kernel of the next row: 1 where x is the row after y, cyclically, and 0 at other pairs of rows.

    Row number z + 2^log_skip b is the point w^z of D and the bits of b. A step within D leaves the bits; the step from
    its last point to 1 increments them.
    """
    f = BABYBEAR4
    moved = f.scale(y[0], root_of_unity(log_skip))
    stay, step = f.one, f.one  # eq of the bits, and eq of x's bits and those of y + 1
    for a, b in zip(reversed(x[1:]), reversed(y[1:]), strict=True):
        a_, b_ = f.sub(f.one, a), f.sub(f.one, b)
        step = f.add(f.mul(f.mul(a, b_), stay), f.mul(f.mul(a_, b), step))
        stay = f.mul(stay, f.add(f.mul(a, b), f.mul(a_, b_)))
    carry = f.mul(eq_uni_one(log_skip, x[0]), eq_uni_one(log_skip, moved))
    return f.add(f.mul(eq_uni(log_skip, x[0], moved), stay), f.mul(carry, f.sub(step, stay)))
