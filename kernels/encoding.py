"""Between Python integers and the kernels' arrays. For tests, set-up and single values; vectors stay arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.curves import Curve, Field, Group

Words = NDArray[np.uint64]


def pack(values: Iterable[int], limbs: int) -> Words:
    """(n, limbs) uint64 from non-negative integers below 2^(64 * limbs)."""
    data = b"".join(int(v).to_bytes(8 * limbs, "little") for v in values)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, limbs)


def unpack(words: Words) -> list[int]:
    """The integers of an (n, limbs) array."""
    rows = np.ascontiguousarray(words, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def field_from_ints(field: Field, values: Iterable[int]) -> Words:
    """(n, limbs) field elements in Montgomery form from integers, reduced modulo p."""
    return pack((v % field.modulus * field.r % field.modulus for v in values), field.limbs)


def field_to_ints(field: Field, elements: Words) -> list[int]:
    """The integers, in standard form, of (n, limbs) elements in Montgomery form."""
    inverse = pow(field.r, -1, field.modulus)
    return [v * inverse % field.modulus for v in unpack(elements)]


def scalars_from_ints(field: Field, values: Iterable[int]) -> Words:
    """(n, limbs) canonical integers (not Montgomery), reduced modulo p: the scalars of an MSM, or a witness."""
    return pack((v % field.modulus for v in values), field.limbs)


def point_from_ints(curve: Curve, group: Group, coordinates: Sequence[int] | None) -> Words:
    """(point_limbs,) affine point from x, y (G1) or x0, x1, y0, y1 (G2) in standard form; None is infinity."""
    if coordinates is None:
        return np.zeros(curve.point_limbs(group), dtype=np.uint64)
    expected = 2 if group is Group.G1 else 4
    if len(coordinates) != expected:
        raise ValueError(f"a {group.name} point has {expected} coordinates, not {len(coordinates)}")
    return field_from_ints(curve.fq, coordinates).reshape(-1)


def point_to_ints(curve: Curve, group: Group, point: Words) -> tuple[int, ...] | None:
    """x, y (G1) or x0, x1, y0, y1 (G2) in standard form; None for infinity."""
    if not np.any(point):
        return None
    return tuple(field_to_ints(curve.fq, np.asarray(point).reshape(-1, curve.fq.limbs)))


def generator(curve: Curve, group: Group) -> Words:
    """The group's standard generator, (point_limbs,) affine."""
    flat = curve.g1 if group is Group.G1 else (*curve.g2[0], *curve.g2[1])
    return point_from_ints(curve, group, flat)
