"""The challenges of an aggregate, drawn from everything that comes before them: bellperson's transcript, version 2.

Each challenge is SHA-256 of "snarkpack-v1", a tag and what is written, hashed with a counter from 1 on (8 bytes,
big-endian) until the digest, little-endian and cut to the bits of the scalar field, is a scalar other than 0 and 1.
So a challenge that has no inverse, or that would not combine anything, is drawn again, as in bellperson.

Version 1 drew the first challenge before the first round's values, and the point of the openings without A, B and C as
they end: a prover could choose these afterwards. There is no version 1 here.
"""

from __future__ import annotations

import hashlib

from distprove.groth16.aggregate.encoding import encode_point, encode_target
from distprove.groth16.aggregate.proof import Aggregate, Final, Round
from distprove.groth16.points import Words
from kernels.maths.curves import Curve, Group

_PREFIX = b"snarkpack-v1"


class Challenge:
    """A challenge that is being drawn: everything written into it determines it."""

    def __init__(self, curve: Curve, tag: str) -> None:
        self._curve = curve
        self._hash = hashlib.sha256(_PREFIX + tag.encode())

    def scalar(self, value: int) -> Challenge:
        self._hash.update(value.to_bytes(self._curve.fr.bytes, "little"))
        return self

    def octets(self, data: bytes) -> Challenge:
        self._hash.update(len(data).to_bytes(8, "little") + data)
        return self

    def target(self, *elements: Words) -> Challenge:
        """Elements of the target group, each (12, limbs) or several, (n, 12, limbs)."""
        for some in elements:
            self._hash.update(encode_target(self._curve, some))
        return self

    def points(self, group: Group, *points: Words) -> Challenge:
        """Points, each (point_limbs,)."""
        for point in points:
            self._hash.update(encode_point(self._curve, group, point))
        return self

    def draw(self) -> int:
        fr = self._curve.fr
        counter = 0
        while True:
            counter += 1
            self._hash.update(counter.to_bytes(8, "big"))
            value = int.from_bytes(self._hash.digest(), "little") & ((1 << fr.bits) - 1)
            if 1 < value < fr.modulus:
                return value


class Transcript:
    """The challenges of one aggregate, in the order in which prover and verifier ask for them."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve

    def combination(self, com_ab: Words, com_c: Words, included: bytes) -> int:
        """r, whose powers combine the proofs, from the commitments to A and B, and to C, and from the statement."""
        self._commitments = self._begin("hcom").target(com_ab, com_c).draw()
        self._r = self._begin("random-r").scalar(self._commitments).octets(included).draw()
        return self._r

    def products(self, ip_ab: Words, agg_c: Words) -> None:
        """Take in the two products that are claimed of the committed vectors."""
        start = self._begin("gipa-0").scalar(self._commitments).target(ip_ab).points(Group.G1, agg_c)
        self._last = start.scalar(self._r).draw()
        self._number = 0

    def fold(self, values: Round) -> int:
        """The inverse of x, which folds the vectors, from the cross terms of both sides."""
        challenge = self._begin(f"gipa-{self._number}").scalar(self._last)
        self._last = _write(challenge, values).draw()
        self._number += 1
        return self._last

    def opening(self, final: Final, last: Round) -> int:
        """z, at which the folded keys are opened, from all that the folding ended in."""
        link = self._begin("gipa-extra-link").scalar(pow(self._last, -1, self._curve.fr.modulus))
        link.points(Group.G1, final.a).points(Group.G2, final.b).points(Group.G1, final.c)
        point = self._begin("random-z").scalar(_write(link, last).draw())
        point.points(Group.G2, *final.v).points(Group.G1, *final.w)
        return point.points(Group.G1, final.a).points(Group.G2, final.b).points(Group.G1, final.c).draw()

    def _begin(self, tag: str) -> Challenge:
        return Challenge(self._curve, tag)


def _write(challenge: Challenge, values: Round) -> Challenge:
    left, right = values.left, values.right
    challenge.target(left.z_ab, right.z_ab).points(Group.G1, left.z_c, right.z_c)
    return challenge.target(left.t_ab, right.t_ab, left.t_c, right.t_c)


def challenges(aggregate: Aggregate, included: bytes) -> tuple[int, list[int], int]:
    """r, the inverse challenges of all rounds, and z, as the verifier draws them."""
    transcript = Transcript(aggregate.curve)
    r = transcript.combination(aggregate.com_ab, aggregate.com_c, included)
    transcript.products(aggregate.ip_ab, aggregate.agg_c)
    inverses = [transcript.fold(values) for values in aggregate.rounds]
    return r, inverses, transcript.opening(aggregate.final, aggregate.rounds[-1])
