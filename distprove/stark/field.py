"""Goldilocks and its cubic extension: vectors in NumPy, single elements as Python ints.

Written apart from the kernels, so that the verifier shares no arithmetic with the prover. F_p with
p = 2^64 - 2^32 + 1, F = F_p[x]/(x^3 - x - 1). Arrays are uint64 and canonical; extension arrays have a last axis of 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.goldilocks_field import GENERATOR, TWO_ADICITY, Ext, P, root_of_unity

__all__ = ["GENERATOR", "ONE", "TWO_ADICITY", "ZERO", "Ext", "P", "root_of_unity"]

Words = NDArray[np.uint64]

ZERO: Ext = (0, 0, 0)
ONE: Ext = (1, 0, 0)

_P = np.uint64(P)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_EPSILON = np.uint64(0xFFFFFFFF)
"""2^64 mod p."""


# -- vectors over F_p -------------------------------------------------------------------------------------------------


def add(a: Words, b: Words) -> Words:
    """a + b, elementwise with broadcasting."""
    total = a + b
    total += (total < a) * _EPSILON  # 2^64 = epsilon; a + b < 2p, so this cannot wrap again
    total -= (total >= _P) * _P
    return total


def sub(a: Words, b: Words) -> Words:
    """a - b."""
    difference = a - b
    difference += (a < b) * _P
    return difference


def neg(a: Words) -> Words:
    """-a."""
    return np.where(a == 0, a, _P - a)


def mul(a: Words, b: Words) -> Words:
    """a b. The product's words are reduced by 2^64 = 2^32 - 1 and 2^96 = -1."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    low, mid1, mid2, high = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    middle = (low >> _32) + (mid1 & _LOW) + (mid2 & _LOW)
    low = (low & _LOW) | (middle << _32)
    high = high + (mid1 >> _32) + (mid2 >> _32) + (middle >> _32)
    # high = h1 2^32 + h0: the product is low - h1 + h0 (2^32 - 1).
    h0, h1 = high & _LOW, high >> _32
    value = low - h1
    value -= (low < h1) * _EPSILON
    value -= (value >= _P) * _P
    return add(value, h0 * _EPSILON)


def power(a: Words, exponent: int) -> Words:
    """a^exponent, elementwise."""
    result = np.ones_like(a)
    for bit in bin(exponent)[2:]:
        result = mul(result, result)
        if bit == "1":
            result = mul(result, a)
    return result


def inverse(a: Words) -> Words:
    """1 / a; zero stays zero."""
    return np.array([pow(v, -1, P) if v else 0 for v in a.reshape(-1).tolist()], dtype=np.uint64).reshape(a.shape)


def powers_at(base: int, exponents: NDArray[np.int64], bits: int) -> Words:
    """base^e for each of `exponents` below 2^bits."""
    out, step = np.ones(exponents.shape, dtype=np.uint64), base % P
    for bit in range(bits):
        out = np.where((exponents >> bit) & 1 == 1, mul(out, np.uint64(step)), out)
        step = step * step % P
    return out


def powers(base: int, count: int) -> Words:
    """1, base, base^2, ... (count,): by doubling, so that few Python steps are taken."""
    out = np.ones(count, dtype=np.uint64)
    done, step = 1, base % P
    while done < count:
        take = min(done, count - done)
        out[done : done + take] = mul(out[:take], np.uint64(step))
        done, step = done + take, step * step % P
    return out


# -- vectors over F: last axis 3 --------------------------------------------------------------------------------------


def ext_mul(a: Words, b: Words) -> Words:
    """a b for arrays (..., 3), with x^3 = x + 1 and x^4 = x^2 + x.

    The nine products come from one call, and each coordinate from sums of their halves: for a verifier's short vectors
    the number of array operations is the cost.
    """
    products = mul(a[..., :, None], b[..., None, :])
    low, high = _coordinates(products & _LOW), _coordinates(products >> _32)
    # high 2^32 = (h1 2^32 + h0) 2^32, where h1 is below 5 and 2^64 = 2^32 - 1; h0 2^32 is below p.
    return add(add((high & _LOW) << _32, (high >> _32) * _EPSILON), low)


def _coordinates(p: Words) -> Words:
    """Sums of at most five parts p[..., i, j] of the products of x^i and x^j."""
    c3, c4 = p[..., 1, 2] + p[..., 2, 1], p[..., 2, 2]
    c1, c2 = p[..., 0, 1] + p[..., 1, 0], p[..., 0, 2] + p[..., 1, 1] + p[..., 2, 0]
    return np.stack((p[..., 0, 0] + c3, c1 + c3 + c4, c2 + c4), axis=-1)


def ext_powers(base: Ext, count: int) -> Words:
    """1, base, base^2, ...: (count, 3), by doubling."""
    out = np.zeros((count, 3), dtype=np.uint64)
    out[:1, 0] = 1
    done, step = 1, base
    while done < count:
        take = min(done, count - done)
        out[done : done + take] = ext_mul(out[:take], np.array(step, dtype=np.uint64))
        done, step = done + take, e_mul(step, step)
    return out


def ext_scale(a: Words, b: Words) -> Words:
    """a b for extension a (..., 3) and base b (...)."""
    return mul(a, b[..., None])


