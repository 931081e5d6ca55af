"""Points as the bytes that the native code takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group

Bytes = NDArray[np.uint8]


def point_bytes(curve: Curve, group: Group, points: HostArray) -> Bytes:
    """View points, (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, as flat bytes. Raises SizeError."""
    limbs = curve.point_limbs(group)
    expected = {np.dtype(np.uint64): limbs, np.dtype(np.uint8): 8 * limbs}
    if points.ndim != 2 or expected.get(points.dtype) != points.shape[1]:
        raise SizeError(
            f"{curve.title} {group.name} points have shape (n, {limbs}) uint64 or (n, {8 * limbs}) uint8, "
            f"not {points.shape} {points.dtype}"
        )
    return flat_bytes(points)


def flat_bytes(array: HostArray) -> Bytes:
    """View a contiguous array as flat bytes; the native code takes any alignment. Raises SizeError for other arrays."""
    if not array.flags.c_contiguous:
        raise SizeError("the native code takes contiguous arrays only")
    return array.reshape(-1).view(np.uint8)
