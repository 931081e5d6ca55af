"""Converts between Python integers and the kernels' arrays, for tests, set-up and single values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.maths.curves import Curve, Field, Group

Words = NDArray[np.uint64]


def pack(values: Iterable[int], limbs: int) -> Words:
    """Return (n, limbs) uint64 words from non-negative integers below 2^(64 * limbs)."""
    data = b"".join(int(v).to_bytes(8 * limbs, "little") for v in values)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, limbs)


def unpack(words: Words) -> list[int]:
    """Return the integers of an (n, limbs) array of words."""
    rows = np.ascontiguousarray(words, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def field_from_ints(field: Field, values: Iterable[int]) -> Words:
    """Return (n, limbs) field elements in Montgomery form from integers, which are reduced modulo p."""
    r, modulus = field.r, field.modulus
    return pack((v % modulus * r % modulus for v in values), field.limbs)


def field_to_ints(field: Field, elements: Words) -> list[int]:
    """Return the integers, in standard form, of (n, limbs) elements in Montgomery form."""
    inverse, modulus = field.r_inverse, field.modulus
    return [v * inverse % modulus for v in unpack(elements)]


def scalars_from_ints(field: Field, values: Iterable[int]) -> Words:
    """Return integers reduced modulo p as (n, limbs) words, not in Montgomery form: MSM scalars, or a witness."""
    return pack((v % field.modulus for v in values), field.limbs)


def point_from_ints(curve: Curve, group: Group, coordinates: Sequence[int] | None) -> Words:
    """Return the affine point (point_limbs,) of x, y (G1) or x0, x1, y0, y1 (G2) in standard form; None is infinity."""
    if coordinates is None:
        return np.zeros(curve.point_limbs(group), dtype=np.uint64)
    expected = 2 if group is Group.G1 else 4
    if len(coordinates) != expected:
        raise ValueError(f"a {group.name} point has {expected} coordinates, not {len(coordinates)}")
    return field_from_ints(curve.fq, coordinates).reshape(-1)


def point_to_ints(curve: Curve, group: Group, point: Words) -> tuple[int, ...] | None:
    """Return the coordinates x, y (G1) or x0, x1, y0, y1 (G2) in standard form; None for infinity."""
    if not np.any(point):
        return None
    return tuple(field_to_ints(curve.fq, np.asarray(point).reshape(-1, curve.fq.limbs)))


def generator(curve: Curve, group: Group) -> Words:
    """Return the group's standard generator, an affine point (point_limbs,)."""
    flat = curve.g1 if group is Group.G1 else (*curve.g2[0], *curve.g2[1])
    return point_from_ints(curve, group, flat)
