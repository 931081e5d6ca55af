"""Pairings, and the few group operations that a verifier needs besides. Native, single-threaded, without the GIL.

Points are affine, `curve.point_limbs(group)` uint64 words in Montgomery form, all zero for infinity, as everywhere in
`kernels`. Nothing here checks group membership except `first_invalid_point`: a verifier calls that first on points that
come from outside. Other points make the results meaningless, never unsafe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.points import flat_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.maths.curves import Curve, Group

Points = NDArray[np.uint64]
Scalars = NDArray[np.uint64]

BY_BUCKETS = 256
"""Fewest points that `combine_g1` adds up by buckets: 25,841 of BLS12-381 in a third of the time."""


def _rows(array: NDArray[np.uint64], width: int, what: str) -> NDArray[np.uint64]:
    if array.dtype != np.uint64 or array.ndim != 2 or array.shape[1] != width:
        raise SizeError(f"{what}: expected uint64 of shape (n, {width}), got {array.dtype} of shape {array.shape}")
    return np.ascontiguousarray(array)


def _pairs(curve: Curve, g1: Points, g2: Points) -> tuple[Points, Points]:
    g1 = _rows(g1, curve.point_limbs(Group.G1), "G1 points")
    g2 = _rows(g2, curve.point_limbs(Group.G2), "G2 points")
    if len(g1) != len(g2):
        raise SizeError(f"a product of pairings needs pairs: {len(g1)} G1 points, {len(g2)} G2 points")
    return g1, g2


def _terms(curve: Curve, points: Points, scalars: Scalars, words: int) -> tuple[Points, Scalars]:
    points = _rows(points, curve.point_limbs(Group.G1), "G1 points")
    scalars = _rows(scalars, words, "scalars")
    if len(points) != len(scalars):
        raise SizeError(f"{len(points)} points but {len(scalars)} scalars")
    return points, scalars


def pairing_product_is_one(curve: Curve, g1: Points, g2: Points) -> bool:
    """Whether prod_i e(g1[i], g2[i]) = 1, for (n, point_limbs) points of each group.

    One Miller loop shared by all pairs and one final exponentiation. A pair with a point at infinity contributes one.
    Raises SizeError.
    """
    return bool(native.pairing_product_is_one(curve.name, *_pairs(curve, g1, g2)))


def pairing_product(curve: Curve, g1: Points, g2: Points) -> NDArray[np.uint64]:
    """Return prod_i e(g1[i], g2[i]) in Fq12 = Fq6[w] / (w^2 - v), Fq6 = Fq2[v] / (v^3 - xi), xi = 9 + u or 1 + u.

    The result is (2, 3, 2, limbs) in Montgomery form: coefficients of w, of v, of u. It is ffjavascript's value, which
    snarkjs writes as vk_alphabeta_12; other libraries differ by a fixed exponent prime to r. Raises SizeError.
    """
    out = np.empty((2, 3, 2, curve.fq.limbs), dtype=np.uint64)
    pairs = map(flat_bytes, _pairs(curve, g1, g2))
    native.pairing_products(native.Pool(1), curve.name, *pairs, [len(g1)], flat_bytes(out))
    return out


def combine_g1(curve: Curve, points: Points, scalars: Scalars) -> Points:
    """Return sum_i scalars[i] * points[i], (point_limbs,), for (n, point_limbs) points and (n, fr.limbs) scalars.

    Scalars are canonical. For public inputs of a proof, on this thread; not constant time. Raises SizeError.
    """
    points, scalars = _terms(curve, points, scalars, curve.fr.limbs)
    out = np.zeros((1, points.shape[1]), dtype=np.uint64)
    if len(points) < BY_BUCKETS:
        native.combine_g1(curve.name, points, scalars, out)
    else:
        where = (curve.name, Group.G1.value)
        scratch = np.empty(native.msm_scratch(*where, len(points)), dtype=np.uint8)
        native.msm(native.Pool(1), *where, flat_bytes(points), flat_bytes(scalars), scratch, flat_bytes(out))
    point: Points = out[0]
    return point


def combine_members_g1(curve: Curve, points: Points, scalars: Scalars) -> Points:
    """Return what `combine_g1` returns, in half the time, for points that have order r or are infinity.

    For other points the result is meaningless: each scalar is cut in two by the curve's endomorphism
    (`include/curve/glv.h`). Scalars are canonical. On this thread; not constant time. Raises SizeError.
    """
    points, scalars = _terms(curve, points, scalars, curve.fr.limbs)
    out = np.empty((1, points.shape[1]), dtype=np.uint64)
    native.combine_members_g1(curve.name, points, scalars, out)
    point: Points = out[0]
    return point


def scale_g1(curve: Curve, points: Points, scalars: Scalars) -> Points:
    """Return scalars[i] * points[i], (n, point_limbs), for 128-bit scalars (n, 2).

    Not constant time. Raises SizeError.
    """
    points, scalars = _terms(curve, points, scalars, 2)
    out = np.empty_like(points)
    words = np.pad(scalars, ((0, 0), (0, curve.fr.limbs - 2)))
    arrays = map(flat_bytes, (points[:0], points, words, out))  # no addends
    native.points_multiply_add(native.Pool(1), curve.name, Group.G1.value, *arrays)
    return out


def first_invalid_point(curve: Curve, group: Group, points: Points) -> int | None:
    """Return the index of the first of (n, point_limbs) points that is no member of the group; None if all are.

    A member has canonical coordinates (each below the modulus), lies on the curve and has order r or is infinity. The
    order is tested by the endomorphisms of eprint 2021/1130 (BLS12-381) and 2022/352 (BN254 G2). Raises SizeError.
    """
    points = _rows(points, curve.point_limbs(group), f"{group.name} points")
    flat = points.reshape(-1).view(np.uint8)
    found = native.first_invalid(native.Pool(1), curve.name, group.value, flat, True)
    return None if found is None else int(found)
