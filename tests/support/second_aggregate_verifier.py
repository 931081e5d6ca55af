"""A second verifier of aggregates, written from docs/aggregation.md and the paper (eprint 2021/529): plain Python over
py_ecc, nothing of the project. Slow on purpose: every equation alone, every element tested by its order.

`verify` raises Refused, and nothing else, for an aggregate that does not hold. Section numbers are the document's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import msgpack
from py_ecc import optimized_bls12_381, optimized_bn128
from py_ecc.bls.point_compression import decompress_G1, decompress_G2

Point = Any
Element = Any


class Refused(Exception):
    """The aggregate is invalid."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


@dataclass(frozen=True)
class Curve:
    """What the document says of a curve."""

    lib: ModuleType
    bytes: int  # of a coordinate
    xi: int  # xi = xi + u
    exponent: int  # the document's pairing is py_ecc's to this power
    compressed: bool

    @property
    def p(self) -> int:
        return int(self.lib.field_modulus)

    @property
    def r(self) -> int:
        return int(self.lib.curve_order)


_X = 4965661367192848881
CURVES = {
    "bn128": Curve(optimized_bn128, 32, 9, 2 * _X * (6 * _X * _X + 3 * _X + 1), False),
    "bls12381": Curve(optimized_bls12_381, 48, 1, -3, True),
}


# -- 5. Bytes ---------------------------------------------------------------------------------------------------------


