"""Reproduces a value in snarkjs' circuit hash that is not a point, so that `snarkjs zkey verify` accepts our keys.

snarkjs hashes tau^(n + i) G1 - tau^i G1 in whole chunks. If a circuit fills its powers-of-tau file (n = 2^power, at
least 2^15), the last subtraction reads its operand from the bytes behind the section. These are not canonical field
elements, so the result depends on the exact steps of snarkjs' arithmetic (wasmcurves' build_f1m.js, addAffine), which
this module repeats on integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.maths.curves import Curve, Field


@dataclass(frozen=True)
class _Words:
    """wasmcurves' field operations on integers of 64 * limbs bits, which need not be canonical."""

    field: Field

    @property
    def _overflow(self) -> int:
        return 1 << (64 * self.field.limbs)

    def add(self, x: int, y: int) -> int:
        total = x + y
        return (total - self.field.modulus if total >= self.field.modulus else total) % self._overflow

    def sub(self, x: int, y: int) -> int:
        return (x - y + (self.field.modulus if x < y else 0)) % self._overflow

    def mul(self, x: int, y: int) -> int:
        """The Montgomery product with one final subtraction."""
        p, overflow = self.field.modulus, self._overflow
        factor = x * y * pow(-p, -1, overflow) % overflow
        product = (x * y + factor * p) // overflow
        return (product - p if product >= p else product) % overflow


def difference(curve: Curve, operand: bytes, point: bytes) -> bytes:
    """operand - point as snarkjs computes it, in uncompressed big-endian form.

    Both arguments are x, y in Montgomery form, little-endian. `operand` is any bytes but the curve's encoding of
    infinity; `point` is a point of G1 other than infinity.
    """
    size, f = curve.fq.bytes, _Words(curve.fq)
    x1, y1 = (int.from_bytes(operand[i : i + size], "little") for i in (0, size))
    x2, y2 = (int.from_bytes(point[i : i + size], "little") for i in (0, size))
    h = f.sub(x2, x1)
    rise = f.sub(f.sub(0, y2), y1)
    i = f.mul(h, h)
    i = f.add(i, i)
    i = f.add(i, i)
    j = f.mul(h, i)
    r = f.add(rise, rise)
    v = f.mul(x1, i)
    x = f.sub(f.sub(f.mul(r, r), j), f.add(v, v))
    shift = f.mul(y1, j)
    y = f.sub(f.mul(f.sub(v, x), r), f.add(shift, shift))
    z = f.add(h, h)
    return _uncompressed(curve, x, y, z)


def _uncompressed(curve: Curve, x: int, y: int, z: int) -> bytes:
    """Convert a Jacobian point in Montgomery form to affine big-endian bytes."""
    p, size = curve.fq.modulus, curve.fq.bytes
    if z % p == 0:
        return bytes(2 * size)
    unmontgomery = pow(curve.fq.r, -1, p)
    inverse = pow(z * unmontgomery, -1, p)
    affine = (x * inverse**2 * unmontgomery % p, y * inverse**3 * unmontgomery % p)
    return b"".join(value.to_bytes(size, "big") for value in affine)
