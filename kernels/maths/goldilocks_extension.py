"""Single elements of the Goldilocks extension as Python ints, for what a backend computes on the host.

This code is separate from `distprove.stark.field`, so that the verifier shares no arithmetic with the prover.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.maths.goldilocks import Ext, P


def ext_add(a: Ext, b: Ext) -> Ext:
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def ext_sub(a: Ext, b: Ext) -> Ext:
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def ext_mul(a: Ext, b: Ext) -> Ext:
    """Return a * b, by x^3 = x + 1 and x^4 = x^2 + x."""
    c3, c4 = a[1] * b[2] + a[2] * b[1], a[2] * b[2]
    c0 = a[0] * b[0] + c3
    c1 = a[0] * b[1] + a[1] * b[0] + c3 + c4
    c2 = a[0] * b[2] + a[1] * b[1] + a[2] * b[0] + c4
    return c0 % P, c1 % P, c2 % P


def ext_scale(a: Ext, s: int) -> Ext:
    """Return a * s for a base element s."""
    return a[0] * s % P, a[1] * s % P, a[2] * s % P


def ext_inverse(a: Ext) -> Ext:
    """Return 1 / a: the first row of the adjugate of the matrix of multiplication by a, over its determinant."""
    s, t = a[0] + a[2], a[1] + a[2]
    c = (s * s - t * a[1], t * a[2] - a[1] * s, a[1] * a[1] - s * a[2])
    return ext_scale(c, pow(a[0] * c[0] + a[2] * c[1] + a[1] * c[2], -1, P))


def ext_of(words: NDArray[np.uint64]) -> Ext:
    """Return the element whose coordinates are in an array (3,)."""
    a, b, c = words.tolist()
    return a, b, c


def ext_scale_all(elements: NDArray[np.uint64], factor: Ext) -> NDArray[np.uint64]:
    """Return (n, 3) elements, each multiplied by `factor`."""
    if factor == (1, 0, 0):
        return elements
    return np.array([ext_mul((a, b, c), factor) for a, b, c in elements.tolist()], dtype=np.uint64).reshape(-1, 3)


def ext_pow(a: Ext, exponent: int) -> Ext:
    """Return a^exponent for exponent >= 0."""
    result: Ext = (1, 0, 0)
    while exponent:
        if exponent & 1:
            result = ext_mul(result, a)
        a, exponent = ext_mul(a, a), exponent >> 1
    return result
