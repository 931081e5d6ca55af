"""A job's wrap as its last partition: it needs the second root, and its proof is a Groth16 proof.

The partition's one public value is the digest of the second root's values and of a salt. Its prover draws the salt and
returns it beside the Groth16 proof: the job's list takes it from there. Of a job that a contract reads the public
values are those that it reads, and there is no salt. The proof names the verification key, too, because each machine
makes a development key of its own.

The data of the partition's proof are {salt: bin32, wrap_key: map, wrap_proof: map}, without `salt` where a contract
reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distprove.circuits.wrap.statement import READ_NAMES, read_values, statement_digest
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
from kernels.host.units import count_of
from kernels.maths.curves import BN254

GROTH16 = "groth16"
"""The name of the partition."""
_DATA: dict[str, type] = {"wrap_key": dict, "wrap_proof": dict}


def planned(key_digest: bytes, index: int, kind: Kind) -> Partition:
    """The partition of a job over partitions under the key with this digest. `kind` is that of the second root."""
    told = (key_digest, index, GROTH16, kind.to_record())
    digest = canonical.digest("distprove/stark wrap/1", *told)
    return Partition(index, GROTH16, digest, {"kind": kind.to_record()}, needs=(WRAP,))


def proven(partition: Partition, wrap: Wrap, salt: bytes | None) -> PartitionProof:
    """The partition's proof, with the salt that the wrap's public value has; None where a contract reads."""
    assert salt is None or len(salt) == SALT_BYTES
    hidden = {} if salt is None else {SALT: salt}
    data = {**hidden, "wrap_key": wrap.key.to_dict(), "wrap_proof": wrap.proof.to_dict()}
    return PartitionProof(partition.name, partition.digest, wrap.public, data)


def is_wrap(proof: PartitionProof) -> bool:
    """Whether the proof has the form of a wrap's."""
    return proof.data.keys() - {SALT} == _DATA.keys()


def wrap_in(proof: PartitionProof, *, read: bool = False) -> Wrap:
    """The wrap that the partition's proof has, not yet verified; with `read` one that a contract reads. Raises
    FormatError, InvalidKey, also for a key under which anybody can forge proofs, InvalidProof."""
    check_fields(proof.data, _DATA if read else {SALT: bytes, **_DATA}, proof.name)
    if not read:
        salt_of(proof)
    key, made = VerificationKey.from_dict(proof.data["wrap_key"]), Groth16Proof.from_dict(proof.data["wrap_proof"])
    if key.curve is not BN254 or made.curve is not BN254 or key.n_public != public_values(read):
        raise InvalidKey(f"{proof.name}: {_unlike(read)}")
    if key.weakness is not None:
        raise InvalidKey(f"{proof.name}: {key.weakness}")
    return Wrap(key, made, proof.public)


def public_values(read: bool) -> int:
    """How many public values a wrap has: those that a contract reads, or a digest."""
    return len(READ_NAMES) if read else 1


def _unlike(read: bool) -> str:
    count = public_values(read)
    return f"a wrap's key is over BN254 and has {count_of(count, 'public value')}"


def salt_of(proof: PartitionProof) -> bytes:
    """The salt of the wrap that the partition's proof has. Raises FormatError where there is none."""
    return salt_in(proof.data, proof.name)


def holds(wrap: Wrap, facts: Mapping[str, Any]) -> bool:
    """Whether a wrap holds, under the key that the job's `key_facts` name, or any key where they name none. Raises
    InvalidProof."""
    named = facts.get("wrap_key")
    return named in (None, wrap.key.digest().hex()) and verify(wrap.key, wrap.public, wrap.proof)


def states(proof: PartitionProof, children: Sequence[PartitionProof], *, read: bool = False) -> bool:
    """Whether the partition's proof states what the second root does, its only child, with the proof's own salt; with
    `read` what a contract reads of it. Raises FormatError."""
    (second,) = children
    if read:
        return proof.public == read_values(second.public)
    return proof.public == (statement_digest(second.public, salt_of(proof)),)


def read_wrap_key(source: Source, name: str, *, read: bool = False) -> ZKey:
    """A key that may be a wrap's, with `read` of one that a contract reads: its points are mapped, not read. Raises
    InputError, InvalidKey."""
    key = read_zkey(source, name=name)
    if key.curve is not BN254 or key.n_public != public_values(read):
        raise InvalidKey(f"{name}: {_unlike(read)}")
    return key


def key_facts(key: ZKey) -> dict[str, Any]:
    """What a report has of the Groth16 key of a wrap."""
    weak = key.insecure or key.verification_key.weakness is not None
    return {"insecure_wrap": weak, "wrap_key": key.verification_key.digest().hex()}
