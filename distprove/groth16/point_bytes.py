"""snarkjs' uncompressed encoding of points, which its ceremonies hash: big-endian, not in Montgomery form.

x then y; in G2 each as c1 then c0; infinity is all zero.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernels.backend import Backend, HostArray
from kernels.curves import Curve, Group
from kernels.encoding import point_to_ints

_CHUNK = 1 << 16
"""Points encoded at a time: bounds the temporaries to some 12 MiB."""


def encode_point(curve: Curve, group: Group, point: HostArray) -> bytes:
    """One point, (point_limbs,) words."""
    size = curve.fq.bytes
    coordinates = point_to_ints(curve, group, np.asarray(point).reshape(-1))
    if coordinates is None:
        return bytes(8 * curve.point_limbs(group))
    if group is Group.G2:
        x0, x1, y0, y1 = coordinates
        coordinates = (x1, x0, y1, y0)
    return b"".join(value.to_bytes(size, "big") for value in coordinates)


def encode_points(curve: Curve, group: Group, points: HostArray, backend: Backend) -> Iterator[bytes]:
    """Many points, (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, some at a time."""
    limbs, coordinate = curve.fq.limbs, 8 * curve.point_limbs(group) // 2
    for start in range(0, points.shape[0], _CHUNK):
        chunk = np.ascontiguousarray(points[start : start + _CHUNK])
        words = np.frombuffer(chunk.tobytes(), dtype="<u8").astype(np.uint64, copy=False).reshape(-1, limbs)
        standard = backend.to_host(backend.from_montgomery(curve.fq, backend.to_device(words)))
        # Reversing all bytes of a coordinate makes each field element big-endian and swaps c0 and c1.
        raw = np.ascontiguousarray(standard, dtype="<u8").view(np.uint8).reshape(-1, coordinate)
        yield raw[:, ::-1].tobytes()
