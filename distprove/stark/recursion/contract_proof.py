"""The second root of a job that a contract reads, as a partition: what it must state, and its verification.

Its data are those of a node's proof (`recursion.node_proof`). It is made of the last node of the job's tree and of the
job's segments, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence

from distprove.errors import InvalidProof
from distprove.stark.barrier import Commitment
from distprove.stark.field import P
from distprove.stark.multilinear.key import MultilinearKey
from distprove.stark.multilinear.places import READ
from distprove.stark.multilinear.proof import MultilinearPart
from distprove.stark.recursion.contract import EXIT_CODE, ProgramRecord, Read
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.node import Identity
from distprove.stark.recursion.node_proof import NodeKey, kind_in, verify_under
from distprove.stark.recursion.plan import INNER, WRAP, Kind
from distprove.system import PartitionProof


def record_of(key: MultilinearKey, node_key: NodeKey, kind: Kind) -> ProgramRecord:
    """The record of the program whose segments are under `key`, in a tree with nodes of this kind: one kind of leaf,
    over segments of one form. Raises UsageError for a key whose jobs no contract reads."""
    leaf, segment = Identity.of(node_key(key, kind.of_role(0))), kind.leaves[0][0]
    circuit = ContractForm.of(key, segment.name_length, node_key(key, kind.of_role(INNER)))
    return ProgramRecord.of(circuit.digest(), key, segment.log_heights, leaf)


def segments_in(key: MultilinearKey, proofs: Sequence[PartitionProof]) -> list[Commitment]:
    """What the circuit has of the segments with these proofs. Raises FormatError."""
    parts = [MultilinearPart.of_record(proof.data, key, proof.name) for proof in proofs]
    return [part.commitment(proof.name, proof.public) for part, proof in zip(parts, proofs, strict=True)]


def read_of(
    key: MultilinearKey, node_key: NodeKey, kind: Kind, segments: Sequence[PartitionProof], output: bytes
) -> Read:
    """What a contract reads of a job of these segments, which has this output."""
    at, _ = key.statement.layout()[EXIT_CODE]
    return Read(record_of(key, node_key, kind).digest(), segments[-1].public[at], output)


def verify_read(node_key: NodeKey, proof: PartitionProof, key: MultilinearKey) -> None:
    """Raise InvalidProof or FormatError unless this is the proof of a second root that a contract reads, of the kind
    that it names."""
    kind = kind_in(proof, key)
    count = sum(size for _, size in READ)
    if kind.role != WRAP or len(proof.public) != count or not all(type(v) is int and 0 <= v < P for v in proof.public):
        raise InvalidProof(f"{proof.name}: not what a contract reads")
    verify_under(node_key(key, kind), proof)