class Reader:
    def __init__(self, curve: Curve, data: bytes) -> None:
        self.curve, self.data, self.at = curve, data, 0

    def take(self, size: int) -> bytes:
        need(self.at + size <= len(self.data), "truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    def target(self) -> Element:
        """(c + w) / (c - w) for c in Fq6; 1 for c = 0, in the place of -1."""
        size = self.curve.bytes
        flat = [int.from_bytes(self.take(size), "little") for _ in range(6)]
        need(all(v < self.curve.p for v in flat), "a coordinate")
        if not any(flat):
            return self.curve.lib.FQ12.one()
        powers = [0] * 12
        for i in range(3):
            c0, c1 = flat[2 * i : 2 * i + 2]
            powers[2 * i] = (c0 - self.curve.xi * c1) % self.curve.p
            powers[2 * i + 6] = c1
        c, w = self.curve.lib.FQ12(powers), self.curve.lib.FQ12([0, 1] + [0] * 10)
        f = (c + w) / (c - w)
        need(f**self.curve.r == self.curve.lib.FQ12.one(), "not of the target group")
        return f

    def g1(self) -> Point:
        return point1(self.curve, self.take(self.curve.bytes * (1 if self.curve.compressed else 2)))

    def g2(self) -> Point:
        return point2(self.curve, self.take(self.curve.bytes * (2 if self.curve.compressed else 4)))


def point1(curve: Curve, data: bytes) -> Point:
    lib = curve.lib
    if curve.compressed:
        try:
            return member(curve, decompress_G1(int.from_bytes(data, "big")), lib.b)
        except ValueError:
            raise Refused("no point") from None
    x, y = coordinates(curve, data)
    return lib.Z1 if x == y == 0 else member(curve, (lib.FQ(x), lib.FQ(y), lib.FQ.one()), lib.b)


def point2(curve: Curve, data: bytes) -> Point:
    lib, half = curve.lib, len(data) // 2
    if curve.compressed:
        try:
            words = int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big")
            return member(curve, decompress_G2(words), lib.b2)
        except ValueError:
            raise Refused("no point") from None
    x1, x0, y1, y0 = coordinates(curve, data)
    if x0 == x1 == y0 == y1 == 0:
        return lib.Z2
    return member(curve, (lib.FQ2([x0, x1]), lib.FQ2([y0, y1]), lib.FQ2.one()), lib.b2)


def coordinates(curve: Curve, data: bytes) -> list[int]:
    flat = [int.from_bytes(data[i : i + curve.bytes], "big") for i in range(0, len(data), curve.bytes)]
    need(all(v < curve.p for v in flat), "a coordinate")
    return flat


def member(curve: Curve, point: Point, b: Any) -> Point:
    need(curve.lib.is_inf(point) or curve.lib.is_on_curve(point, b), "off the curve")
    need(curve.lib.is_inf(curve.lib.multiply(point, curve.r)), "outside the subgroup")
    return point


# -- 4. Challenges ----------------------------------------------------------------------------------------------------


def whole(curve: Curve, f: Element) -> bytes:
    """All twelve coordinates of an element of the target group, little-endian, in the tower's order."""
    powers = [int(v) for v in f.coeffs]
    flat: list[int] = []
    for j in range(2):
        for i in range(3):
            c1 = powers[2 * i + j + 6]
            flat += [(powers[2 * i + j] + curve.xi * c1) % curve.p, c1]
    return b"".join(v.to_bytes(curve.bytes, "little") for v in flat)


def draw(curve: Curve, tag: str, *parts: bytes) -> int:
    written = b"snarkpack-v1" + tag.encode() + b"".join(parts)
    counter = 1
    while True:
        written += counter.to_bytes(8, "big")
        value = int.from_bytes(hashlib.sha256(written).digest(), "little") % 2 ** curve.r.bit_length()
        if value not in (0, 1) and value < curve.r:
            return value
        counter += 1


# -- 3. The checks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """A verification key: points as their uncompressed bytes, as in proof.msgpack."""

    alpha1: bytes
    beta2: bytes
    gamma2: bytes
    delta2: bytes
    ic: bytes


def verify(
    name: str, key: Key, srs: dict[str, Any], public: Sequence[Sequence[int]], included: bytes, data: bytes
) -> None:
    curve = CURVES[name]
    lib, r_, n1 = curve.lib, curve.r, curve.bytes

    def scalar(value: int) -> bytes:
        return value.to_bytes(32, "little")

    def uncompressed(group: int, octets: bytes) -> Point:
        plain = Curve(lib, n1, curve.xi, curve.exponent, False)
        return (point1 if group == 1 else point2)(plain, octets)

    reader = Reader(curve, data)
    # every element, with the bytes that a point has in the transcript

    def pair(read: Any) -> tuple[Any, bytes]:
        begin = reader.at
        value = read()
        return value, data[begin : reader.at]

    com_ab = [reader.target(), reader.target()]
    com_c = [reader.target(), reader.target()]
    ip_ab = reader.target()
    agg_c, agg_c_bytes = pair(reader.g1)
    n = int.from_bytes(reader.take(4), "little")
    rounds = n.bit_length() - 1
    need(2 <= n <= 2**20 and n == 2**rounds, "no power of two")
    t_ab = [[reader.target() for _ in range(4)] for _ in range(rounds)]
    t_c = [[reader.target() for _ in range(4)] for _ in range(rounds)]
    z_ab = [[reader.target() for _ in range(2)] for _ in range(rounds)]
    z_c = [[pair(reader.g1) for _ in range(2)] for _ in range(rounds)]
    (a, a_bytes), (b, b_bytes), (c, c_bytes) = pair(reader.g1), pair(reader.g2), pair(reader.g1)
    v = [pair(reader.g2) for _ in range(2)]
    w = [pair(reader.g1) for _ in range(2)]
    opening_v = [reader.g2() for _ in range(2)]
    opening_w = [reader.g1() for _ in range(2)]
    need(reader.at == len(data), "bytes after the end")

    need(1 <= len(public) <= n and (n == 2 or len(public) > n // 2), "another number of proofs")
    need(all(0 <= x < r_ for values in public for x in values), "a public value")
    padded = [*public, *[public[-1]] * (n - len(public))]

    # 4. Challenges
    def targets(*some: Element) -> bytes:
        return b"".join(whole(curve, f) for f in some)

    hcom = draw(curve, "hcom", targets(*com_ab, *com_c))
    r = draw(curve, "random-r", scalar(hcom), len(included).to_bytes(8, "little"), included)
    last = draw(curve, "gipa-0", scalar(hcom), targets(ip_ab), agg_c_bytes, scalar(r))
    xs: list[int] = []
    cross = b""
    for i in range(rounds):
        cross = targets(*z_ab[i]) + z_c[i][0][1] + z_c[i][1][1] + targets(*t_ab[i], *t_c[i])
        last = draw(curve, f"gipa-{i}", scalar(last), cross)
        xs.append(pow(last, -1, r_))
    link = draw(curve, "gipa-extra-link", scalar(xs[-1]), a_bytes, b_bytes, c_bytes, cross)
    keys = v[0][1] + v[1][1] + w[0][1] + w[1][1]
    z = draw(curve, "random-z", scalar(link), keys, a_bytes, b_bytes, c_bytes)

    # 3. The checks, one by one
    def product(*pairs: tuple[Point, Point]) -> Element:
        f = lib.FQ12.one()
        for one, two in pairs:
            f = f * lib.pairing(two, one, final_exponentiate=False)
        f = lib.final_exponentiate(f) ** abs(curve.exponent)
        return f if curve.exponent > 0 else lib.FQ12.one() / f

    def g1(*terms: tuple[int, Point]) -> Point:
        total = lib.Z1
        for factor, point in terms:
            total = lib.add(total, lib.multiply(point, factor % r_))
        return total

    def folded(start: Element, sides: Sequence[tuple[Element, Element]]) -> Element:
        for x, (left, right) in zip(xs, sides, strict=True):
            start = start * left**x * right ** pow(x, -1, r_)
        return start

    # (a) C
    z_total = g1(
        (1, agg_c),
        *((k, p[0]) for x, pq in zip(xs, z_c, strict=True) for k, p in zip((x, pow(x, -1, r_)), pq, strict=True)),
    )
    bits = [[i >> (rounds - 1 - j) & 1 for j in range(rounds)] for i in range(n)]

    def weight(index: int, challenges: Sequence[int]) -> int:
        value = 1
        for bit, x in zip(bits[index], challenges, strict=True):
            value = value * x % r_ if bit else value
        return value

    inverses = [pow(x, -1, r_) for x in xs]
    folded_r = sum(pow(r, i, r_) * weight(i, inverses) for i in range(n))
    need(lib.eq(z_total, g1((folded_r, c))), "C")
    # (b) the folded keys, coefficient by coefficient
    f_v = sum(weight(i, inverses) * pow(z, i, r_) for i in range(n)) % r_
    f_w = sum(weight(i, xs) * pow(r, -i, r_) * pow(z, n + i, r_) for i in range(n)) % r_
    minus_g = lib.neg(lib.G1)
    one = lib.FQ12.one()
    for i, ceremony in enumerate(("alpha", "beta")):
        s1, s2 = uncompressed(1, srs[ceremony + "1"]), uncompressed(2, srs[ceremony + "2"])
        value = lib.add(v[i][0], lib.neg(lib.multiply(lib.G2, f_v)))
        need(product((minus_g, value), (g1((1, s1), (-z, lib.G1)), opening_v[i])) == one, "v")
        shifted = lib.add(s2, lib.neg(lib.multiply(lib.G2, z)))
        value = g1((-1, w[i][0]), (f_w, lib.G1))
        need(product((value, lib.G2), (opening_w[i], shifted)) == one, "w")
    # (c) what the vectors are folded into
    need(product((a, b)) == folded(ip_ab, [(s[0], s[1]) for s in z_ab]), "Z")
    for i in range(2):
        need(product((a, v[i][0]), (w[i][0], b)) == folded(com_ab[i], [(s[i], s[2 + i]) for s in t_ab]), "T")
        need(product((c, v[i][0])) == folded(com_c[i], [(s[i], s[2 + i]) for s in t_c]), "U")
    # (d) Groth16
    total = sum(pow(r, i, r_) for i in range(n))
    ic = [uncompressed(1, key.ic[i : i + 2 * n1]) for i in range(0, len(key.ic), 2 * n1)]
    need(all(len(values) == len(ic) - 1 for values in public), "another number of public values")
    sums = [sum(pow(r, i, r_) * values[k] for i, values in enumerate(padded)) for k in range(len(ic) - 1)]
    inputs = g1((total, ic[0]), *zip(sums, ic[1:], strict=True))
    right = product(
        (g1((total, uncompressed(1, key.alpha1))), uncompressed(2, key.beta2)),
        (inputs, uncompressed(2, key.gamma2)),
        (agg_c, uncompressed(2, key.delta2)),
    )
    need(right == ip_ab, "Groth16")


# -- 2. The file ------------------------------------------------------------------------------------------------------


def digest(domain: str, *values: Any) -> bytes:
    return hashlib.sha256(msgpack.packb([domain, list(values)], use_bin_type=True)).digest()


def verify_file(data: bytes, key: Key, key_digest: bytes, srs_file: bytes, jobs: Sequence[bytes]) -> None:
    """Verify aggregate.msgpack with its statement, under a key, the verifier's file, and the jobs that are expected."""
    top = msgpack.unpackb(data, raw=False)
    srs = msgpack.unpackb(srs_file, raw=False)
    fields = {name: srs[name] for name in ("alpha1", "alpha2", "beta1", "beta2", "curve", "insecure")}
    srs_digest = digest("distprove/aggregation-keys/1", fields)
    need(top["curve"] == srs["curve"] and top["key"] == key_digest and top["keys"] == srs_digest, "other keys")
    said = top["statement"]
    names, width = said["names"].split("\n"), said["values"]
    flat = [int.from_bytes(said["public"][i : i + 32], "big") for i in range(0, len(said["public"]), 32)]
    counts = [int.from_bytes(said["counts"][i : i + 4], "big") for i in range(0, len(said["counts"]), 4)]
    need(len(names) == sum(counts) and len(said["public"]) == 32 * width * len(names), "a statement")
    public = [flat[i * width : (i + 1) * width] for i in range(len(names))]
    stated: list[list[Any]] = []
    for count in counts:
        first = sum(number for _, number in stated)
        partitions = []
        for i, (name, values) in enumerate(zip(names[first:], public[first : first + count], strict=False)):
            shortest = [v.to_bytes(max(1, (v.bit_length() + 7) // 8), "big") for v in values]
            partitions.append(digest("distprove/partition/1", key_digest, i, name, shortest))
        stated.append([digest("distprove/job/1", "groth16", key_digest, count, partitions), count])
    need(top["jobs"] == b"".join(job + count.to_bytes(4, "big") for job, count in stated), "another statement")
    need([job for job, _ in stated] == list(jobs), "other jobs")
    included = digest("distprove/aggregate/1", key_digest, srs_digest, stated)
    verify(top["curve"], key, srs, public, included, top["aggregate"])
