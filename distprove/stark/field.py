"""Goldilocks and its cubic extension: vectors in NumPy, single elements as Python ints.

The module shares no code with the kernels, so that the verifier shares no arithmetic with the prover. F_p has
p = 2^64 - 2^32 + 1, and F = F_p[x]/(x^3 - x - 1). Arrays are uint64 and canonical; extension arrays have a last axis of
3 in any memory order. Products of extension arrays lie coordinate by coordinate in memory, the fastest order.

A verifier's vectors are short, so that the number of NumPy operations is the cost. Long vectors are processed in
blocks, whose temporary arrays stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernels.maths.goldilocks import GENERATOR, TWO_ADICITY, Ext, P, root_of_unity

__all__ = ["GENERATOR", "ONE", "TWO_ADICITY", "ZERO", "Ext", "P", "root_of_unity"]

Words = NDArray[np.uint64]

ZERO: Ext = (0, 0, 0)
ONE: Ext = (1, 0, 0)
BASIS: tuple[Ext, Ext, Ext] = (ONE, (0, 1, 0), (0, 0, 1))

_P = np.uint64(P)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_63 = np.uint64(63)
_EPSILON = np.uint64(0xFFFFFFFF)
"""The constant 2^64 mod p."""


# -- vectors over F_p -------------------------------------------------------------------------------------------------


def add(a: Words, b: Words) -> Words:
    """The sums a + b, elementwise with broadcasting."""
    total = a + b
    total += (total < a) * _EPSILON  # 2^64 = epsilon; a + b < 2p, so this cannot wrap again
    total -= (total >= _P) * _P
    return total


def sub(a: Words, b: Words) -> Words:
    """The differences a - b, elementwise with broadcasting."""
    difference = a - b
    difference += (a < b) * _P
    return difference


def mul(a: Words, b: Words) -> Words:
    """The products a b, elementwise with broadcasting. Correct and canonical for any 64-bit words, canonical or not."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    carry = a0 * b0
    carry >>= _32
    left = a1 * b0
    left += carry
    right = a0 * b1
    right += left & _LOW
    left >>= _32
    right >>= _32
    left += right
    left += a1 * b1  # the product's upper word; its lower word is a b modulo 2^64
    # With left = h1 2^32 + h0, 2^64 = 2^32 - 1 and 2^96 = -1: the product is lower - h1 + h0 (2^32 - 1).
    lower = a * b
    h1 = left >> _32
    value: Words = lower - h1
    value -= (lower < h1) * _EPSILON
    left &= _LOW
    left *= _EPSILON
    value += left
    value += (value < left) * _EPSILON
    value -= (value >= _P) * _P
    return value


def join(low: Words, high: Words) -> Words:
    """The elements low + 2^32 high, for `low` from -2^62 to 2^62 modulo 2^64 and `high` below 2^62. Overwrites both."""
    top = high >> _32
    top *= _EPSILON  # 2^64 top
    low += top
    low += (low >> _63) * _P
    high <<= _32  # at most p - 1
    return add(high, low)


def total(a: Words, axis: int = 0) -> Words:
    """The sums of field elements along an axis."""
    return join((a & _LOW).sum(axis=axis), (a >> _32).sum(axis=axis))


def inverse(a: Words) -> Words:
    """The inverses 1 / a; zero stays zero. Montgomery's trick on a tree of products leaves few real inversions."""
    level = np.where(a == 0, np.uint64(1), a).reshape(-1)
    levels = []
    while len(level) > _INVERTED_SINGLY:
        if len(level) % 2:
            level = np.append(level, np.uint64(1))
        levels.append(level.reshape(2, -1))
        level = mul(levels[-1][0], levels[-1][1])
    found = np.array([pow(v, -1, P) for v in level.tolist()], dtype=np.uint64)
    for pairs in reversed(levels):
        found = mul(pairs[::-1], found[: pairs.shape[1]]).reshape(-1)
    return np.where(a == 0, a, found[: a.size].reshape(a.shape))


_INVERTED_SINGLY = 32
"""Number of elements that are inverted one by one. They take as long as one more level of products."""


def powers_at(base: int, exponents: NDArray[np.int64], bits: int) -> Words:
    """The powers base^e for `exponents` below 2^bits, each a product of two entries of cached tables of powers."""
    low, high = _power_tables(base, bits)
    bottom = len(low) - 1
    return mul(low[exponents & bottom], high[exponents >> bottom.bit_length()])


@lru_cache(maxsize=64)
def _power_tables(base: int, bits: int) -> tuple[Words, Words]:
    """Tables of base^i and base^(2^k i) with k = ceil(bits / 2). Cached, since proofs of one shape need the same: a job
    that ends in one proof has some twenty of 30 kB."""
    half = (bits + 1) // 2
    low, high = powers(base, 1 << half), powers(pow(base, 1 << half, P), 1 << (bits - half))
    low.setflags(write=False)
    high.setflags(write=False)
    return low, high


