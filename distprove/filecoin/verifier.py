"""Verifies proofs of Filecoin's statements: each partition under a Groth16 key, with derived public inputs."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from distprove.errors import InvalidProof, VanillaMismatch
from distprove.filecoin.kinds import statement_of
from distprove.filecoin.sectors import types_of
from distprove.filecoin.statement import Statement, digest_of
from distprove.groth16.job_verifier import Groth16Verifier
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.zcash import proof_to_bytes
from distprove.proof import check_fields
from distprove.system import PartitionProof
from kernels.host.units import count_of

SNARK = "proof.bin"
"""The file of the partitions' proofs, one after the other, as Filecoin's software takes them."""


class Stated:
    """What provers and verifiers of a statement share: `VerifiesJob` and `Explains` of `distprove.system`."""

    statement: Statement

    def verify_job(self, proofs: Sequence[PartitionProof]) -> None:
        """Raise InvalidProof unless there is a proof for each partition, of the public inputs that follow from the
        statement."""
        if len(proofs) != self.statement.partitions:
            raise InvalidProof(
                f"{count_of(len(proofs), 'partition')}, and the statement has {self.statement.partitions}"
            )
        for number, proof in enumerate(proofs):
            derived = self.statement.public_inputs(number)
            if list(proof.public) != derived:
                wrong = [k for k, (a, b) in enumerate(zip(proof.public, derived, strict=False)) if a != b]
                raise InvalidProof(
                    f"partition {number}: the public inputs are not those that follow from the statement"
                    + (f", from input {wrong[0]} on" if wrong else "")
                )

    def explain(self, proofs: Sequence[PartitionProof]) -> dict[str, Any]:
        return {
            "stated": {
                "circuit": self.statement.circuit,
                **self.statement.says(),
                "statement digest": digest_of(self.statement).hex(),
            },
            "published": {SNARK: base64.b64encode(snark(proofs)).decode()},
        }


def snark(proofs: Sequence[PartitionProof]) -> bytes:
    """The proofs of all partitions as Filecoin takes them: 192 bytes each, A, B and C compressed."""
    return b"".join(map(proof_to_bytes, Groth16Proof.from_dicts([proof.data for proof in proofs])))


class FilecoinVerifier(Stated, Groth16Verifier):
    """Verifies a job's proofs. Implements `distprove.proof.Verifier` and `StatesCircuit`.

    Circuits of several sizes have the same number of public inputs. So a proof under the key of one holds with the
    statement of another, if the key is not known to be of the circuit that the statement names.
    """

    def __init__(self, key: VerificationKey, statement: Statement) -> None:
        super().__init__(key)
        self.statement = statement

    def stated_circuit(self) -> str:
        return self.statement.circuit

    def stated_type(self) -> str:
        return self.statement.proof.name

    def types_of_circuit(self) -> list[str]:
        return types_of(self.statement.circuit)


def split_key(carried: dict[str, Any]) -> tuple[VerificationKey, Statement]:
    """The Groth16 key and the statement that a proof carries, from untrusted data. Raises FormatError, InvalidProof."""
    check_fields(carried, {"key": dict, "kind": str, "statement": dict}, "the proof's key")
    try:
        return VerificationKey.from_dict(carried["key"]), statement_of(carried["kind"], carried["statement"])
    except VanillaMismatch as error:
        raise InvalidProof(f"the statement: {error}") from None
