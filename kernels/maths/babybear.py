"""The BabyBear field and its extension of degree 4 over NumPy arrays.

BabyBear is the prime field of p = 2^31 - 2^27 + 1. The extension is F[x] / (x^4 - 11). A base element is a canonical
uint32. An extension element is a last axis of 4 canonical uint32, the coefficient of 1 first. Every function broadcasts
over the other axes, and returns canonical uint32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

P = 2**31 - 2**27 + 1
GENERATOR = 31
"""Generator of the multiplicative group."""
TWO_ADICITY = 27
DEGREE = 4
"""Degree of the extension."""
NON_RESIDUE = 11
"""The extension is F[x] / (x^4 - NON_RESIDUE)."""

FEW = 64
"""Elements that are inverted one by one sooner than all at once."""

Elements = NDArray[np.uint32]
"""Canonical elements: (...,) of the base field, or (..., 4) of the extension."""

_P64 = np.uint64(P)
_W64 = np.uint64(NON_RESIDUE)


def root_of_unity(log_n: int) -> int:
    """Return the primitive 2^log_n-th root of unity 31^((p-1)/2^log_n). Raises ValueError beyond 2^27."""
    if not 0 <= log_n <= TWO_ADICITY:
        raise ValueError(f"BabyBear has no 2^{log_n}-th root of unity (at most 2^{TWO_ADICITY})")
    return pow(GENERATOR, (P - 1) >> log_n, P)


def elements(values: ArrayLike) -> Elements:
    """Return integers of any sign as canonical elements of the same shape."""
    return np.asarray(np.asarray(values, dtype=np.int64) % P, dtype=np.uint32)


def _wide(values: Elements) -> NDArray[np.uint64]:
    return np.asarray(values).astype(np.uint64)


def _reduced(values: NDArray[np.uint64]) -> Elements:
    """Any uint64 modulo p. A floor division by a constant is several times faster than NumPy's remainder."""
    return np.asarray(values - (values // _P64) * _P64).astype(np.uint32)


def add(a: Elements, b: Elements) -> Elements:
    """Return a + b, of base elements or of extension elements. The sum of two canonical elements fits uint32."""
    sums = np.asarray(np.add(a, b, dtype=np.uint32))
    # Below p, the difference wraps to a number that is larger than the sum.
    return np.asarray(np.minimum(sums, sums - np.uint32(P)))


def sub(a: Elements, b: Elements) -> Elements:
    """Return a - b, of base elements or of extension elements."""
    difference = np.asarray(np.subtract(a, b, dtype=np.uint32))
    return np.asarray(np.minimum(difference, difference + np.uint32(P)))


def neg(a: Elements) -> Elements:
    """Return -a."""
    return sub(np.zeros_like(a), a)


def mul(a: Elements, b: Elements) -> Elements:
    """Return the product of base elements, elementwise."""
    return _reduced(np.asarray(_wide(a) * _wide(b)))


def total(a: Elements, axis: int) -> Elements:
    """Return the sum along an axis, of base elements or of extension elements. At most 2^33 terms."""
    return _reduced(np.asarray(np.sum(a, axis=axis, dtype=np.uint64)))


def power(a: Elements, exponent: int) -> Elements:
    """Return a^exponent for base elements and exponent >= 0."""
    result = np.ones_like(a)
    while exponent:
        if exponent & 1:
            result = mul(result, a)
        a, exponent = mul(a, a), exponent >> 1
    return result


def inverse(a: Elements) -> Elements:
    """Return 1 / a for base elements. Raises ZeroDivisionError if one is zero."""
    if not np.all(a):
        raise ZeroDivisionError("zero has no inverse")
    if np.size(a) <= FEW:
        return np.array([pow(x, -1, P) for x in np.ravel(a).tolist()], dtype=np.uint32).reshape(np.shape(a))
    return power(a, P - 2)


def powers(base: int, count: int) -> Elements:
    """Return (count,) powers 1, base, base^2, ... of a base element."""
    found = np.ones(max(count, 1), dtype=np.uint32)
    size = 1
    while size < count:
        more = min(size, count - size)
        found[size : size + more] = mul(found[:more], np.uint32(pow(base, size, P)))
        size += more
    return found[:count]


def ext(a: Elements) -> Elements:
    """Return base elements (...,) as extension elements (..., 4)."""
    found = np.zeros((*np.shape(a), DEGREE), dtype=np.uint32)
    found[..., 0] = a
    return found


def ext_one() -> Elements:
    """Return the element 1 of the extension, (4,)."""
    return np.array([1, 0, 0, 0], dtype=np.uint32)


def ext_mul(a: Elements, b: Elements) -> Elements:
    """Return the product of extension elements (..., 4), elementwise."""
    x = [_wide(a[..., i]) for i in range(DEGREE)]
    y = x if b is a else [_wide(b[..., i]) for i in range(DEGREE)]
    # Four products of canonical elements fit uint64: 4 (p - 1)^2 < 2^64.
    high = (
        np.asarray(x[1] * y[3] + x[2] * y[2] + x[3] * y[1]),
        np.asarray(x[2] * y[3] + x[3] * y[2]),
        np.asarray(x[3] * y[3]),
    )
    low = (
        x[0] * y[0],
        x[0] * y[1] + x[1] * y[0],
        x[0] * y[2] + x[1] * y[1] + x[2] * y[0],
        x[0] * y[3] + x[1] * y[2] + x[2] * y[1] + x[3] * y[0],
    )
    found = np.empty((*low[0].shape, DEGREE), dtype=np.uint32)
    for i in range(3):
        found[..., i] = _reduced(np.asarray(low[i] + _W64 * (high[i] - (high[i] // _P64) * _P64)))
    found[..., 3] = _reduced(np.asarray(low[3]))
    return found


def ext_scale(a: Elements, b: Elements) -> Elements:
    """Return extension elements a (..., 4), each times a base element of b (...,)."""
    return mul(a, np.asarray(b)[..., None])


def ext_inverse(a: Elements) -> Elements:
    """Return 1 / a for extension elements (..., 4). Raises ZeroDivisionError if one is zero.

    With the conjugate c = a0 - a1 x + a2 x^2 - a3 x^3, the product a c lies in F[x^2], where y = x^2 has y^2 = 11. The
    inverse of u + v y there is (u - v y) / (u^2 - 11 v^2).
    """
    conjugate = np.stack((a[..., 0], neg(a[..., 1]), a[..., 2], neg(a[..., 3])), axis=-1)
    product = ext_mul(a, conjugate)
    u, v = product[..., 0], product[..., 2]
    norm = inverse(sub(mul(u, u), mul(np.uint32(NON_RESIDUE), mul(v, v))))
    zero = np.zeros_like(u)
    return ext_mul(conjugate, np.stack((mul(u, norm), zero, neg(mul(v, norm)), zero), axis=-1))


def ext_powers(base: Elements, count: int) -> Elements:
    """Return (count, 4) powers 1, base, base^2, ... of an extension element (4,)."""
    found = np.empty((max(count, 1), DEGREE), dtype=np.uint32)
    found[0] = ext_one()
    size, step = 1, np.asarray(base)
    while size < count:
        more = min(size, count - size)
        found[size : size + more] = ext_mul(found[:more], step)
        size, step = size + more, ext_mul(step, step)
    return found[:count]


def ext_dot(a: Elements, b: Elements, axis: int = -2) -> Elements:
    """Return the sum along an axis of the products of extension elements (..., 4)."""
    return total(ext_mul(a, b), axis)


def ext_of(value: Sequence[int]) -> Elements:
    """Return an extension element (4,) from 4 integers. Raises ValueError for another count."""
    if len(value) != DEGREE:
        raise ValueError(f"an element of the extension has {DEGREE} coefficients, not {len(value)}")
    return elements(value)