def ext_inverse(a: Words) -> Words:
    """1 / a for (..., 3); zero stays zero. By the conjugates: the norm is in F_p."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    s = add(a0, a2)
    t = add(a1, a2)
    # First row of the adjugate of the matrix of multiplication by a, columns a, a x, a x^2; its product with a is det.
    c0 = sub(mul(s, s), mul(t, a1))
    c1 = sub(mul(t, a2), mul(a1, s))
    c2 = sub(mul(a1, a1), mul(s, a2))
    det = add(add(mul(a0, c0), mul(a2, c1)), mul(a1, c2))
    return ext_scale(np.stack((c0, c1, c2), axis=-1), inverse(det))


def embed(a: Words) -> Words:
    """Base elements (...) as extension elements (..., 3)."""
    out = np.zeros((*a.shape, 3), dtype=np.uint64)
    out[..., 0] = a
    return out


# -- single elements of F: tuples of three ints -----------------------------------------------------------------------


def e_add(a: Ext, b: Ext) -> Ext:
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def e_sub(a: Ext, b: Ext) -> Ext:
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def e_mul(a: Ext, b: Ext) -> Ext:
    c3 = a[1] * b[2] + a[2] * b[1]
    c4 = a[2] * b[2]
    return (
        (a[0] * b[0] + c3) % P,
        (a[0] * b[1] + a[1] * b[0] + c3 + c4) % P,
        (a[0] * b[2] + a[1] * b[1] + a[2] * b[0] + c4) % P,
    )


def e_scale(a: Ext, b: int) -> Ext:
    return a[0] * b % P, a[1] * b % P, a[2] * b % P


def e_inv(a: Ext) -> Ext:
    """1 / a. Raises ZeroDivisionError for zero."""
    if a == ZERO:
        raise ZeroDivisionError("zero has no inverse")
    s, t = a[0] + a[2], a[1] + a[2]
    c = (s * s - t * a[1], t * a[2] - a[1] * s, a[1] * a[1] - s * a[2])
    det = (a[0] * c[0] + a[2] * c[1] + a[1] * c[2]) % P
    return e_scale((c[0] % P, c[1] % P, c[2] % P), pow(det, -1, P))


def e_pow(a: Ext, exponent: int) -> Ext:
    """a^exponent for exponent >= 0."""
    result = ONE
    for bit in bin(exponent)[2:] if exponent else "":
        result = e_mul(result, result)
        if bit == "1":
            result = e_mul(result, a)
    return result


def e_powers(a: Ext, count: int) -> list[Ext]:
    """1, a, a^2, ..."""
    out = [ONE]
    while len(out) < count:
        out.append(e_mul(out[-1], a))
    return out[:count]


def e_sum(values: Sequence[Ext]) -> Ext:
    return sum(v[0] for v in values) % P, sum(v[1] for v in values) % P, sum(v[2] for v in values) % P


def e_dot(a: Words, b: Words) -> Ext:
    """sum_i a_i b_i for arrays (n, 3)."""
    return total(ext_mul(a, b))


def total(a: Words) -> Ext:
    """The sum of extension elements (n, 3)."""
    high, low = (a >> _32).sum(axis=0), (a & _LOW).sum(axis=0)
    c = [((int(h) << 32) + int(lo)) % P for h, lo in zip(high, low, strict=True)]
    return c[0], c[1], c[2]


def is_canonical(a: Words) -> bool:
    """Whether every element is below p."""
    return bool((a < _P).all())


def dot(rows: Words, weights: Words) -> Words:
    """(q, 3): sum_i rows[q, i] weights[i] for base rows (q, w) and extension weights (w, 3).

    In limbs of 16 bits, whose products and their sums are exact in floating point, so that a matrix product does the
    work: a verifier's rows may have thousands of columns.
    """
    total = np.zeros((len(rows), 3), dtype=np.uint64)
    for start in range(0, rows.shape[1], _EXACT_TERMS):
        part, weight = rows[:, start : start + _EXACT_TERMS], weights[start : start + _EXACT_TERMS]
        limbs = np.concatenate(list(_limbs(weight)), axis=1)  # (w, 4 * 3)
        diagonals = np.zeros((7, len(rows), 3), dtype=np.uint64)
        for i, limb in enumerate(_limbs(part)):
            products = (limb @ limbs).astype(np.uint64).reshape(-1, 4, 3)
            for j in range(4):
                diagonals[i + j] += products[:, j]
        for k, diagonal in enumerate(diagonals):
            total = add(total, mul(diagonal, np.uint64(pow(2, 16 * k, P))))
    return total


_EXACT_TERMS = 1 << 19
"""Products of 16-bit limbs that a double sums exactly: 2^19 of 2^32, and four such sums in a 64-bit integer."""


def _limbs(a: Words) -> NDArray[np.float64]:
    """(4, rows, columns): the 16-bit limbs of a matrix, lowest first."""
    shorts = np.ascontiguousarray(a, dtype="<u8").view("<u2").reshape(*a.shape, 4)
    return np.array(shorts.transpose(2, 0, 1), dtype=np.float64, order="C")


def interpolate(values: Words) -> Words:
    """Coefficients (n, ...) of the polynomial with values (n, ...) at w_n^0, w_n^1, ...; for small n."""
    n = len(values)
    log_n = n.bit_length() - 1
    w = pow(root_of_unity(log_n), -1, P)
    order = [int(format(i, f"0{log_n}b")[::-1], 2) if log_n else 0 for i in range(n)]
    a = values[order].reshape(n, -1)
    for level in range(log_n):
        half = 1 << level
        twiddles = powers(pow(w, n >> (level + 1), P), half)[None, :, None]
        blocks = a.reshape(n // (2 * half), 2, half, -1)
        odd = mul(blocks[:, 1], np.broadcast_to(twiddles, blocks[:, 1].shape))
        a = np.stack((add(blocks[:, 0], odd), sub(blocks[:, 0], odd)), axis=1).reshape(n, -1)
    return mul(a, np.uint64(pow(n, -1, P))).reshape(values.shape)
