"""Verifying a proof file: which key it is checked under, and what may be said afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, InvalidProof
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import read_verification_key
from distprove.groth16.verifier import verify, verify_batch
from distprove.proof import Proof, Verifier
from distprove.system import PartitionProof


@dataclass(frozen=True)
class Verified:
    """What a successful verification says."""

    system: str
    job_digest: bytes
    """Fixes number, order, names and public values of the partitions."""
    job_expected: bool
    """Whether the caller named the job digest."""
    key_digest: bytes
    key_given: bool
    """Whether the key was given. If not it came with the proof, which says nothing about whose key it is."""
    partitions: int
    seconds: float


class Groth16Verifier:
    """Verifies partition proofs under one verification key."""

    def __init__(self, key: VerificationKey) -> None:
        self.key = key

    def key_digest(self) -> bytes:
        return self.key.digest()

    def verify(self, proof: PartitionProof) -> bool:
        return verify(self.key, proof.public, Groth16Proof.from_dict(proof.data))

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return verify_batch(self.key, [(proof.public, Groth16Proof.from_dict(proof.data)) for proof in proofs])


def load_verifier(system: str, own_key: dict[str, Any], vk: Path | None) -> Verifier:
    """The verifier of `system` under the key in the file `vk`, or else under `own_key`, which came with the proof."""
    if system == "groth16":
        return Groth16Verifier(VerificationKey.from_dict(own_key) if vk is None else read_verification_key(vk))
    raise FormatError(f"the proof is of system {system!r}, which this distprove cannot verify")


def verify_proof(proof: Proof, vk: Path | None = None, expected_job: bytes | None = None) -> Verified:
    """Verify all partitions as one batch; see `distprove.api.verify`. Raises InvalidProof, FormatError, InputError."""
    begin = time.perf_counter()
    verifier = load_verifier(proof.system, proof.verification_key, vk)
    if vk is None and verifier.key_digest() != proof.key_digest:
        raise InvalidProof("the key that came with the proof is not the one that its digest names")
    proof.verify(verifier, expected_job)
    return Verified(
        system=proof.system,
        job_digest=proof.job_digest,
        job_expected=expected_job is not None,
        key_digest=proof.key_digest,
        key_given=vk is not None,
        partitions=len(proof.partitions),
        seconds=time.perf_counter() - begin,
    )
