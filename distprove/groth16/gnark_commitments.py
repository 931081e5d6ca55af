"""Proofs of gnark's circuits with commitments (`api.Commit`, range checks), and their verifier.

A commitment D = sum_j w_j B_j is a Pedersen commitment to wires of the circuit, and part of the proof. Its hash, with
the public values that are committed to beside it, is the value of a further wire, which the circuit takes for a
challenge (Belling, Soleimanian, Begassat: Recursion over public-coin interactive proof systems, eprint 2022/1072; gnark
names it BSB22). One proof of knowledge says that all D are sums of their own B_j. The verifier is that of gnark 0.14.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from distprove.errors import CurveMismatch, InvalidKey, InvalidProof
from distprove.groth16 import points
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.verifier import check_public, verify
from kernels.cpu.keccak import keccak256
from kernels.cpu.pairing import combine_g1, first_invalid_point, pairing_product_is_one
from kernels.maths.curves import BLS12_381, Curve, Group
from kernels.maths.encoding import scalars_from_ints

_WIRE_DOMAIN, _FOLD_DOMAIN = b"bsb22-commitment", b"G16-BSB22"
_KEY_DOMAIN = b"distprove/groth16/committed-key/1\x00"
_SCALAR = 32
_SECURITY = 16
"""Bytes that a hash to the field takes beyond an element's, so that its values are uniform to 2^-128."""


@dataclass(frozen=True, eq=False)
class CommitmentKey:
    """The key that a proof of knowledge of one commitment is checked under: [g]_2 and [-sigma g]_2."""

    g: Words = field(repr=False)
    g_sigma_neg: Words = field(repr=False)


@dataclass(frozen=True, eq=False)
class CommittedKey:
    """A verifying key of gnark. `key` has an IC for each public value, and then one for each commitment's hash.

    `committed` has for each commitment the wires that are hashed with it, counted from 1: public values, and then the
    hashes of earlier commitments. Construction raises InvalidKey if a point is not in G2 or is infinity, if the keys do
    not share their generator, or a wire is not there.
    """

    key: VerificationKey
    committed: tuple[tuple[int, ...], ...] = ()
    commitment_keys: tuple[CommitmentKey, ...] = ()

    def __post_init__(self) -> None:
        if len(self.committed) != len(self.commitment_keys) or self.n_public < 0:
            raise InvalidKey(
                f"verifying key: {len(self.committed)} lists of committed wires, {len(self.commitment_keys)} keys of "
                f"commitments, and {self.key.n_public} wires that a verifier sees"
            )
        for k, wires in enumerate(self.committed):
            if any(not 1 <= wire <= self.n_public + k for wire in wires):
                raise InvalidKey(
                    f"verifying key: commitment {k} names a wire that is neither public nor an earlier one's"
                )
        for k, each in enumerate(self.commitment_keys):
            for name, point in (("g", each.g), ("-sigma g", each.g_sigma_neg)):
                if points.is_infinity(point) or first_invalid_point(self.key.curve, Group.G2, point[None]) is not None:
                    raise InvalidKey(f"verifying key: {name} of commitment {k} is infinity or no point of G2")
            if not np.array_equal(each.g, self.commitment_keys[0].g):
                raise InvalidKey(f"verifying key: commitments 0 and {k} have different generators")

    @property
    def n_public(self) -> int:
        """Number of public values, without the constant 1 and the commitments' hashes."""
        return self.key.n_public - len(self.committed)

    @property
    def weakness(self) -> str | None:
        """Why anybody can forge proofs under this key, as `VerificationKey.weakness` says it; None for other keys."""
        for k, each in enumerate(self.commitment_keys):
            half = len(each.g) // 2
            if np.array_equal(each.g[:half], each.g_sigma_neg[:half]):
                return f"anybody can prove knowledge of any commitment {k} under this key: its sigma is 1 or -1"
        return self.key.weakness

    def digest(self) -> bytes:
        """The key's digest, 32 bytes: that of `key` for one without commitments.

        Else SHA-256 of "distprove/groth16/committed-key/1" and a zero byte, that digest, the count of commitments, and
        for each the count of its wires, these, and its two points as `points.to_bytes` writes them. Numbers are 8
        bytes, big-endian.
        """
        if not self.committed:
            return self.key.digest()
        h = hashlib.sha256(_KEY_DOMAIN + self.key.digest() + len(self.committed).to_bytes(8, "big"))
        for wires, each in zip(self.committed, self.commitment_keys, strict=True):
            h.update(b"".join(n.to_bytes(8, "big") for n in (len(wires), *wires)))
            h.update(points.to_bytes(self.key.curve, Group.G2, np.stack([each.g, each.g_sigma_neg])))
        return h.digest()


@dataclass(frozen=True, eq=False)
class CommittedProof:
    """A proof of gnark: the commitments, (n, point_limbs), and their proof of knowledge beside its three points."""

    proof: Groth16Proof
    commitments: Words = field(repr=False)
    knowledge: Words = field(repr=False)


