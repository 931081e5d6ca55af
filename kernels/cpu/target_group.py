"""The target group of the pairing on the host: products of powers, and elements from outside.

Elements have shape (12, limbs) uint64 in Montgomery form, in the order of `kernels.cpu.pairing.pairing_product`. The
compressed form is an element of Fq6, (6, limbs): f = a + b w is (1 + a) / b. Naehrig, Barreto, Schwabe: On compressible
pairings and their computation (eprint 2007/429), section 4.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.points import flat_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface import preconditions
from kernels.maths.curves import Curve

Words = NDArray[np.uint64]


def final_exponentiations(curve: Curve, values: Words, threads: int = 1) -> Words:
    """Return the members of the target group, (n, 12, limbs), for values of Miller loops. Raises SizeError."""
    _count(curve, values, 12)
    out = np.empty_like(values)
    native.final_exponentiations(native.Pool(threads), curve.name, flat_bytes(values), flat_bytes(out))
    return out


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
    """Return the compressed forms, (n, 6, limbs), of (n, 12, limbs) members. Raises ValueError for one: it has none."""
    n = _count(curve, elements, 12)
    out = np.empty((n, 6, curve.fq.limbs), dtype=np.uint64)
    bad = native.target_compress(curve.name, flat_bytes(elements), flat_bytes(out))
    if bad < n:
        raise ValueError(f"element {bad} is one, which has no compressed form")
    return out


def decompress(curve: Curve, compressed: Words, threads: int = 1) -> tuple[Words, int | None]:
    """Return the elements, (n, 12, limbs), of (n, 6, limbs), and the index of the first that is no member, or None.

    Coordinates must be canonical. Members have order r: the test is exact. Raises SizeError.
    """
    n = _count(curve, compressed, 6)
    out = np.empty((n, 12, curve.fq.limbs), dtype=np.uint64)
    bad = int(native.target_decompress(native.Pool(threads), curve.name, flat_bytes(compressed), flat_bytes(out)))
    return out, bad if bad < n else None


def _count(curve: Curve, elements: Words, coefficients: int) -> int:
    if elements.ndim != 3 or elements.shape[1] != coefficients:
        raise SizeError(f"elements have shape (n, {coefficients}, {curve.fq.limbs}), not {elements.shape}")
    return preconditions.elements(curve.fq, elements, "elements") // coefficients
