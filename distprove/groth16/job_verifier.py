"""Verification of the partitions of a job, under a key of either kind: of a circuit with commitments, or without."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.groth16.committed.key import AnyVerificationKey, CommittedKey, CommittedProof, key_from_dict
from distprove.groth16.committed.verifier import (
    CommittedStatement,
    find_invalid_committed,
    verify_committed,
    verify_committed_batch,
)
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.verifier import Statement, find_invalid, verify, verify_batch
from distprove.proof import Proof
from distprove.system import PartitionProof


class Groth16Verifier:
    """Verifies partition proofs under one verification key. Implements `distprove.proof.Verifier`."""

    def __init__(self, key: AnyVerificationKey) -> None:
        self.key = key

    def key_digest(self) -> bytes:
        return self.key.digest()

    def weakness(self) -> str | None:
        return self.key.weakness

    def verify(self, proof: PartitionProof) -> bool:
        if isinstance(self.key, CommittedKey):
            return verify_committed(self.key, *_committed(proof))
        return verify(self.key, *_plain(proof))

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        if isinstance(self.key, CommittedKey):
            return verify_committed_batch(self.key, [_committed(proof) for proof in proofs])
        made = Groth16Proof.from_dicts([proof.data for proof in proofs])
        return verify_batch(self.key, [(proof.public, each) for proof, each in zip(proofs, made, strict=True)])

    def find_invalid(self, proofs: list[PartitionProof]) -> list[int]:
        """Indices of the proofs that are malformed or false, in order, found by bisection of the batch."""
        read = _committed if isinstance(self.key, CommittedKey) else _plain
        statements: dict[int, CommittedStatement | Statement] = {}
        for index, proof in enumerate(proofs):
            with contextlib.suppress(FormatError, InvalidProof):
                statements[index] = read(proof)
        formed = list(statements)
        false = {formed[place] for place in self._false(list(statements.values()))}
        return [index for index in range(len(proofs)) if index not in statements or index in false]

    def _false(self, statements: Sequence[CommittedStatement | Statement]) -> list[int]:
        plain = [(public, made) for public, made in statements if isinstance(made, Groth16Proof)]
        committed = [(public, made) for public, made in statements if isinstance(made, CommittedProof)]
        if isinstance(self.key, CommittedKey):
            return find_invalid_committed(self.key, committed)
        return find_invalid(self.key, plain)


def _plain(proof: PartitionProof) -> Statement:
    return proof.public, Groth16Proof.from_dict(proof.data)


def _committed(proof: PartitionProof) -> CommittedStatement:
    return proof.public, CommittedProof.from_dict(proof.data)


def carried_key(proof: Proof) -> AnyVerificationKey:
    """The key that a job's proof carries. Raises FormatError, InvalidKey; InvalidProof unless its digest names it."""
    key = key_from_dict(proof.verification_key)
    if key.digest() != proof.key_digest:
        raise InvalidProof("the key that came with the proof is not the one that its digest names")
    return key


def plain_key(proof: Proof, why_not: str) -> VerificationKey:
    """The key that a job's proof carries, as `carried_key`. Raises UsageError, which ends with `why_not`, for the key
    of a circuit with commitments."""
    key = carried_key(proof)
    if isinstance(key, CommittedKey):
        raise UsageError(f"the proofs have commitments (gnark's api.Commit, range checks), and {why_not}")
    return key