def _to_field(curve: Curve, message: bytes, domain: bytes) -> int:
    """hash_to_field of RFC 9380 (section 5.2) to one scalar, with expand_message_xmd of SHA-256."""
    size = curve.fr.bytes + _SECURITY
    return int.from_bytes(expand_message_xmd(message, domain, size), "big") % curve.fr.modulus


def expand_message_xmd(message: bytes, domain: bytes, size: int) -> bytes:
    """`size` bytes of expand_message_xmd (RFC 9380, section 5.3.1) with SHA-256. Raises ValueError for sizes that it
    has no bytes for."""
    blocks = -(-size // 32)
    if blocks > 255 or len(domain) > 255:
        raise ValueError(f"expand_message_xmd: {size} bytes, a domain of {len(domain)}")
    suffix = domain + bytes([len(domain)])
    first = hashlib.sha256(bytes(64) + message + size.to_bytes(2, "big") + b"\0" + suffix).digest()
    made = [hashlib.sha256(first + b"\1" + suffix).digest()]
    for k in range(2, blocks + 1):
        mixed = bytes(a ^ b for a, b in zip(first, made[-1], strict=True))
        made.append(hashlib.sha256(mixed + bytes([k]) + suffix).digest())
    return b"".join(made)[:size]


Hash = Callable[[Curve, bytes], int]
HASHES: dict[str, Hash] = {
    "rfc9380": lambda curve, data: _to_field(curve, data, _WIRE_DOMAIN),
    "keccak256": lambda curve, data: int.from_bytes(keccak256(data), "big") % curve.fr.modulus,
    "sha256": lambda curve, data: int.from_bytes(hashlib.sha256(data).digest(), "big") % curve.fr.modulus,
}
"""Functions from a commitment to its wire: gnark's default, and those of proofs that its contracts verify."""


def verify_committed(
    key: CommittedKey, public: Sequence[int], made: CommittedProof, commitment_hash: str = "rfc9380"
) -> bool:
    """Whether a proof of gnark holds. `commitment_hash` is a key of HASHES.

    Raises InvalidProof or CurveMismatch for a malformed one, as `verify` does.
    """
    inner, curve, count = key.key, key.key.curve, len(key.committed)
    # 1. Check the statement and the commitments.
    if made.proof.curve != curve:
        raise CurveMismatch(f"a proof over {made.proof.curve.title} under a key over {curve.title}")
    if len(made.commitments) != count:
        raise InvalidProof(f"the proof has {len(made.commitments)} commitments, and its key {count}")
    if not count:
        return verify(inner, public, made.proof)
    _check_public(key, public)
    members = np.concatenate([made.commitments, made.knowledge[None]])
    if first_invalid_point(curve, Group.G1, members) is not None:
        raise InvalidProof("a commitment or the proof of knowledge is not a point of G1")
    # 2. The commitments' hashes are the last values that the verifier sees.
    values = [*public]
    hashed = HASHES[commitment_hash]
    for point, wires in zip(made.commitments, key.committed, strict=True):
        seen = b"".join(values[wire - 1].to_bytes(_SCALAR, "big") for wire in wires)
        values.append(hashed(curve, _raw(curve, point) + seen))
    # 3. One proof of knowledge for all: e(sum_i r^i D_i under its own -sigma_i g) e(pok, g) = 1.
    hashes = b"".join(value.to_bytes(_SCALAR, "big") for value in values[len(public) :])
    r = _to_field(curve, hashes, _FOLD_DOMAIN)
    powers = scalars_from_ints(curve.fr, [pow(r, k, curve.fr.modulus) for k in range(count)])
    scaled = [combine_g1(curve, made.commitments[k : k + 1], powers[k : k + 1]) for k in range(count)]
    g1 = np.stack([*scaled, made.knowledge])
    g2 = np.stack([*(each.g_sigma_neg for each in key.commitment_keys), key.commitment_keys[0].g])
    if not pairing_product_is_one(curve, g1, g2):
        return False
    # 4. The equation of Groth16, with the commitments added to what IC gives.
    first = combine_g1(
        curve, np.concatenate([inner.ic[:1], made.commitments]), scalars_from_ints(curve.fr, [1] * (count + 1))
    )
    if points.is_infinity(first):
        raise InvalidProof("the commitments take the point of the constant away")
    return verify(replace(inner, ic=np.concatenate([first[None], inner.ic[1:]])), values, made.proof)


def _check_public(key: CommittedKey, public: Sequence[int]) -> None:
    if len(public) != key.n_public:
        raise InvalidProof(f"{len(public)} public values, the key has {key.n_public}")
    check_public(key.key, [*public, *[0] * len(key.committed)])


def _raw(curve: Curve, point: Words) -> bytes:
    """A point of G1 as gnark's `Marshal` writes it: in full."""
    encoded: bytes = points.to_bytes(curve, Group.G1, point)
    if curve == BLS12_381 and points.is_infinity(point):
        return b"\x40" + encoded[1:]
    return encoded