def powers(base: int, count: int) -> Words:
    """The powers 1, base, base^2, ..., (count,), computed by doubling, which takes few Python steps."""
    out = np.ones(count, dtype=np.uint64)
    done, step = 1, base % P
    while done < count:
        take = min(done, count - done)
        out[done : done + take] = mul(out[:take], np.uint64(step))
        done, step = done + take, step * step % P
    return out


# -- vectors over F: last axis 3 --------------------------------------------------------------------------------------


def ext_mul(a: Words, b: Words) -> Words:
    """The products a b of extension arrays (..., 3), which broadcast."""
    if a.shape != b.shape:
        a, b = np.broadcast_arrays(a, b)
    axes = range(a.ndim)
    left, right = (v.transpose(axes[-1], *axes[:-1]).reshape(3, -1) for v in (a, b))
    out = np.empty(left.shape, dtype=np.uint64)
    for start in range(0, out.shape[1], _BLOCK):
        part = slice(start, start + _BLOCK)
        out[:, part] = _products(left[:, part], right[:, part])
    product: Words = out.reshape(3, *a.shape[:-1]).transpose(*axes[1:], 0)
    return product


_BLOCK = 1024
"""Number of elements multiplied at once. Nine products of so many take 72 KiB, which the allocator reuses. It returns
twice as much to the system each time, and the page faults take longer than the arithmetic."""


def _products(a: Words, b: Words) -> Words:
    """The products a b of extension elements (3, n), with x^3 = x + 1 and x^4 = x^2 + x.

    The nine products of coordinates are kept and summed as low + 2^32 high, and each sum is reduced once.
    """
    a0, a1, b0, b1 = (a & _LOW)[:, None], (a >> _32)[:, None], b & _LOW, b >> _32
    low, top, left, right = a0 * b0, a1 * b1, a0 * b1, a1 * b0
    # With 2^64 = 2^32 - 1 and 2^96 = -1: the part at 2^64 is added to `high` and subtracted from `low`.
    upper = top & _LOW
    upper += left >> _32
    upper += right >> _32
    high = low >> _32
    high += left & _LOW
    high += right & _LOW
    high += upper
    low &= _LOW
    low -= upper
    top >>= _32
    low -= top
    return join(_coordinates(low), _coordinates(high))


def _coordinates(p: Words) -> Words:
    """The coordinates (3, n) of sum p[i, j] x^i x^j: sums of at most five parts of products, modulo 2^64."""
    out = np.empty(p.shape[1:], dtype=np.uint64)
    c3, c4 = p[1, 2] + p[2, 1], p[2, 2]
    np.add(p[0, 0], c3, out=out[0])
    c3 += c4
    np.add(p[0, 1], p[1, 0], out=out[1])
    out[1] += c3
    np.add(p[0, 2], p[1, 1], out=out[2])
    out[2] += p[2, 0]
    out[2] += c4
    return out


