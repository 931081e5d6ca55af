"""Points of curves and their sums, by other means than ours: two points, their sum, and twice the first."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

from Crypto.PublicKey import ECC
from py_ecc.secp256k1 import secp256k1

Point = tuple[int, int]
ED25519_ORDER = (1 << 252) + 27742317777372353535851937790883648493
"""The prime order of the base point of Ed25519."""
ED25519_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)


def pairing_points(curve: ModuleType) -> Callable[[random.Random], tuple[Point, ...]]:
    """Points of a curve of py_ecc."""

    def points(rng: random.Random) -> tuple[Point, ...]:
        p, q = (curve.multiply(curve.G1, rng.randrange(2, curve.curve_order)) for _ in range(2))
        return tuple((int(x), int(y)) for x, y in (p, q, curve.add(p, q), curve.double(p)))

    return points


def secp256k1_points(rng: random.Random) -> tuple[Point, ...]:
    p, q = (secp256k1.multiply(secp256k1.G, rng.randrange(2, secp256k1.N)) for _ in range(2))
    return p, q, secp256k1.add(p, q), secp256k1.multiply(p, 2)


def p256_points(rng: random.Random) -> tuple[Point, ...]:
    base = ECC.construct(curve="P-256", d=1).pointQ
    p, q = (base * rng.randrange(2, 1 << 250) for _ in range(2))
    return tuple((int(point.x), int(point.y)) for point in (p, q, p + q, p * 2))


def edwards_sum(a: Point, b: Point) -> Point:
    """The sum on Ed25519's curve (RFC 8032, 5.1.4)."""
    p = (1 << 255) - 19
    product = -121665 * pow(121666, -1, p) * a[0] * a[1] * b[0] * b[1] % p
    x, y = a[0] * b[1] + a[1] * b[0], a[1] * b[1] + a[0] * b[0]
    return x * pow(1 + product, -1, p) % p, y * pow(1 - product, -1, p) % p


def ed25519_pairs() -> list[tuple[Point, Point]]:
    """Pairs of points of that curve: equal ones, opposite ones, and one with the neutral element too."""
    base = ECC.construct(curve="Ed25519", seed=bytes(32)).pointQ
    a = int(base.x), int(base.y)
    b = edwards_sum(a, a)
    return [(a, a), (a, b), (b, a), (a, (0, 1)), (a, ((1 << 255) - 19 - a[0], a[1]))]


def edwards_multiple(a: Point, times: int) -> Point:
    """So many times a point of Ed25519's curve."""
    total = 0, 1
    for bit in f"{times:b}":
        total = edwards_sum(total, total)
        if bit == "1":
            total = edwards_sum(total, a)
    return total


def edwards_points(rng: random.Random, count: int) -> list[Point]:
    """So many points of that curve's group, each the sum of two before it but for the first two."""
    base = ECC.construct(curve="Ed25519", seed=rng.randbytes(32)).pointQ
    points = [(int(base.x), int(base.y)), edwards_multiple((int(base.x), int(base.y)), rng.randrange(1 << 252))]
    while len(points) < count:
        points.append(edwards_sum(points[-1], rng.choice(points[:-1])))
    return points


def edwards_encoded(a: Point) -> bytes:
    """The 32 bytes of a point of Ed25519's curve (RFC 8032, 5.1.2)."""
    return (a[1] | a[0] % 2 << 255).to_bytes(32, "little")


def edwards_decoded(code: bytes) -> Point | None:
    """The point of Ed25519's curve with this encoding (RFC 8032, 5.1.3); None for an encoding of none."""
    p = (1 << 255) - 19
    sign, y = divmod(int.from_bytes(code, "little"), 1 << 255)
    square = (y * y - 1) * pow(-121665 * pow(121666, -1, p) * y * y + 1, -1, p) % p
    x = pow(square, (p + 3) // 8, p)
    if x * x % p != square:
        x = x * pow(2, (p - 1) // 4, p) % p
    if y >= p or x * x % p != square or (x == 0 and sign):
        return None
    return (x if x % 2 == sign else p - x), y


def small_edwards_points() -> list[Point]:
    """The eight points of Ed25519's curve whose orders divide 8."""
    for y in range(2, 100):
        point = edwards_decoded(y.to_bytes(32, "little"))
        small = edwards_multiple(point, ED25519_ORDER) if point else (0, 1)
        if edwards_multiple(small, 4) != (0, 1):
            return [edwards_multiple(small, k) for k in range(8)]
    raise AssertionError("no point of order 8 times a prime")
