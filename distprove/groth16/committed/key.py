"""The verification key of a circuit with commitments, and its proof."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from distprove.errors import FormatError, InvalidKey
from distprove.groth16 import points
from distprove.groth16.committed.names import DEFAULT, NAMES
from distprove.groth16.keys import VerificationKey
from distprove.groth16.points import Words
from distprove.groth16.proof import Groth16Proof
from distprove.proof import check_fields
from kernels.cpu.pairing import first_invalid_point
from kernels.host.units import count_of
from kernels.maths.curves import Curve, Group

MAX_COMMITMENTS = 16
_DOMAIN = b"distprove/groth16/committed-key/1\x00"
_MAX_WIRE = 1 << 32


@dataclass(frozen=True, eq=False)
class CommitmentKey:
    """The key that a proof of knowledge of one commitment is checked under: [g]_2 and [-sigma g]_2."""

    g: Words = field(repr=False)
    g_sigma_neg: Words = field(repr=False)


@dataclass(frozen=True, eq=False)
class CommittedKey:
    """A verifying key of gnark. `key` has an IC for each public value, and then one for each commitment's hash.

    `committed` has for each commitment the wires that are hashed with it, counted from 1: public values, and then the
    hashes of earlier commitments. `commitment_hash` is a key of HASHES. Construction raises InvalidKey if a point is
    not in G2 or is infinity, if the keys do not share their generator, or a wire or the hash is not there.
    """

    key: VerificationKey
    committed: tuple[tuple[int, ...], ...] = ()
    commitment_keys: tuple[CommitmentKey, ...] = ()
    commitment_hash: str = DEFAULT

    def __post_init__(self) -> None:
        if len(self.committed) != len(self.commitment_keys) or self.n_public < 0:
            raise InvalidKey(
                f"verifying key: {count_of(len(self.committed), 'list')} of committed wires, "
                f"{count_of(len(self.commitment_keys), 'key')} of "
                f"commitments, and {count_of(self.key.n_public, 'wire')} that a verifier sees"
            )
        if self.commitment_hash not in NAMES:
            raise InvalidKey(f"verifying key: commitments are hashed by {', '.join(NAMES)} only")
        for k, wires in enumerate(self.committed):
            if any(not 1 <= wire <= self.n_public + k for wire in wires):
                raise InvalidKey(
                    f"verifying key: commitment {k} names a wire that is neither public nor an earlier one's"
                )
        for k, each in enumerate(self.commitment_keys):
            for name, point in (("g", each.g), ("-sigma g", each.g_sigma_neg)):
                if points.is_infinity(point) or first_invalid_point(self.curve, Group.G2, point[None]) is not None:
                    raise InvalidKey(f"verifying key: {name} of commitment {k} is infinity or no point of G2")
            if not np.array_equal(each.g, self.commitment_keys[0].g):
                raise InvalidKey(f"verifying key: commitments 0 and {k} have different generators")

    @property
    def curve(self) -> Curve:
        return self.key.curve

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

        Otherwise SHA-256 of "distprove/groth16/committed-key/1" and a zero byte, that digest, the name of the hash and
        a zero byte, the count of commitments, and for each the count of its wires, these, and its two points as
        `points.to_bytes` writes them. Numbers are 8 bytes, big-endian.
        """
        if not self.committed:
            return self.key.digest()
        h = hashlib.sha256(_DOMAIN + self.key.digest() + self.commitment_hash.encode() + b"\x00")
        h.update(len(self.committed).to_bytes(8, "big"))
        for wires, each in zip(self.committed, self.commitment_keys, strict=True):
            h.update(b"".join(n.to_bytes(8, "big") for n in (len(wires), *wires)))
            h.update(points.to_bytes(self.curve, Group.G2, np.stack([each.g, each.g_sigma_neg])))
        return h.digest()

    def to_dict(self) -> dict[str, Any]:
        """The key as plain data for MessagePack: that of `key`, and what it has beside for commitments."""
        pairs = [np.stack([each.g, each.g_sigma_neg]) for each in self.commitment_keys]
        return {
            **self.key.to_dict(),
            "commitment_hash": self.commitment_hash,
            "commitment_keys": [points.to_bytes(self.curve, Group.G2, pair) for pair in pairs],
            "committed": [list(wires) for wires in self.committed],
        }

    @classmethod
    def from_dict(cls, data: Any) -> CommittedKey:
        """Make the key from what `to_dict` returned, without trusting it. Raises FormatError or InvalidKey."""
        what = "verification key"
        own: dict[str, type] = {"commitment_hash": str, "commitment_keys": list, "committed": list}
        if not isinstance(data, dict):
            raise FormatError(f"{what}: not a map")
        check_fields({name: data.get(name) for name in own}, own, what)
        if not 0 < len(data["commitment_keys"]) == len(data["committed"]) <= MAX_COMMITMENTS:
            raise FormatError(f"{what}: from 1 to {MAX_COMMITMENTS} commitments have a key and a list of wires each")
        key = VerificationKey.from_dict({name: value for name, value in data.items() if name not in own})
        keys, committed = [], []
        for k, (pair, wires) in enumerate(zip(data["commitment_keys"], data["committed"], strict=True)):
            if not isinstance(pair, bytes) or len(pair) != 2 * points.size(key.curve, Group.G2):
                raise FormatError(f"{what}: the key of commitment {k} is two points of G2")
            keys.append(CommitmentKey(*points.from_bytes(key.curve, Group.G2, pair, f"{what}: commitment {k}")))
            if not isinstance(wires, list) or not all(type(n) is int and 0 < n < _MAX_WIRE for n in wires):
                raise FormatError(f"{what}: the wires of commitment {k} are a list of numbers")
            committed.append(tuple(wires))
        return cls(key, tuple(committed), tuple(keys), data["commitment_hash"])


AnyVerificationKey = VerificationKey | CommittedKey


def key_from_dict(data: Any) -> AnyVerificationKey:
    """The key of either kind that `to_dict` made plain data of. Raises FormatError or InvalidKey."""
    committed = isinstance(data, dict) and "committed" in data
    return CommittedKey.from_dict(data) if committed else VerificationKey.from_dict(data)


@dataclass(frozen=True, eq=False)
class CommittedProof:
    """A proof of gnark: the commitments, (n, point_limbs), and their proof of knowledge beside its three points."""

    proof: Groth16Proof
    commitments: Words = field(repr=False)
    knowledge: Words = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The proof as plain data for MessagePack: that of `proof`, and points encoded by `points.to_bytes`."""
        curve = self.proof.curve
        return {
            **self.proof.to_dict(),
            "commitments": points.to_bytes(curve, Group.G1, self.commitments),
            "knowledge": points.to_bytes(curve, Group.G1, self.knowledge),
        }

    @classmethod
    def from_dict(cls, data: Any) -> CommittedProof:
        """Make a proof from what `to_dict` returned; its points are not checked yet. Raises FormatError."""
        own: dict[str, type] = {"commitments": bytes, "knowledge": bytes}
        if not isinstance(data, dict):
            raise FormatError("proof: not a map")
        check_fields({name: data.get(name) for name in own}, own, "proof")
        proof = Groth16Proof.from_dict({name: value for name, value in data.items() if name not in own})
        if len(data["commitments"]) > MAX_COMMITMENTS * points.size(proof.curve, Group.G1):
            raise FormatError(f"proof: more than {MAX_COMMITMENTS} commitments")
        commitments = points.from_bytes(proof.curve, Group.G1, data["commitments"], "proof: commitments")
        return cls(
            proof, commitments, points.one_from_bytes(proof.curve, Group.G1, data["knowledge"], "proof: knowledge")
        )
