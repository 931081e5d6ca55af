"""Encodes points as bytes in snarkjs' uncompressed form, which its ceremonies and the digests of our keys hash."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError
from distprove.groth16.elements import first_not_canonical
from kernels.cpu.fields import to_montgomery
from kernels.cpu.points import to_big_endian
from kernels.host.units import count_of
from kernels.interface.arrays import HostArray
from kernels.interface.backend import Backend
from kernels.interface.groups import PointSlices
from kernels.maths.curves import Curve, Group

Words = NDArray[np.uint64]

_CHUNK = 1 << 16
"""Points that `chunks_to_bytes` encodes at a time. This bounds its temporaries to about 12 MiB."""


def as_points(curve: Curve, group: Group, points: Words) -> Words:
    """Copy `points` to a read-only (n, point_limbs) uint64 array. Raises ValueError for another width or dtype."""
    width = curve.point_limbs(group)
    if points.dtype != np.uint64 or points.shape[-1:] != (width,) or points.ndim > 2:
        raise ValueError(
            f"{group.name} points of {curve.title} are uint64 of shape (n, {width}), not {points.dtype} {points.shape}"
        )
    own = np.array(points, order="C").reshape(-1, width)
    own.flags.writeable = False
    return own


def to_bytes(curve: Curve, group: Group, points: Words) -> bytes:
    """Encode points, (n, point_limbs) or one (point_limbs,), one after another in snarkjs' uncompressed form.

    A point is x then y, big-endian, not in Montgomery form; in G2 each coordinate is c1 then c0. Infinity is all zero.
    A point has exactly one encoding.
    """
    return to_big_endian(curve, group, points.reshape(-1, curve.point_limbs(group))).tobytes()


def chunks_to_bytes(
    curve: Curve, group: Group, points: HostArray | PointSlices, backend: Backend
) -> Iterator[memoryview]:
    """Encode many points as `to_bytes` does, on the host threads of `backend`; yields the encoding in pieces.

    `points` is (n, point_limbs) uint64 or (n, 8 * point_limbs) uint8, the form of a key's mapped sections.
    """
    at_once = points.at_once if isinstance(points, PointSlices) else _CHUNK
    for start in range(0, len(points), at_once):
        chunk = np.ascontiguousarray(points[start : start + at_once])
        yield to_big_endian(curve, group, chunk, backend.threads).data


def chunks_to_compressed(curve: Curve, group: Group, points: HostArray, backend: Backend) -> Iterator[bytes]:
    """Encode many points in ffjavascript's compressed form, computed by `backend`; yields the encoding in pieces.

    A point is x, big-endian, in G2 c1 then c0. Bit 7 of the first byte is set if y is the greater of y and -y, and
    bit 6 for infinity. `points` is as for `chunks_to_bytes`.
    """
    limbs = curve.fq.limbs
    for standard in _standard_chunks(curve, points, backend):
        rows = standard.reshape(len(standard) * limbs // curve.point_limbs(group), -1)
        x, y = np.split(rows, 2, axis=1)
        encoded = np.ascontiguousarray(x, dtype="<u8").view(np.uint8)[:, ::-1].copy()
        encoded[:, 0] |= np.where(are_greater(curve, group, y), np.uint8(0x80), np.uint8(0))
        encoded[:, 0] |= np.where(rows.any(axis=1), np.uint8(0), np.uint8(0x40))
        yield encoded.tobytes()


def are_greater(curve: Curve, group: Group, y: Words) -> NDArray[np.bool_]:
    """Which ordinates, (n, point_limbs / 2) canonical integers, are greater than their opposites. In G2 c1 decides, or
    c0 where that is zero."""
    limbs = curve.fq.limbs
    deciding = y[:, -limbs:]
    if group is Group.G2:
        deciding = np.where(deciding.any(axis=1, keepdims=True), deciding, y[:, :limbs])
    return _exceeds(deciding, (curve.fq.modulus - 1) // 2)


def _exceeds(words: Words, bound: int) -> NDArray[np.bool_]:
    """Which rows of (n, limbs) integers are more than `bound`."""
    more, equal = np.zeros(len(words), np.bool_), np.ones(len(words), np.bool_)
    for limb in reversed(range(words.shape[1])):
        word = np.uint64(bound >> (64 * limb) & (2**64 - 1))
        more |= equal & (words[:, limb] > word)
        equal &= words[:, limb] == word
    return more


def _standard_chunks(curve: Curve, points: HostArray, backend: Backend) -> Iterator[Words]:
    """The coordinates of many points as canonical integers, not in Montgomery form, some points at a time."""
    for start in range(0, points.shape[0], _CHUNK):
        chunk = np.ascontiguousarray(points[start : start + _CHUNK])
        words = np.frombuffer(chunk.tobytes(), dtype="<u8").astype(np.uint64, copy=False).reshape(-1, curve.fq.limbs)
        yield backend.to_host(backend.vectors.from_montgomery(curve.fq, backend.to_device(words)))


def from_bytes(curve: Curve, group: Group, data: bytes, what: str) -> Words:
    """Decode what `to_bytes` wrote into (n, point_limbs) points, without a check that they lie on the curve.

    Raises FormatError for a length that is not a multiple of a point's, or a coordinate that is not below the modulus.
    """
    width = curve.point_limbs(group)
    if len(data) % (8 * width) != 0:
        raise FormatError(
            f"{what}: {count_of(len(data), 'byte')}, no whole number of {curve.title} {group.name} points of "
            f"{8 * width}"
        )
    coordinates = np.frombuffer(data, dtype=np.uint8).reshape(-1, 4 * width)[:, ::-1]  # swaps c1 and c0, too
    elements = np.ascontiguousarray(coordinates).view("<u8").reshape(-1, curve.fq.limbs)
    if first_not_canonical(curve.fq, elements) is not None:
        raise FormatError(f"{what}: a coordinate is not below the modulus of {curve.title}")
    return to_montgomery(curve.fq, elements.astype(np.uint64, copy=False)).reshape(-1, width)


def size(curve: Curve, group: Group) -> int:
    """Bytes of an encoded point."""
    return 8 * curve.point_limbs(group)


def one_from_bytes(curve: Curve, group: Group, data: bytes, what: str) -> Words:
    """Decode exactly one point, (point_limbs,), as `from_bytes` does. Raises FormatError."""
    if len(data) != size(curve, group):
        raise FormatError(
            f"{what}: a {curve.title} {group.name} point is {count_of(size(curve, group), 'byte')}, not {len(data)}"
        )
    point: Words = from_bytes(curve, group, data, what)[0]
    return point


def is_infinity(point: Words) -> bool:
    return not np.any(point)
