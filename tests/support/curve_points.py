"""Points of curves and their sums, by other means than ours: two points, their sum, and twice the first."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType

from Crypto.PublicKey import ECC
from py_ecc.secp256k1 import secp256k1

Point = tuple[int, int]


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


def small_edwards_points() -> list[Point]:
    """The eight points of that curve whose orders divide 8."""
    p = (1 << 255) - 19
    order = (1 << 252) + 27742317777372353535851937790883648493
    d, root = -121665 * pow(121666, -1, p) % p, pow(2, (p - 1) // 4, p)
    for y in range(2, 100):
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        x = pow(square, (p + 3) // 8, p)
        if x * x % p != square:
            x = x * root % p
        small = edwards_multiple((x, y), order)
        if x * x % p == square and edwards_multiple(small, 4) != (0, 1):
            return [edwards_multiple(small, k) for k in range(8)]
    raise AssertionError("no point of order 8 times a prime")