def ext_powers(base: Ext, count: int) -> Words:
    """The powers 1, base, base^2, ..., (count, 3), as products of base^i and base^(k j) with k near sqrt(count)."""
    step = 1 << (count.bit_length() + 1) // 2
    low = e_powers(base, min(step, count))
    if count <= step:
        return np.array(low, dtype=np.uint64).reshape(count, 3)
    high = e_powers(e_mul(low[-1], base), -(-count // step))
    products = ext_mul(np.array(high, dtype=np.uint64)[:, None], np.array(low, dtype=np.uint64)[None])
    return np.ascontiguousarray(products.reshape(-1, 3)[:count])


def ext_scale(a: Words, b: Words) -> Words:
    """The products a b of extension elements a (..., 3) and base elements b (...)."""
    return mul(a, b[..., None])


def ext_inverse(a: Words) -> Words:
    """The inverses 1 / a of extension elements (..., 3); zero stays zero. Only the norms, in F_p, are inverted."""
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    s = add(a0, a2)
    t = add(a1, a2)
    # The adjugate's first row, for the matrix of multiplication by a with columns a, a x, a x^2; times a it gives det.
    c0 = sub(mul(s, s), mul(t, a1))
    c1 = sub(mul(t, a2), mul(a1, s))
    c2 = sub(mul(a1, a1), mul(s, a2))
    det = add(add(mul(a0, c0), mul(a2, c1)), mul(a1, c2))
    return ext_scale(np.stack((c0, c1, c2), axis=-1), inverse(det))


def embed(a: Words) -> Words:
    """Convert base elements (...) to extension elements (..., 3)."""
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
    """The inverse 1 / a. Raises ZeroDivisionError for zero."""
    if a == ZERO:
        raise ZeroDivisionError("zero has no inverse")
    s, t = a[0] + a[2], a[1] + a[2]
    c = (s * s - t * a[1], t * a[2] - a[1] * s, a[1] * a[1] - s * a[2])
    det = (a[0] * c[0] + a[2] * c[1] + a[1] * c[2]) % P
    return e_scale((c[0] % P, c[1] % P, c[2] % P), pow(det, -1, P))


def e_pow(a: Ext, exponent: int) -> Ext:
    """The power a^exponent for exponent >= 0."""
    result = ONE
    for bit in bin(exponent)[2:] if exponent else "":
        result = e_mul(result, result)
        if bit == "1":
            result = e_mul(result, a)
    return result


def e_powers(a: Ext, count: int) -> list[Ext]:
    """The first `count` powers 1, a, a^2, ..."""
    out = [ONE]
    while len(out) < count:
        out.append(e_mul(out[-1], a))
    return out[:count]


def e_sum(values: Sequence[Ext]) -> Ext:
    return sum(v[0] for v in values) % P, sum(v[1] for v in values) % P, sum(v[2] for v in values) % P


def e_join(a: Sequence[Ext]) -> Ext:
    """The element a_0 + a_1 x + a_2 x^2 for three elements of F: what F-linear combinations of coordinates are."""
    return e_sum([e_mul(value, unit) for value, unit in zip(a, BASIS, strict=True)])


def element(words: Words) -> Ext:
    """The element of F whose coordinates are in an array (3,)."""
    a, b, c = words.tolist()
    return a, b, c


def e_dot(a: Words, b: Words) -> Ext:
    """The sum over i of a_i b_i for extension arrays (n, 3)."""
    return e_dots(a[:, None], spread(b))[0]


def e_dots(columns: Words, weights: Spread) -> list[Ext]:
    """The sums over i of columns[i, j] weights[i], for each j of an array (n, j, 3) and `spread` weights."""
    products = dot([columns.reshape(len(columns), 3 * columns.shape[1]).T], weights).reshape(-1, 3, 3)
    return [e_join([element(row) for row in rows]) for rows in products]


def is_canonical(a: Words) -> bool:
    """Whether every element is below p."""
    return bool((a < _P).all())


# -- many columns times weights ----------------------------------------------------------------------------------------

Spread = NDArray[np.float64]
"""Weights in the form that `spread` makes and `dot` takes. A slice of it is the spread of a slice of the weights."""

_LIMBS = 5
_LIMB_BITS = 13
_LIMB_MASK = np.uint64((1 << _LIMB_BITS) - 1)
_LIMB_WEIGHTS = np.array([pow(2, _LIMB_BITS * k, P) for k in range(_LIMBS)], dtype=np.uint64)[:, None]
_COLUMNS = 128
"""Number of columns that `dots` processes at once. The products of their halves, of 32 bits, with limbs of 13 bits add
up exactly, below 2^53. They also stay in the cache and in one thread: for larger products BLAS starts threads, which
wait longer than they compute.
"""


def spread(weights: Words) -> Spread:
    """Split extension weights (w, 3) for `dot`, (w, 2, 5 * 3): what the lower and the upper half of an element is to be
    multiplied by, each in limbs of 13 bits, limb by limb the three coordinates."""
    halves = np.stack([weights, mul(weights, np.uint64(1 << 32))], axis=1)
    limbs = [(halves >> np.uint64(_LIMB_BITS * k)) & _LIMB_MASK for k in range(_LIMBS)]
    return np.concatenate(limbs, axis=2).astype(np.float64)


def dot(matrices: Sequence[Words], weights: Spread) -> Words:
    """The sums over i of rows[q, i] weights[i], (q, 3), for base matrices (q, w) side by side and `spread` weights."""
    return dots(matrices, [weights])[0]


def dots(matrices: Sequence[Words], sets: Sequence[Spread]) -> list[Words]:
    """Compute `dot` for each of several sets of weights, at little more than the cost of one.

    Products of halves and limbs, and their sums, are exact in floating point, so that matrix products do the work. A
    verifier's rows may have thousands of columns.
    """
    weights = sets[0] if len(sets) == 1 else np.concatenate(sets, axis=2)
    weights = weights.reshape(2 * len(weights), weights.shape[2])
    sums = np.zeros((len(matrices[0]), weights.shape[1]), dtype=np.uint64)
    at = 0
    for matrix in matrices:
        for start in range(0, matrix.shape[1], _COLUMNS):
            part = np.ascontiguousarray(matrix[:, start : start + _COLUMNS], dtype="<u8")
            halves = part.view("<u4").astype(np.float64)
            sums += (halves @ weights[at : at + halves.shape[1]]).astype(np.uint64)
            at += halves.shape[1]
    limbs = sums.reshape(len(sums), len(sets), _LIMBS, 3)
    return list(np.moveaxis(total(mul(limbs, _LIMB_WEIGHTS), axis=2), 1, 0))


def interpolate(values: Words) -> Words:
    """Coefficients (n, 3) of the polynomial with values (n, 3) at w_n^0, w_n^1, ... Uses one matrix product."""
    return dot([_inverse_transform(len(values))], spread(values))


@lru_cache(maxsize=4)
def _inverse_transform(n: int) -> Words:
    """The matrix of the inverse transform, w_n^(-i j) / n, (n, n)."""
    root, i = root_of_unity(n.bit_length() - 1), np.arange(n)
    matrix = mul(powers(pow(root, -1, P), n), np.uint64(pow(n, -1, P)))[np.outer(i, i) % n]
    matrix.setflags(write=False)
    return matrix
