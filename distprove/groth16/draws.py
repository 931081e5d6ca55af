"""Random field elements and points as ffjavascript draws them from a seed (its ChaCha and `fromRng`).

Snarkjs derives points from digests and from beacons in this way, so that everybody can repeat it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kernels.cpu.group import mul
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Field, Group
from kernels.maths.encoding import point_from_ints

Fq2 = tuple[int, int]
"""(c0, c1) is c0 + c1 u in Fq[u] / (u^2 + 1)."""

SEED_BYTES = 32
_MASK = 0xFFFFFFFF

_COFACTORS = {
    ("bn128", Group.G1): 1,
    ("bn128", Group.G2): 0x30644E72E131A029B85045B68181585E06CEECDA572A2489345F2299C0F9FA8D,
    ("bls12381", Group.G1): 0x396C8C005555E1568C00AAAB0000AAAB,
    ("bls12381", Group.G2): int(
        "5d543a95414e7f1091d50792876a202cd91de4547085abaa68a205b2e5a7ddfa"
        "628f1cb4d9e82ef21537e293a6691ae1616ec6e786f0c70cf1c38e31c7238e5",
        16,
    ),
}


class Draws:
    """A stream of elements and points that a seed determines. Each call draws the next one."""

    def __init__(self, seed: bytes) -> None:
        """Seed ChaCha20 with the first 32 bytes of `seed`. Raises ValueError for a shorter one."""
        if len(seed) < SEED_BYTES:
            raise ValueError(f"a seed has at least {SEED_BYTES} bytes, not {len(seed)}")
        self._words = _chacha20(seed[:SEED_BYTES])

    def scalar(self, curve: Curve) -> int:
        """Draw an element of the scalar field."""
        return self._element(curve.fr)

    def point(self, curve: Curve, group: Group) -> HostArray:
        """Draw an affine point of the group, (point_limbs,) in Montgomery form.

        x is drawn by rejection until x^3 + b is a square. One bit chooses the sign of y, and the cofactor is cleared.
        """
        fq, p = curve.fq, curve.fq.modulus
        while True:
            x = [self._element(fq) for _ in range(1 if group is Group.G1 else 2)]
            greatest = bool(next(self._words) & 1)
            y = _ordinate(curve, x)
            if y is not None:
                break
        if (_sign_of(y) > (p - 1) // 2) != greatest:
            y = [-each % p for each in y]
        point = point_from_ints(curve, group, (*x, *y))
        cofactor = _COFACTORS[curve.name, group]
        return mul(curve, group, point, cofactor) if cofactor > 1 else point

    def _element(self, field: Field) -> int:
        """Draw an integer below the modulus and take it for an element's Montgomery form, as ffjavascript does.

        The least significant 64-bit word is drawn first, each with its high half first.
        """
        while True:
            value = 0
            for i in range(field.limbs):
                high, low = next(self._words), next(self._words)
                value |= (high << 32 | low) << (64 * i)
            value &= (1 << field.modulus.bit_length()) - 1
            if value < field.modulus:
                return value * field.r_inverse % field.modulus


def _chacha20(seed: bytes) -> Iterator[int]:
    """Yield ChaCha20's key stream as 32-bit words, with a zero nonce, a 128-bit counter and big-endian key words."""
    constants = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
    key = struct.unpack(">8I", seed)
    counter = 0
    while True:
        state = [*constants, *key, *((counter >> shift) & _MASK for shift in (0, 32, 64, 96))]
        mixed = list(state)
        for _ in range(10):
            for i in range(4):
                _quarter_round(mixed, i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                _quarter_round(mixed, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        yield from ((x + y) & _MASK for x, y in zip(mixed, state, strict=True))
        counter += 1


def _quarter_round(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for add_to, added, mixed, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[add_to] = (s[add_to] + s[added]) & _MASK
        word = s[mixed] ^ s[add_to]
        s[mixed] = (word << shift | word >> (32 - shift)) & _MASK


def _ordinate(curve: Curve, x: list[int]) -> list[int] | None:
    """A square root of x^3 + b, in Fq or Fq2 as `x` is; None if there is none."""
    p = curve.fq.modulus
    if len(x) == 1:
        right = (pow(x[0], 3, p) + curve.b1) % p
        root = pow(right, (p + 1) // 4, p)
        return [root] if root * root % p == right else None
    z = (x[0], x[1])
    cube = _product(_product(z, z, p), z, p)
    found = _square_root(((cube[0] + curve.b2[0]) % p, (cube[1] + curve.b2[1]) % p), p)
    return None if found is None else list(found)


def _sign_of(y: list[int]) -> int:
    """The coefficient that decides which of y and -y is the greater."""
    return next((each for each in reversed(y) if each), 0)


def _product(a: Fq2, b: Fq2, p: int) -> Fq2:
    """Return a * b in Fq2 over the prime p."""
    return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p


def _square_root(a: Fq2, p: int) -> Fq2 | None:
    """Return a square root of `a` for p = 3 mod 4 (complex method), or None if there is none."""
    c0, c1 = a
    norm = (c0 * c0 + c1 * c1) % p
    root = pow(norm, (p + 1) // 4, p)
    if root * root % p != norm:
        return None
    for candidate in (root, -root):
        half = (c0 + candidate) * pow(2, -1, p) % p
        x0 = pow(half, (p + 1) // 4, p)
        if x0 * x0 % p != half:
            continue
        x1 = c1 * pow(2 * x0, -1, p) % p if x0 else pow(-c0 % p, (p + 1) // 4, p)
        if _product((x0, x1), (x0, x1), p) == (c0, c1):
            return x0, x1
    return None
