"""A job's wrap as its last partition: it needs the second root, and its proof is a Groth16 proof.

The partition's one public value is the digest of the second root's values and of a salt. Its prover draws the salt and
returns it beside the Groth16 proof: the job's list takes it from there. The proof names the verification key, too,
because each machine makes a development key of its own.

The data of the partition's proof are {salt: bin32, wrap_key: map, wrap_proof: map}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distprove.circuits.wrap.statement import statement_digest
from distprove.errors import InvalidKey
from distprove.formats import canonical
from distprove.groth16.binfile import Source
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.verifier import verify
from distprove.groth16.zkey import ZKey, read_zkey
from distprove.proof import SALT, SALT_BYTES, check_fields, salt_in
from distprove.stark.recursion.plan import WRAP, Kind
from distprove.stark.wrap.files import Wrap
from distprove.system import Partition, PartitionProof
from kernels.maths.curves import BN254

GROTH16 = "groth16"
"""The name of the partition."""
_DATA: dict[str, type] = {SALT: bytes, "wrap_key": dict, "wrap_proof": dict}


def planned(key_digest: bytes, index: int, kind: Kind) -> Partition:
    """The partition of a job over partitions under the key with this digest. `kind` is that of the second root."""
    told = (key_digest, index, GROTH16, kind.to_record())
    digest = canonical.digest("distprove/stark wrap/1", *told)
    return Partition(index, GROTH16, digest, {"kind": kind.to_record()}, needs=(WRAP,))


def proven(partition: Partition, wrap: Wrap, salt: bytes) -> PartitionProof:
    """The partition's proof, with the salt that the wrap's public value has."""
    assert len(salt) == SALT_BYTES
    data = {SALT: salt, "wrap_key": wrap.key.to_dict(), "wrap_proof": wrap.proof.to_dict()}
    return PartitionProof(partition.name, partition.digest, wrap.public, data)


def is_wrap(proof: PartitionProof) -> bool:
    """Whether the proof has the form of a wrap's."""
    return proof.data.keys() == _DATA.keys()


def wrap_in(proof: PartitionProof) -> Wrap:
    """The wrap that the partition's proof has, not yet verified. Raises FormatError, InvalidKey, also for a key under
    which anybody can forge proofs, InvalidProof."""
    check_fields(proof.data, _DATA, proof.name)
    salt_of(proof)
    key, made = VerificationKey.from_dict(proof.data["wrap_key"]), Groth16Proof.from_dict(proof.data["wrap_proof"])
    if key.curve is not BN254 or made.curve is not BN254 or key.n_public != 1:
        raise InvalidKey(f"{proof.name}: a wrap's key is over BN254 and has one public value")
    if key.weakness is not None:
        raise InvalidKey(f"{proof.name}: {key.weakness}")
    return Wrap(key, made, proof.public)


def salt_of(proof: PartitionProof) -> bytes:
    """The salt of the wrap that the partition's proof has. Raises FormatError where there is none."""
    return salt_in(proof.data, proof.name)


def holds(wrap: Wrap, facts: Mapping[str, Any]) -> bool:
    """Whether a wrap holds, under the key that the job's `key_facts` name, or any key where they name none. Raises
    InvalidProof."""
    named = facts.get("wrap_key")
    return named in (None, wrap.key.digest().hex()) and verify(wrap.key, wrap.public, wrap.proof)


def states(proof: PartitionProof, children: Sequence[PartitionProof]) -> bool:
    """Whether the partition's proof states what the second root does, its only child, with the proof's own salt. Raises
    FormatError."""
    (second,) = children
    return proof.public == (statement_digest(second.public, salt_of(proof)),)


def read_wrap_key(source: Source, name: str) -> ZKey:
    """A key that may be a wrap's: its points are mapped, not read. Raises InputError, InvalidKey."""
    key = read_zkey(source, name=name)
    if key.curve is not BN254 or key.n_public != 1:
        raise InvalidKey(f"{name}: a wrap's key is over BN254 and has one public value")
    return key


def key_facts(key: ZKey) -> dict[str, Any]:
    """What a report has of the Groth16 key of a wrap."""
    weak = key.insecure or key.verification_key.weakness is not None
    return {"insecure_wrap": weak, "wrap_key": key.verification_key.digest().hex()}
