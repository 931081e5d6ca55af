"""Arithmetic of single affine points on the host, on either curve and group. Backends handle vectors of points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernels.cpu.points import flat_bytes, point_bytes
from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface.arrays import HostArray
from kernels.maths import encoding
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import Words


def add(curve: Curve, group: Group, a: HostArray, b: HostArray) -> Words:
    """Return a + b, also of equal, opposite and infinite points. All points here are (point_limbs,) uint64."""
    out = _empty(curve, group)
    native.point_add(curve.name, group.value, _point(curve, group, a), _point(curve, group, b), out.view(np.uint8))
    return out


def neg(curve: Curve, group: Group, a: HostArray) -> Words:
    """Return -a."""
    out = _empty(curve, group)
    native.point_neg(curve.name, group.value, _point(curve, group, a), out.view(np.uint8))
    return out


def mul(curve: Curve, group: Group, a: HostArray, k: int) -> Words:
    """Return k * a for any integer k, which is not reduced: `a` may lie outside the subgroup. Not constant time."""
    out = _empty(curve, group)
    words = encoding.pack([abs(k)], max(1, -(-abs(k).bit_length() // 64))).reshape(-1)
    native.point_mul(curve.name, group.value, _point(curve, group, a), words.view(np.uint8), out.view(np.uint8))
    return neg(curve, group, out) if k < 0 else out


class Multiples:
    """The multiples d 2^(8 w) P, for all values d of each byte w of a scalar, of a point P that is multiplied often. A
    multiple of P is then a sum of 32 of them. They take 0.5 MiB in BN254 G1 and 1.5 in BLS12-381 G2."""

    def __init__(self, curve: Curve, group: Group, point: HostArray) -> None:
        """`point` has the group's order, or is infinity."""
        self.curve, self.group = curve, group
        self._table = np.empty(256 * curve.fr.bytes * 8 * curve.point_limbs(group), dtype=np.uint8)
        native.byte_multiples(curve.name, group.value, _point(curve, group, point), self._table)

    def add_to(self, point: HostArray, factor: int) -> Words:
        """Return point + factor * P for 0 <= factor < r. Not constant time."""
        curve, group = self.curve, self.group
        out = _empty(curve, group)
        factors = np.frombuffer(factor.to_bytes(curve.fr.bytes, "little"), dtype=np.uint8)
        native.add_multiple(
            curve.name, group.value, _point(curve, group, point), self._table, factors, out.view(np.uint8)
        )
        return out


def lift(curve: Curve, group: Group, x: HostArray) -> Words | None:
    """Return one of the two points with this abscissa, (point_limbs / 2,), or None if the curve has none."""
    found, bad = lift_all(curve, group, x[None])
    return found[0] if bad is None else None


def lift_all(curve: Curve, group: Group, xs: HostArray) -> tuple[Words, int | None]:
    """Return one of the two points with each abscissa, (n, point_limbs) for (n, point_limbs / 2), and the index of the
    first that the curve has none for, or None; then the points are not to be used."""
    half = curve.point_limbs(group) // 2
    if xs.dtype != np.uint64 or xs.shape[1:] != (half,):
        raise SizeError(f"an abscissa has shape ({half},), not {xs.shape[1:]}")
    out = np.zeros((len(xs), 2 * half), dtype=np.uint64)
    found = native.points_lift(curve.name, group.value, flat_bytes(np.ascontiguousarray(xs)), flat_bytes(out))
    return out, None if found == len(xs) else int(found)


def sum_points(curve: Curve, group: Group, points: Sequence[HostArray]) -> Words:
    """Return the sum of few points, (point_limbs,); infinity if there are none."""
    out = _empty(curve, group)
    limbs = curve.point_limbs(group)
    data = point_bytes(curve, group, np.concatenate([np.empty(0, np.uint64), *points]).reshape(-1, limbs))
    native.point_sum(curve.name, group.value, data, out.view(np.uint8))
    return out


def _empty(curve: Curve, group: Group) -> Words:
    return np.zeros(curve.point_limbs(group), dtype=np.uint64)


def _point(curve: Curve, group: Group, point: HostArray) -> HostArray:
    if point.ndim != 1:
        raise SizeError(f"one point has shape ({curve.point_limbs(group)},), not {point.shape}")
    return point_bytes(curve, group, point.reshape(1, -1))
