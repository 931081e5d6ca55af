"""Points and elements of the target group as the bytes of transcripts and aggregates.

Over BLS12-381 they are those of bellperson: compressed points of zcash's library, and coordinates of the target group
little-endian. Over BN254, for which there is no such form, points are uncompressed (`distprove.groth16.points`).
"""

from __future__ import annotations

import numpy as np

from distprove.errors import FormatError
from distprove.groth16 import points, zcash_points
from distprove.groth16.elements import first_not_canonical
from distprove.groth16.points import Words
from kernels.cpu import target_group
from kernels.cpu.fields import from_montgomery, to_montgomery
from kernels.maths.curves import Curve, Field, Group


def point_bytes(curve: Curve, group: Group) -> int:
    """Bytes of a point."""
    return 8 * curve.point_limbs(group) // (2 if curve is zcash_points.CURVE else 1)


def encode_point(curve: Curve, group: Group, point: Words) -> bytes:
    return zcash_points.compress(group, point) if curve is zcash_points.CURVE else points.to_bytes(curve, group, point)


def decode_point(curve: Curve, group: Group, data: bytes, what: str) -> Words:
    """The point, (point_limbs,). Whether it is in its group is not checked. Raises FormatError."""
    if curve is zcash_points.CURVE:
        return zcash_points.decompress(group, data, what)
    return points.one_from_bytes(curve, group, data, what)


def target_bytes(curve: Curve) -> int:
    """Bytes of a compressed element of the target group."""
    return 6 * curve.fq.bytes


def encode_target(curve: Curve, elements: Words) -> bytes:
    """Elements of the target group, (n, 12, limbs), whole, for transcripts."""
    return _little_endian(curve.fq, elements)


def compress_target(curve: Curve, elements: Words) -> bytes:
    """Elements of the target group, (n, 12, limbs), compressed; one as zero coordinates, unlike bellperson."""
    return _little_endian(curve.fq, target_group.compress(curve, elements))


def decompress_target(curve: Curve, data: bytes, what: str, threads: int = 1) -> Words:
    """The members of the target group, (n, 12, limbs), that `compress_target` wrote. Raises FormatError."""
    coordinates = np.frombuffer(data, dtype="<u8").reshape(-1, curve.fq.limbs)
    bad = first_not_canonical(curve.fq, coordinates)
    if bad is not None:
        raise FormatError(f"{what}: target group element {bad // 6} has a coordinate that is not below the modulus")
    montgomery = to_montgomery(curve.fq, coordinates.astype(np.uint64, copy=False)).reshape(-1, 6, curve.fq.limbs)
    elements, outside = target_group.decompress(curve, montgomery, threads)
    if outside is not None:
        raise FormatError(f"{what}: element {outside} is not in the target group of {curve.title}")
    return elements


def _little_endian(field: Field, elements: Words) -> bytes:
    return from_montgomery(field, np.ascontiguousarray(elements)).astype("<u8", copy=False).tobytes()
