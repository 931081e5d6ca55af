"""Single elements of the Goldilocks extension as Python ints: what a backend computes on the host before it launches.

Written apart from `distprove.stark.field`, so that the verifier shares no arithmetic with the prover.
"""

from __future__ import annotations

from kernels.goldilocks_field import Ext, P


def ext_add(a: Ext, b: Ext) -> Ext:
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def ext_sub(a: Ext, b: Ext) -> Ext:
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def ext_mul(a: Ext, b: Ext) -> Ext:
    """a b, with x^3 = x + 1 and x^4 = x^2 + x."""
    c3, c4 = a[1] * b[2] + a[2] * b[1], a[2] * b[2]
    c0 = a[0] * b[0] + c3
    c1 = a[0] * b[1] + a[1] * b[0] + c3 + c4
    c2 = a[0] * b[2] + a[1] * b[1] + a[2] * b[0] + c4
    return c0 % P, c1 % P, c2 % P


def ext_scale(a: Ext, s: int) -> Ext:
    """a times a base element."""
    return a[0] * s % P, a[1] * s % P, a[2] * s % P


def ext_pow(a: Ext, exponent: int) -> Ext:
    """a^exponent, exponent >= 0."""
    result: Ext = (1, 0, 0)
    while exponent:
        if exponent & 1:
            result = ext_mul(result, a)
        a, exponent = ext_mul(a, a), exponent >> 1
    return result


def ext_inverse(a: Ext) -> Ext:
    """1 / a; zero for zero: the first row of the adjugate of multiplication by a, over its determinant."""
    s, t = a[0] + a[2], a[1] + a[2]
    row = s * s - t * a[1], t * a[2] - a[1] * s, a[1] * a[1] - s * a[2]
    determinant = (a[0] * row[0] + a[2] * row[1] + a[1] * row[2]) % P
    return ext_scale(row, pow(determinant, P - 2, P))
