"""Compressed points: x alone, big-endian, with flags in the highest bits of the first byte; in G2 c1 comes before c0.

Libraries differ in the flags of a curve alone, which a `Form` has. A flag says which of the two possible y is meant, or
that the point is infinity. Each point has exactly one encoding, and readers refuse every other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distprove.errors import FormatError
from distprove.groth16.elements import first_not_canonical
from distprove.groth16.points import Words, are_greater
from kernels.cpu.fields import from_montgomery, to_montgomery
from kernels.cpu.group import lift, lift_all, neg
from kernels.host.units import count_of
from kernels.maths.curves import BLS12_381, BN254, Curve, Field, Group
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
            raise FormatError(f"{what}: a compressed {group.name} point is {count_of(size, 'byte')}, not {len(data)}")
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

    def decompress_all(self, group: Group, rows: NDArray[np.uint8], what: str) -> Words:
        """Decode points, (n, size) to (n, point_limbs), as `decompress` decodes each. Raises FormatError for the first
        that is none."""
        flags = rows[:, 0] & np.uint8(self.mask)
        body = rows.copy()
        body[:, 0] &= np.uint8(0xFF ^ self.mask)
        here, smaller, larger = (flags == np.uint8(flag) for flag in (self.infinity, self.smaller, self.larger))
        bad = np.where(here, body.any(axis=1), ~(smaller | larger))
        finite = np.flatnonzero(~here)
        if not bad.any():
            found = self._lifted(group, body[finite], larger[finite])
            if found is not None:
                points = np.zeros((len(rows), found.shape[1]), dtype=np.uint64)
                points[finite] = found
                return points
        for row in rows:  # one of them raises
            self.decompress(group, row.tobytes(), what)
        raise FormatError(f"{what}: points that do not decode together")

    def _lifted(self, group: Group, body: NDArray[np.uint8], larger: NDArray[np.bool_]) -> Words | None:
        """The points with these abscissas, (n, size) big-endian, and the larger y where that is wanted; None where one
        is no point."""
        curve, fq = self.curve, self.curve.fq
        elements = np.ascontiguousarray(body[:, ::-1]).view("<u8").reshape(-1, fq.limbs).astype(np.uint64, copy=False)
        if first_not_canonical(fq, elements) is not None:
            return None
        half = curve.point_limbs(group) // 2
        found, bad = lift_all(curve, group, to_montgomery(fq, elements).reshape(len(body), half))
        if bad is not None:
            return None
        y = np.ascontiguousarray(found[:, half:])
        standard = from_montgomery(fq, y.reshape(-1, fq.limbs)).reshape(y.shape)
        if (larger & ~standard.any(axis=1)).any():
            return None
        turned = np.flatnonzero(are_greater(curve, group, standard) != larger)
        found[turned, half:] = _opposite(fq, y[turned].reshape(-1, fq.limbs)).reshape(len(turned), half)
        return found

    def _is_larger(self, y: tuple[int, ...]) -> bool:
        """Whether y, (c0, c1) in G2, is larger than -y. c1 decides, and c0 where c1 is zero."""
        decisive = next((v for v in reversed(y) if v), 0)
        return decisive > (self.curve.fq.modulus - 1) // 2


def _opposite(field: Field, elements: Words) -> Words:
    """The opposites of elements below the modulus, (n, limbs)."""
    out, borrow = np.empty_like(elements), np.zeros(len(elements), dtype=np.uint64)
    for limb in range(field.limbs):
        whole, word = np.uint64(field.modulus >> (64 * limb) & (2**64 - 1)), elements[:, limb]
        out[:, limb] = whole - word - borrow
        borrow = ((word > whole) | ((word == whole) & (borrow != 0))).astype(np.uint64)
    out[~elements.any(axis=1)] = 0
    return out


ZCASH = Form(BLS12_381, 0xE0, 0x80, 0xA0, 0xC0)
"""BLS12-381 in zcash's library, bellperson, Filecoin and gnark."""
GNARK_BN254 = Form(BN254, 0xC0, 0x80, 0xC0, 0x40)
"""BN254 in gnark, whose modulus leaves two bits free."""
