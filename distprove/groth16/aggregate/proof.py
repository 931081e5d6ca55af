"""An aggregate and its bytes, over BLS12-381 those of bellperson's `AggregateProof`:

    com_ab T U | com_c T U | ip_ab | agg_c | n, u32 little-endian
    of each round: T_l U_l T_r U_r of A and B | of each round: the same of C | of each: Z_l Z_r | of each: z_l z_r
    A | B | C | v alpha, v beta | w alpha, w beta | openings of v alpha, v beta | of w alpha, w beta

Upper-case values but A, B and C are elements of the target group, compressed (`encoding`). One, for which
bellperson has no bytes, is zero bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from distprove.errors import FormatError, UsageError
from distprove.groth16.aggregate.encoding import (
    compress_target,
    decode_point,
    decompress_target,
    encode_point,
    point_bytes,
    target_bytes,
)
from distprove.groth16.points import Words
from distprove.host.beside import begin
from kernels.cpu.pairing import first_invalid_point
from kernels.cpu.target_group import one
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group

MAX_ROUNDS = 20
"""Maximum rounds: 2^20 proofs, more than the keys of bellperson's set-up serve."""
_TARGETS = 10
"""Elements of the target group in a round."""


@dataclass(frozen=True)
class Side:
    """The cross terms of one side of a round."""

    targets: Words = field(repr=False)
    """(5, 12, limbs): the product of A and B, the commitment to them (T, U), the commitment to C (T, U)."""
    z_c: Words = field(repr=False)
    """The product of C and the powers of r, a point of G1."""

    @property
    def z_ab(self) -> Words:
        return self.targets[:1]

    @property
    def t_ab(self) -> Words:
        return self.targets[1:3]

    @property
    def t_c(self) -> Words:
        return self.targets[3:5]


@dataclass(frozen=True)
class Round:
    """The cross terms of one round of folding."""

    left: Side
    right: Side


