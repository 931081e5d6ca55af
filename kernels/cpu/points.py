"""Points as the bytes that the native code takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
