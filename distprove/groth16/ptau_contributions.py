"""The contributions to a powers-of-tau ceremony, section 7 of a `.ptau` file (snarkjs: powersoftau_utils.js).

tau G1 | tau G2 | alpha G1 | beta G1 | beta G2           after the contribution
s, s x for each of tau, alpha, beta, in G1; then sp x for each in G2: the proofs that its maker knew the factors x
state of the response's hash (216 bytes) | next challenge (64 bytes) | kind u32 | parameters

challenge_0  = blake2b(blake2b("") | all points of the file with tau = alpha = beta = 1)
sp           = hash_to_g2(blake2b(number of the secret, one byte | challenge | s | s x))
response     = blake2b(challenge | all points, compressed | s, s x, sp x)
next challenge = blake2b(response | all points)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from distprove.groth16.binfile import SectionReader
from distprove.groth16.blake2b import STATE_BYTES, resumed_digest
from distprove.groth16.draws import Draws
from distprove.groth16.hash_to_g2 import hash_to_g2
from distprove.groth16.points import Words, to_bytes
from distprove.groth16.ptau import Ptau
from distprove.groth16.zkey import read_parameters
from kernels.cpu.group import mul
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator

CHALLENGE_BYTES = 64
FIRST_CHALLENGES = {
    ("bn128", 28): bytes.fromhex(
        "93da91920d5a54a8a0fde55cd9dc3a10c4f3eef768b62c0948741370864254b4"
        "c1920f3f29d4ebc0ef3acecf2e2db63a755713d77e1ed77347a56fbc317c7a93"
    ),
}
"""First challenges whose hashing takes minutes, by curve and power: of the ceremony that most files are cut from."""
_HASHED_AT_ONCE = 1 << 14
"""Generators that the first challenge's hash takes at a time."""


class Secret(IntEnum):
    """The secrets of a powers-of-tau ceremony, by the byte that their proofs hash."""

    TAU = 0
    ALPHA = 1
    BETA = 2


@dataclass(frozen=True)
class PublicKey:
    """What shows that a contributor knew the factor of one secret. Points are (point_limbs,) uint64."""

    g1_s: Words
    g1_sx: Words
    g2_spx: Words


@dataclass(frozen=True)
class Heads:
    """The first powers after a contribution. Points are (point_limbs,) uint64."""

    tau1: Words
    tau2: Words
    alpha1: Words
    beta1: Words
    beta2: Words

    @classmethod
    def initial(cls, curve: Curve) -> Heads:
        """Those before any contribution: tau = alpha = beta = 1."""
        one, two = generator(curve, Group.G1), generator(curve, Group.G2)
        return cls(one, two, one, one, two)


@dataclass(frozen=True)
class PtauContribution:
    """A contribution to a powers-of-tau ceremony."""

    heads: Heads
    keys: dict[Secret, PublicKey]
    state: bytes = field(repr=False)
    """The state of the response's hash before the keys."""
    next_challenge: bytes
    kind: int
    """`PERSON` or `BEACON` of `distprove.groth16.zkey`."""
    name: str | None
    iterations_exponent: int | None
    beacon: bytes | None

    def response(self, curve: Curve) -> bytes:
        """The response's hash, 64 bytes, which contributors publish. Raises ValueError for a damaged state."""
        return resumed_digest(self.state, keys_bytes(curve, self.keys))


def read_contributions(ptau: Ptau) -> tuple[PtauContribution, ...]:
    """Read section 7. The points are not checked. Raises FormatError."""
    section = ptau.file.section(7, "contributions")
    found = tuple(_read_contribution(section, ptau.curve) for _ in range(section.u32()))
    section.finish()
    return found


def _read_contribution(section: SectionReader, curve: Curve) -> PtauContribution:
    def point(group: Group) -> Words:
        return np.frombuffer(section.take(8 * curve.point_limbs(group)).tobytes(), dtype="<u8")

    g1, g2 = Group.G1, Group.G2
    heads = Heads(*(point(group) for group in (g1, g2, g1, g1, g2)))
    first = [(point(g1), point(g1)) for _ in Secret]
    keys = {secret: PublicKey(*pair, point(g2)) for secret, pair in zip(Secret, first, strict=True)}
    state, challenge = section.take(STATE_BYTES).tobytes(), section.take(CHALLENGE_BYTES).tobytes()
    kind = section.u32()
    return PtauContribution(heads, keys, state, challenge, kind, *read_parameters(section))


def keys_bytes(curve: Curve, keys: dict[Secret, PublicKey]) -> bytes:
    """The public keys as a response hashes them."""
    first = [to_bytes(curve, Group.G1, point) for key in keys.values() for point in (key.g1_s, key.g1_sx)]
    return b"".join((*first, *(to_bytes(curve, Group.G2, key.g2_spx) for key in keys.values())))


def second_base(curve: Curve, secret: Secret, challenge: bytes, s: HostArray, sx: HostArray) -> HostArray:
    """The point sp of G2 that the proof of knowledge for `secret` is made with."""
    digest = hashlib.blake2b(bytes([secret]) + challenge)
    for point in (s, sx):
        digest.update(to_bytes(curve, Group.G1, point))
    return hash_to_g2(curve, digest.digest())


def drawn_keys(curve: Curve, challenge: bytes, draws: Draws) -> tuple[dict[Secret, int], dict[Secret, PublicKey]]:
    """The factors and public keys that a stream of draws makes, as a beacon's does: first all factors, then each s."""
    factors = {secret: draws.scalar(curve) for secret in Secret}
    keys = {}
    for secret, factor in factors.items():
        s = draws.point(curve, Group.G1)
        sx = mul(curve, Group.G1, s, factor)
        sp = second_base(curve, secret, challenge, s, sx)
        keys[secret] = PublicKey(s, sx, mul(curve, Group.G2, sp, factor))
    return factors, keys


def first_challenge(curve: Curve, power: int) -> bytes:
    """The challenge of the first contribution to a ceremony of 2^power: 384 MiB are hashed for 2^20 of BN254, unless it
    is known."""
    known = FIRST_CHALLENGES.get((curve.name, power))
    return known if known is not None else hashed_first_challenge(curve, power)


def hashed_first_challenge(curve: Curve, power: int) -> bytes:
    """`first_challenge` from the points of an empty ceremony."""
    digest = hashlib.blake2b(hashlib.blake2b().digest())
    one, two = (to_bytes(curve, group, generator(curve, group)) for group in (Group.G1, Group.G2))
    for point, count in ((one, (2 << power) - 1), (two, 1 << power), (one, 1 << power), (one, 1 << power), (two, 1)):
        many = point * min(count, _HASHED_AT_ONCE)
        for _ in range(count // _HASHED_AT_ONCE):
            digest.update(many)
        digest.update(point * (count % _HASHED_AT_ONCE))
    return digest.digest()
