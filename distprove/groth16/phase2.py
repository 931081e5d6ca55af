"""A contribution to the second phase of a ceremony: a new delta, with snarkjs' proof that its maker knows the factor.

    transcript = blake2b(circuit hash | earlier contributions | s | delta s)        s random in G1
    proof: sp = hash_to_g2(transcript), delta sp

snarkjs' `zkey verify` and `zkey contribute` read and extend it (zkey_contribute.js, zkey_verify_frominit.js).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from distprove.groth16.hash_to_g2 import hash_to_g2
from distprove.groth16.points import to_bytes
from distprove.groth16.zkey import Contribution
from kernels.cpu.group import mul
from kernels.interface.arrays import HostArray
from kernels.maths.curves import Curve, Group
from kernels.maths.encoding import generator


def random_scalar(curve: Curve) -> int:
    """Draw a uniform non-zero element of the scalar field from the operating system's random generator."""
    return 1 + secrets.randbelow(curve.fr.modulus - 1)


def contribution(
    curve: Curve,
    circuit_hash: bytes,
    earlier: Sequence[Contribution],
    factor: int,
    delta_after: HostArray,
    name: str,
) -> Contribution:
    """The contribution that multiplies delta by the secret `factor`. `delta_after` is the new delta in G1."""
    transcript = hashlib.blake2b(circuit_hash)
    for one in earlier:
        transcript.update(public_key_bytes(curve, one))
    s = mul(curve, Group.G1, generator(curve, Group.G1), random_scalar(curve))
    sx = mul(curve, Group.G1, s, factor)
    for point in (s, sx):
        transcript.update(to_bytes(curve, Group.G1, point))
    digest = transcript.digest()
    spx = mul(curve, Group.G2, hash_to_g2(curve, digest), factor)
    return Contribution(delta_after=delta_after, g1_s=s, g1_sx=sx, g2_spx=spx, transcript=digest, name=name)


def public_key_bytes(curve: Curve, one: Contribution) -> bytes:
    """The bytes of a contribution that its own hash and the transcripts of later contributions include."""
    g1 = (to_bytes(curve, Group.G1, point) for point in (one.delta_after, one.g1_s, one.g1_sx))
    return b"".join((*g1, to_bytes(curve, Group.G2, one.g2_spx), one.transcript))


def contribution_hash(curve: Curve, one: Contribution) -> bytes:
    """The hash of a contribution, 64 bytes, which contributors publish and snarkjs prints."""
    return hashlib.blake2b(public_key_bytes(curve, one)).digest()
