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
    """The multiples d 2^(DIGIT w) P, for all digits d and windows w, of a point P that is multiplied often. A multiple
    of P is then a sum of some of them, which takes a third of the time of `mul` in G1 and a fifth in G2."""

    DIGIT = 4
    """Bits of a digit: half a byte. With 8 bits a sum has half as many points, and the table eight times as many."""

    def __init__(self, curve: Curve, group: Group, point: HostArray) -> None:
        """`point` has the group's order, or is infinity."""
        self.curve, self.group = curve, group
        windows = 16 * curve.fr.limbs
        factors = [d << (self.DIGIT * w) for w in range(windows) for d in range(1 << self.DIGIT)]
        self._table = np.zeros((len(factors), curve.point_limbs(group)), dtype=np.uint64)
        self._first = np.arange(windows) << self.DIGIT
        scalars = encoding.scalars_from_ints(curve.fr, factors)
        native.fixed_base(
            native.Pool(1),
            curve.name,
            group.value,
            _point(curve, group, point),
            flat_bytes(scalars),
            self._table.reshape(-1).view(np.uint8),
        )

    def add_to(self, points: HostArray, factors: Sequence[int]) -> Words:
        """Return points[i] + factors[i] P for (m, point_limbs) points and 0 <= factors[i] < r. Not constant time."""
        width = 8 * self.curve.fr.limbs
        octets = np.frombuffer(b"".join(k.to_bytes(width, "little") for k in factors), dtype=np.uint8)
        digits = np.stack([octets & 15, octets >> 4], axis=1).reshape(len(factors), -1)
        own = self._table[self._first + digits]
        return sum_points(self.curve, self.group, np.concatenate([points[:, None], own], axis=1))


def lift(curve: Curve, group: Group, x: HostArray) -> Words | None:
    """Return one of the two points with this abscissa, (point_limbs / 2,), or None if the curve has none."""
    out = _empty(curve, group)
    if x.dtype != np.uint64 or x.shape != (len(out) // 2,):
        raise SizeError(f"an abscissa has shape ({len(out) // 2},), not {x.shape}")
    found = native.points_lift(curve.name, group.value, flat_bytes(x), out.view(np.uint8))
    return out if found else None


def sum_points(curve: Curve, group: Group, points: HostArray) -> Words:
    """Return the sum of each row of (m, n, point_limbs) points, (m, point_limbs), m > 0; infinity for n = 0."""
    rows, _, limbs = points.shape
    out = np.zeros((rows, limbs), dtype=np.uint64)
    data = point_bytes(curve, group, points.reshape(-1, limbs))
    native.point_sums(native.Pool(1), curve.name, group.value, data, out.reshape(-1).view(np.uint8))
    return out


def _empty(curve: Curve, group: Group) -> Words:
    return np.zeros(curve.point_limbs(group), dtype=np.uint64)


def _point(curve: Curve, group: Group, point: HostArray) -> HostArray:
    if point.ndim != 1:
        raise SizeError(f"one point has shape ({curve.point_limbs(group)},), not {point.shape}")
    return point_bytes(curve, group, point.reshape(1, -1))
