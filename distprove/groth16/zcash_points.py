"""Compressed points in the encoding of zcash's BLS12-381 library, which bellperson and Filecoin use.

A coordinate is big-endian, in G2 c1 before c0. The three highest bits of the first byte are flags: compressed,
infinity, and in compressed form whether y is the larger of its two possible values. A compressed point is x alone. Each
point has exactly one encoding, and readers refuse every other.
"""

from __future__ import annotations

from distprove.errors import FormatError
from distprove.groth16.points import Words
from kernels.cpu.group import lift, neg
from kernels.maths.curves import BLS12_381, Group
from kernels.maths.encoding import field_from_ints, point_from_ints, point_to_ints

CURVE = BLS12_381
COMPRESSED, INFINITY, _LARGER = 0x80, 0x40, 0x20
FLAGS = COMPRESSED | INFINITY | _LARGER
_P = CURVE.fq.modulus
_SIZE = {group: 4 * CURVE.point_limbs(group) for group in Group}


def compress(group: Group, point: Words) -> bytes:
    """Encode one point of the curve in compressed form: 48 bytes in G1, 96 in G2."""
    size = _SIZE[group]
    coordinates = point_to_ints(CURVE, group, point)
    if coordinates is None:
        return bytes([COMPRESSED | INFINITY]) + bytes(size - 1)
    half = len(coordinates) // 2
    encoded = bytearray(b"".join(v.to_bytes(CURVE.fq.bytes, "big") for v in coordinates[:half][::-1]))
    encoded[0] |= COMPRESSED | (_LARGER if _is_larger(coordinates[half:]) else 0)
    return bytes(encoded)


def decompress(group: Group, data: bytes, what: str) -> Words:
    """Decode one compressed point, (point_limbs,). Whether it is in the subgroup is not checked. Raises FormatError."""
    size, fq = _SIZE[group], CURVE.fq
    if len(data) != size:
        raise FormatError(f"{what}: a compressed {group.name} point is {size} bytes, not {len(data)}")
    flags, body = data[0] & FLAGS, bytes([data[0] & ~FLAGS]) + data[1:]
    if not flags & COMPRESSED:
        raise FormatError(f"{what}: the point is not flagged as compressed")
    if flags & INFINITY:
        if flags & _LARGER or any(body):
            raise FormatError(f"{what}: infinity with further bits")
        return point_from_ints(CURVE, group, None)
    x = [int.from_bytes(body[i : i + fq.bytes], "big") for i in range(0, size, fq.bytes)][::-1]
    if any(v >= _P for v in x):
        raise FormatError(f"{what}: a coordinate is not below the modulus")
    point = lift(CURVE, group, field_from_ints(fq, x).reshape(-1))
    if point is None:
        raise FormatError(f"{what}: no point of the curve has this coordinate")
    y = (point_to_ints(CURVE, group, point) or ())[len(x) :]
    if not any(y) and flags & _LARGER:
        raise FormatError(f"{what}: y is zero, and neither of its values is larger")
    return point if _is_larger(y) == bool(flags & _LARGER) else neg(CURVE, group, point)


def _is_larger(y: tuple[int, ...]) -> bool:
    """Whether y, (c0, c1) in G2, is larger than -y. c1 decides, and c0 where c1 is zero."""
    decisive = next((v for v in reversed(y) if v), 0)
    return decisive > (_P - 1) // 2
