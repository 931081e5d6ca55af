"""The target group of the pairing on the host: products of powers, and elements from outside.

Elements have shape (12, limbs) uint64 in Montgomery form, in the order of `kernels.cpu.pairing.pairing_product`. The
compressed form is an element of Fq6, (6, limbs): f = a + b w is (1 + a) / b. Naehrig, Barreto, Schwabe: On compressible
pairings and their computation (eprint 2007/429), section 4.1. One has no such form, and is written as zero: that would
be the form of -1, which has order 2 and is no member.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.points import flat_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface import preconditions
from kernels.maths.curves import Curve
from kernels.maths.encoding import pack

Words = NDArray[np.uint64]


def product_of_powers(curve: Curve, elements: Words, scalars: Words, threads: int = 1) -> Words:
    """Return prod_i elements[i]^scalars[i], (12, limbs), for (n, 12, limbs) members and canonical scalars (n, limbs).

    Not constant time. Raises SizeError.
    """
    n = _count(curve, elements, 12)
    if preconditions.elements(curve.fr, scalars, "scalars") != n:
        raise SizeError(f"{n} elements but {len(scalars)} scalars")
    out = np.empty((12, curve.fq.limbs), dtype=np.uint64)
    native.target_product_of_powers(native.Pool(threads), curve.name, *map(flat_bytes, (elements, scalars, out)))
    return out


def compress(curve: Curve, elements: Words) -> Words:
    """Return the compressed forms, (n, 6, limbs), of (n, 12, limbs) members. Raises SizeError."""
    n = _count(curve, elements, 12)
    out = np.zeros((n, 6, curve.fq.limbs), dtype=np.uint64)
    others = np.flatnonzero((elements != one(curve)).any(axis=(1, 2)))
    made = np.empty((len(others), 6, curve.fq.limbs), dtype=np.uint64)
    bad = native.target_compress(curve.name, flat_bytes(elements[others]), flat_bytes(made))
    if bad < len(others):
        raise ValueError(f"element {others[bad]} is -1, no member")
    out[others] = made
    return out


def decompress(curve: Curve, compressed: Words, threads: int = 1) -> tuple[Words, int | None]:
    """Return the elements, (n, 12, limbs), of (n, 6, limbs), and the index of the first that is no member, or None.

    Coordinates must be canonical. Members have an order that divides r: the test is exact. Raises SizeError.
    """
    n = _count(curve, compressed, 6)
    out = np.empty((n, 12, curve.fq.limbs), dtype=np.uint64)
    out[:] = one(curve)
    others = np.flatnonzero(compressed.any(axis=(1, 2)))
    made = np.empty((len(others), 12, curve.fq.limbs), dtype=np.uint64)
    pool = native.Pool(threads)
    bad = int(native.target_decompress(pool, curve.name, flat_bytes(compressed[others]), flat_bytes(made)))
    out[others] = made
    return out, int(others[bad]) if bad < len(others) else None


def one(curve: Curve) -> Words:
    """The neutral element, (12, limbs)."""
    out = np.zeros((12, curve.fq.limbs), dtype=np.uint64)
    out[0] = pack([curve.fq.r % curve.fq.modulus], curve.fq.limbs)[0]
    return out


def _count(curve: Curve, elements: Words, coefficients: int) -> int:
    if elements.ndim != 3 or elements.shape[1] != coefficients:
        raise SizeError(f"elements have shape (n, {coefficients}, {curve.fq.limbs}), not {elements.shape}")
    return preconditions.elements(curve.fq, elements, "elements") // coefficients
