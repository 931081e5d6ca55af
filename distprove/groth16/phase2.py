"""A contribution to the second phase of a ceremony: a new delta, with snarkjs' proof that its maker knows the factor.

    transcript = blake2b(circuit hash | earlier contributions | s | delta s)        s random in G1
    proof: sp = hash_to_g2(transcript), delta sp

A beacon's contribution is made in the same way, from draws that everybody can repeat. snarkjs' `zkey verify`, `zkey
contribute` and `zkey beacon` read and extend it (zkey_contribute.js, zkey_beacon.js, zkey_verify_frominit.js).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from distprove.errors import InputError
from distprove.groth16.beacon import Beacon
from distprove.groth16.draws import Draws
from distprove.groth16.hash_to_g2 import hash_to_g2
from distprove.groth16.points import to_bytes
from distprove.groth16.zkey import BEACON, PERSON, Contribution
from kernels.cpu.group import mul
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator


@dataclass(frozen=True)
class DeltaKey:
    """A contribution's secrets, or a beacon's factor, which everybody can compute."""

    factor: int = field(repr=False)
    """The non-zero scalar that delta is multiplied by."""
    s: HostArray = field(repr=False)
    """The point of G1 that the proof of knowledge begins from, (point_limbs,)."""

    @classmethod
    def random(cls, curve: Curve, factor: int | None = None) -> DeltaKey:
        """A key from the operating system's generator, with a `factor` that was drawn before if one is given."""
        s = mul(curve, Group.G1, generator(curve, Group.G1), random_scalar(curve))
        return cls(random_scalar(curve) if factor is None else factor, s)

    @classmethod
    def of_beacon(cls, curve: Curve, draws: Draws) -> DeltaKey:
        """The key that snarkjs derives from a beacon's draws. Raises InputError for a factor of zero."""
        factor = draws.scalar(curve)
        if factor == 0:
            raise InputError("the beacon's factor is zero, so that it cannot contribute")
        return cls(factor, draws.point(curve, Group.G1))


def random_scalar(curve: Curve) -> int:
    """Draw a uniform non-zero element of the scalar field from the operating system's random generator."""
    return 1 + secrets.randbelow(curve.fr.modulus - 1)


def contribution(
    curve: Curve,
    circuit_hash: bytes,
    earlier: Sequence[Contribution],
    key: DeltaKey,
    delta_after: HostArray,
    name: str | None,
    beacon: Beacon | None = None,
) -> Contribution:
    """The contribution that multiplies delta by the key's factor. `delta_after` is the new delta in G1."""
    sx = mul(curve, Group.G1, key.s, key.factor)
    digest = transcript(curve, circuit_hash, earlier, key.s, sx)
    spx = mul(curve, Group.G2, hash_to_g2(curve, digest), key.factor)
    return Contribution(
        delta_after=delta_after,
        g1_s=key.s,
        g1_sx=sx,
        g2_spx=spx,
        transcript=digest,
        kind=PERSON if beacon is None else BEACON,
        name=name or None,
        iterations_exponent=beacon.exponent if beacon else None,
        beacon=beacon.value if beacon else None,
    )


def transcript(
    curve: Curve, circuit_hash: bytes, earlier: Sequence[Contribution], s: HostArray, sx: HostArray
) -> bytes:
    """The transcript's hash, 64 bytes, of a contribution that follows the `earlier` ones."""
    digest = hashlib.blake2b(circuit_hash)
    for one in earlier:
        digest.update(public_key_bytes(curve, one))
    for point in (s, sx):
        digest.update(to_bytes(curve, Group.G1, point))
    return digest.digest()


def public_key_bytes(curve: Curve, one: Contribution) -> bytes:
    """The bytes of a contribution that its own hash and the transcripts of later contributions include."""
    g1 = (to_bytes(curve, Group.G1, point) for point in (one.delta_after, one.g1_s, one.g1_sx))
    return b"".join((*g1, to_bytes(curve, Group.G2, one.g2_spx), one.transcript))


def contribution_hash(curve: Curve, one: Contribution) -> bytes:
    """The hash of a contribution, 64 bytes, which contributors publish and snarkjs prints."""
    return hashlib.blake2b(public_key_bytes(curve, one)).digest()
