"""snarkjs' hash to G2 (keypair.js: `hashToG2`, ffjavascript's ChaCha and `fromRng`).

The first 32 bytes of a digest seed ChaCha20; x is drawn by rejection until x^3 + b is a square, one bit chooses the
sign of y, and the cofactor is cleared. Like ffjavascript, this takes the drawn integer as the Montgomery form of x.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kernels.cpu.group import mul
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import point_from_ints

Fq2 = tuple[int, int]
"""(c0, c1) is c0 + c1 u in Fq[u] / (u^2 + 1)."""

_MASK = 0xFFFFFFFF

_G2_COFACTOR = {
    "bn128": 0x30644E72E131A029B85045B68181585E06CEECDA572A2489345F2299C0F9FA8D,
    "bls12381": int(
        "5d543a95414e7f1091d50792876a202cd91de4547085abaa68a205b2e5a7ddfa"
        "628f1cb4d9e82ef21537e293a6691ae1616ec6e786f0c70cf1c38e31c7238e5",
        16,
    ),
}


def hash_to_g2(curve: Curve, digest: bytes) -> HostArray:
    """Hash a digest of at least 32 bytes to an affine point of G2, (point_limbs,) in Montgomery form."""
    words = _chacha20(digest[:32])
    p = curve.fq.modulus
    unmontgomery = pow(curve.fq.r, -1, p)
    while True:
        x = tuple(_draw(words, p, curve.fq.limbs) * unmontgomery % p for _ in range(2))
        greatest = next(words) & 1
        y = _square_root(_right_side(curve, (x[0], x[1])), p)
        if y is not None:
            break
    sign = y[1] if y[1] else y[0]
    if (sign > (p - 1) // 2) != bool(greatest):
        y = (-y[0] % p, -y[1] % p)
    return mul(curve, Group.G2, point_from_ints(curve, Group.G2, (*x, *y)), _G2_COFACTOR[curve.name])


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


def _draw(words: Iterator[int], modulus: int, limbs: int) -> int:
    """Draw a uniform integer below the modulus, least significant 64-bit word first, each with its high half first."""
    while True:
        value = 0
        for i in range(limbs):
            high, low = next(words), next(words)
            value |= (high << 32 | low) << (64 * i)
        value &= (1 << modulus.bit_length()) - 1
        if value < modulus:
            return value


def _right_side(curve: Curve, x: Fq2) -> Fq2:
    """The right side x^3 + b of the equation of the curve over Fq2."""
    p = curve.fq.modulus
    cube = _product(_product(x, x, p), x, p)
    return (cube[0] + curve.b2[0]) % p, (cube[1] + curve.b2[1]) % p


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
