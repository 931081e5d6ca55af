"""Compressed points: x alone, big-endian, with flags in the highest bits of the first byte; in G2 c1 comes before c0.

Libraries differ in the flags of a curve alone, which a `Form` has. A flag says which of the two possible y is meant, or
that the point is infinity. Each point has exactly one encoding, and readers refuse every other.
"""

from __future__ import annotations

from dataclasses import dataclass

from distprove.errors import FormatError
from distprove.groth16.points import Words
from kernels.cpu.group import lift, neg
from kernels.maths.curves import BLS12_381, BN254, Curve, Group
from kernels.maths.encoding import field_from_ints, point_from_ints, point_to_ints


@dataclass(frozen=True)
class Form:
    """The flags of a curve's compressed points: bits of the first byte."""

    curve: Curve
    mask: int
    smaller: int
    larger: int
    infinity: int

    def size(self, group: Group) -> int:
        """Bytes of a point."""
        return 4 * self.curve.point_limbs(group)

    def is_compressed(self, first: int) -> bool:
        """Whether a point that begins with this byte is compressed."""
        return first & self.mask in (self.smaller, self.larger, self.infinity)

    def compress(self, group: Group, point: Words) -> bytes:
        """Encode one point of the curve."""
        coordinates = point_to_ints(self.curve, group, point)
        if coordinates is None:
            return bytes([self.infinity]) + bytes(self.size(group) - 1)
        half, size = len(coordinates) // 2, self.curve.fq.bytes
        encoded = bytearray(b"".join(v.to_bytes(size, "big") for v in coordinates[:half][::-1]))
        encoded[0] |= self.larger if self._is_larger(coordinates[half:]) else self.smaller
        return bytes(encoded)

    def decompress(self, group: Group, data: bytes, what: str) -> Words:
        """Decode one point, (point_limbs,). Whether it is in the subgroup is not checked. Raises FormatError."""
        size, fq = self.size(group), self.curve.fq
        if len(data) != size:
            raise FormatError(f"{what}: a compressed {group.name} point is {size} bytes, not {len(data)}")
        flags, body = data[0] & self.mask, bytes([data[0] & ~self.mask]) + data[1:]
        if flags & self.infinity == self.infinity and flags != self.larger:
            if any(body) or flags != self.infinity:
                raise FormatError(f"{what}: infinity with further bits")
            return point_from_ints(self.curve, group, None)
        if flags not in (self.smaller, self.larger):
            raise FormatError(f"{what}: the point is not flagged as compressed")
        x = [int.from_bytes(body[i : i + fq.bytes], "big") for i in range(0, size, fq.bytes)][::-1]
        if any(v >= fq.modulus for v in x):
            raise FormatError(f"{what}: a coordinate is not below the modulus")
        point = lift(self.curve, group, field_from_ints(fq, x).reshape(-1))
        if point is None:
            raise FormatError(f"{what}: no point of the curve has this coordinate")
        y = (point_to_ints(self.curve, group, point) or ())[len(x) :]
        if not any(y) and flags == self.larger:
            raise FormatError(f"{what}: y is zero, and neither of its values is larger")
        return point if self._is_larger(y) == (flags == self.larger) else neg(self.curve, group, point)

    def _is_larger(self, y: tuple[int, ...]) -> bool:
        """Whether y, (c0, c1) in G2, is larger than -y. c1 decides, and c0 where c1 is zero."""
        decisive = next((v for v in reversed(y) if v), 0)
        return decisive > (self.curve.fq.modulus - 1) // 2


ZCASH = Form(BLS12_381, 0xE0, 0x80, 0xA0, 0xC0)
"""BLS12-381 in zcash's library, bellperson, Filecoin and gnark."""
GNARK_BN254 = Form(BN254, 0xC0, 0x80, 0xC0, 0x40)
"""BN254 in gnark, whose modulus leaves two bits free."""