@dataclass(frozen=True)
class Final:
    """What the vectors are folded into: points of G1, but B and v, which are of G2. v and w are (2, point_limbs)."""

    a: Words = field(repr=False)
    b: Words = field(repr=False)
    c: Words = field(repr=False)
    v: Words = field(repr=False)
    w: Words = field(repr=False)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """An aggregate of 2^len(rounds) proofs. One that `from_bytes` made has only members of the groups."""

    curve: Curve
    com_ab: Words = field(repr=False)
    """The commitment to A and B: T and U, (2, 12, limbs)."""
    com_c: Words = field(repr=False)
    ip_ab: Words = field(repr=False)
    """The product of e(A_i, B_i)^(r^i), (12, limbs)."""
    agg_c: Words = field(repr=False)
    """The sum of r^i C_i."""
    rounds: tuple[Round, ...] = field(repr=False)
    final: Final = field(repr=False)
    opening_v: Words = field(repr=False)
    """KZG openings of the folded v, (2, point_limbs) in G2."""
    opening_w: Words = field(repr=False)

    @property
    def n(self) -> int:
        """Number of proofs, with those that pad it to a power of two."""
        return 1 << len(self.rounds)

    def to_bytes(self) -> bytes:
        """The bytes of the module's text."""

        def targets(*some: Words) -> bytes:
            return compress_target(self.curve, np.concatenate(some)) if some else b""

        def points(group: Group, *some: Words) -> bytes:
            return b"".join(encode_point(self.curve, group, point) for point in some)

        sides = [(values.left, values.right) for values in self.rounds]
        final = self.final
        return b"".join(
            (
                targets(self.com_ab, self.com_c, self.ip_ab[None]),
                points(Group.G1, self.agg_c),
                self.n.to_bytes(4, "little"),
                targets(*(side.t_ab for both in sides for side in both)),
                targets(*(side.t_c for both in sides for side in both)),
                targets(*(side.z_ab for both in sides for side in both)),
                points(Group.G1, *(side.z_c for both in sides for side in both)),
                points(Group.G1, final.a) + points(Group.G2, final.b) + points(Group.G1, final.c),
                points(Group.G2, *final.v) + points(Group.G1, *final.w),
                points(Group.G2, *self.opening_v) + points(Group.G1, *self.opening_w),
            )
        )

    def for_bellperson(self) -> bytes:
        """The same bytes, for a verifier of bellperson. Raises UsageError for what it has no bytes for."""
        sides = [side.targets for values in self.rounds for side in (values.left, values.right)]
        elements = np.concatenate([self.com_ab, self.com_c, self.ip_ab[None], *sides])
        if (elements == one(self.curve)).all(axis=(1, 2)).any():
            raise UsageError(
                "bellperson has no bytes for this aggregate: it holds a 1, as where C of proofs is infinity"
            )
        return self.to_bytes()

    @classmethod
    def from_bytes(cls, curve: Curve, data: bytes, what: str = "aggregate", threads: int = 1) -> Aggregate:
        """Read what `to_bytes` wrote, and check that every element is canonical and a member of its group.

        Raises FormatError.
        """
        at = 5 * target_bytes(curve) + point_bytes(curve, Group.G1)
        n = int.from_bytes(data[at : at + 4], "little")
        log_n = n.bit_length() - 1
        if len(data) < at + 4 or n != 1 << max(log_n, 1) or log_n > MAX_ROUNDS:
            raise FormatError(f"{what}: no aggregate of a power of two of proofs, from 2 to 2^{MAX_ROUNDS}")
        if len(data) != size_of(curve, log_n):
            raise FormatError(
                f"{what}: {count_of(len(data), 'byte')}, an aggregate of {count_of(n, 'proof')} has "
                f"{size_of(curve, log_n)}"
            )
        reader = _Reader(curve, data, what)
        first = reader.take(5 * target_bytes(curve))
        agg_c = reader.points(Group.G1, 1)
        reader.take(4)
        targets = first + reader.take(_TARGETS * log_n * target_bytes(curve))
        decompressed = begin(threads, lambda: decompress_target(curve, targets, what, threads))
        z_c = reader.points(Group.G1, 2 * log_n)
        a, b, c = reader.points(Group.G1, 1), reader.points(Group.G2, 1), reader.points(Group.G1, 1)
        v, w = reader.points(Group.G2, 2), reader.points(Group.G1, 2)
        opening_v, opening_w = reader.points(Group.G2, 2), reader.points(Group.G1, 2)
        for group, points in (
            (Group.G1, np.concatenate([agg_c, z_c, a, c, w, opening_w])),
            (Group.G2, np.concatenate([b, v, opening_v])),
        ):
            if first_invalid_point(curve, group, points) is not None:
                raise FormatError(f"{what}: a point is not in {group.name} of {curve.title}")
        elements = decompressed()
        t_ab, t_c = elements[5:][: 4 * log_n], elements[5:][4 * log_n : 8 * log_n]
        z_ab = elements[5:][8 * log_n :]

        def side(i: int) -> Side:
            return Side(np.concatenate([z_ab[i : i + 1], t_ab[2 * i : 2 * i + 2], t_c[2 * i : 2 * i + 2]]), z_c[i])

        return cls(
            curve=curve,
            com_ab=elements[:2],
            com_c=elements[2:4],
            ip_ab=elements[4],
            agg_c=agg_c[0],
            rounds=tuple(Round(side(2 * i), side(2 * i + 1)) for i in range(log_n)),
            final=Final(a[0], b[0], c[0], v, w),
            opening_v=opening_v,
            opening_w=opening_w,
        )


def size_of(curve: Curve, log_n: int) -> int:
    """Bytes of an aggregate of 2^log_n proofs."""
    g1, g2 = point_bytes(curve, Group.G1), point_bytes(curve, Group.G2)
    return (5 + _TARGETS * log_n) * target_bytes(curve) + 4 + (7 + 2 * log_n) * g1 + 5 * g2


class _Reader:
    """Takes an aggregate apart, whose length has been checked."""

    def __init__(self, curve: Curve, data: bytes, what: str) -> None:
        self._curve, self._data, self._what = curve, data, what
        self._at = 0

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def points(self, group: Group, count: int) -> Words:
        size = point_bytes(self._curve, group)
        what = f"{self._what}, byte {self._at}"
        return np.stack([decode_point(self._curve, group, self.take(size), what) for _ in range(count)])
