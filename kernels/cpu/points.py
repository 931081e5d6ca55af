"""Points as the bytes that the native code takes, and as those of files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.host.native import native
from kernels.interface import preconditions
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group

Bytes = NDArray[np.uint8]


def point_bytes(curve: Curve, group: Group, points: HostArray) -> Bytes:
    """View points, (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, as flat bytes. Raises SizeError."""
    preconditions.points(curve, group, points)
    return flat_bytes(points)


def flat_bytes(array: HostArray) -> Bytes:
    """View a contiguous array as flat bytes; the native code takes any alignment."""
    return array.reshape(-1).view(np.uint8)


def to_big_endian(curve: Curve, group: Group, points: HostArray, threads: int = 1) -> Bytes:
    """Encode points as bytes (n, 8 * point_limbs): x then y, big-endian, not in Montgomery form; in G2 each coordinate
    is c1 then c0. Infinity is all zero. `points` is as for `point_bytes`. Raises SizeError."""
    given = point_bytes(curve, group, points)
    out = np.empty((len(points), 8 * curve.point_limbs(group)), dtype=np.uint8)
    native.to_big_endian(native.Pool(threads), curve.fq.name, given, _per_coordinate(group), flat_bytes(out))
    return out


def from_big_endian(
    curve: Curve, group: Group, encoded: Bytes, *, flags: int = 0, threads: int = 1
) -> tuple[HostArray, int | None]:
    """Decode what `to_big_endian` writes: points (n, point_limbs) uint64 in Montgomery form.

    Also returns the index of the first point that has a bit of `flags` in its first byte, is all zero, or has a
    coordinate that is not below the modulus; None if none has. The points are then not to be used. They are not checked
    to be on the curve. Each byte is read once. Raises SizeError.
    """
    limbs = curve.point_limbs(group)
    if encoded.dtype != np.uint8 or encoded.shape[1:] != (8 * limbs,):
        raise SizeError(f"encoded {group.name} points have shape (n, {8 * limbs}) uint8, not {encoded.shape}")
    preconditions.contiguous(encoded, "encoded points")
    out, n = np.empty((len(encoded), limbs), dtype=np.uint64), len(encoded)
    pool, per = native.Pool(threads), _per_coordinate(group)
    bad = native.from_big_endian(pool, curve.fq.name, flat_bytes(encoded), per, flags, flat_bytes(out))
    return out, None if bad == n else bad


def _per_coordinate(group: Group) -> int:
    return 1 if group is Group.G1 else 2
