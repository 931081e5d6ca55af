"""Verifies jobs of OpenVM's proofs, each a partition, and takes them apart into files as OpenVM writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from distprove.entry import Exported
from distprove.errors import FormatError, InvalidProof
from distprove.expected import Stated
from distprove.formats import canonical
from distprove.formats.folder import Folder
from distprove.proof import Proof
from distprove.stark.heights import encode_heights
from distprove.stark.openvm.expected import ExpectedJob
from distprove.stark.openvm.key import OpenVmKey
from distprove.stark.openvm.key_file import key_from_bytes, key_to_bytes, read_key
from distprove.stark.openvm.proof import OpenVmProof
from distprove.stark.openvm.security import security_bits
from distprove.stark.openvm.shape import Shape
from distprove.stark.openvm.stated import hex_of, stated
from distprove.stark.openvm.verifier import verify
from distprove.system import PartitionProof

KEY, PROOF = "key.bin", "proof.bin"
"""The names of an exported key, and of the proof of a job of one partition."""
HEIGHTS, ENCODED = "heights", "proof"
"""The data of a partition: the heights of its traces, as `distprove.proof.heights_of` reads them, and the proof as
OpenVM encodes it."""


def numbered(place: int) -> str:
    """The name of an exported proof of a job of several partitions, by its place in the job."""
    return f"proof-{place}.bin"


class SwirlVerifier:
    """Verifies partition proofs under one key. Implements `distprove.proof.Verifier` and `StatesMore`."""

    def __init__(self, key: OpenVmKey) -> None:
        self.key = key

    def under(self, path: Path) -> SwirlVerifier:
        """The verifier of the key in a file. Raises InvalidProof for another one; InputError, FormatError."""
        given = SwirlVerifier(read_key(path))
        if given.key_digest() != self.key_digest():
            raise InvalidProof(f"the proof is for another key than {path}")
        return given

    def key_digest(self) -> bytes:
        return self._digest

    def verification_key(self) -> dict[str, Any]:
        """The key's file, in which the preprocessed traces are too."""
        return {"file": key_to_bytes(self.key)}

    def verify(self, proof: PartitionProof) -> bool:
        """Raises FormatError or InvalidProof for a proof that does not hold."""
        made = proof_in(proof)
        verify(self.key, made)
        return (stated_values(made), stated_heights(made)) == (proof.public, proof.data[HEIGHTS])

    def verify_batch(self, proofs: list[PartitionProof]) -> bool:
        return all(map(self.verify, proofs))

    def stated(self, partition: PartitionProof) -> Stated:
        return stated(*self._read(partition))

    def expecting(self, top: Any, what: str) -> ExpectedJob:
        return ExpectedJob.of(top, what, self._read)

    def _read(self, partition: PartitionProof) -> tuple[Shape, OpenVmProof]:
        """A proof that holds, and its shape."""
        made = proof_in(partition)
        return Shape.of(self.key, made.traces), made

    def explain(self, partitions: Sequence[PartitionProof]) -> dict[str, Any]:
        """What the proofs state, and with how much security."""
        params = self.key.params
        return {
            "program": "AIRs of OpenVM 2",
            "arguments": {"airs": len(self.key.airs)},
            "says": {"key hash": hex_of(self.key.pre_hash)},
            "security": {
                "bits": security_bits(self.key),
                "blowup": 1 << params.log_blowup,
                "queries": params.whir.queries[0],
                "grinding_bits": params.whir.query_pow_bits,
                "regime": params.whir.proximity.regime,
            },
        }

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(canonical.encode(self.verification_key())).digest()


def key_in(record: dict[str, Any]) -> OpenVmKey:
    """The key that came with a proof. Raises FormatError, InvalidKey."""
    file = record.get("file")
    if record.keys() != {"file"} or not isinstance(file, bytes):
        raise FormatError("the verification key is no file of a key of OpenVM")
    return key_from_bytes(file, "the proof's own key")


def partition_proof(name: str, digest: bytes, proof: OpenVmProof) -> PartitionProof:
    """The proof as that of a partition. Its public values and its heights are all that the proof states, so that a
    job's digest fixes them."""
    data = {HEIGHTS: stated_heights(proof), ENCODED: proof.to_bytes()}
    return PartitionProof(name, digest, stated_values(proof), data)


def proof_in(proof: PartitionProof) -> OpenVmProof:
    """The proof of a partition. Raises FormatError."""
    if proof.data.keys() != {HEIGHTS, ENCODED} or not all(isinstance(each, bytes) for each in proof.data.values()):
        raise FormatError(f"partition {proof.name}: no proof of OpenVM")
    return OpenVmProof.from_bytes(proof.data[ENCODED], f"partition {proof.name}")


def stated_values(proof: OpenVmProof) -> tuple[int, ...]:
    """List what each AIR with a trace states, in the key's order: its public values, then the elements of its
    commitments to cached traces. The list and `stated_heights` together determine the AIR of each value."""
    stated = list[int]()
    for trace, values in zip(proof.traces, proof.public_values, strict=True):
        stated += values.tolist()
        stated += [] if trace is None else trace.cached_roots.reshape(-1).tolist()
    return tuple(stated)


def stated_heights(proof: OpenVmProof) -> bytes:
    """log2 of the rows of each AIR's trace, a byte for each AIR of the key, `ABSENT` for one without a trace."""
    return encode_heights([None if trace is None else trace.log_height for trace in proof.traces])


def export(proof: Proof, folder: Path) -> Exported:
    """Write the key, and each proof in OpenVM's encoding. Raises FormatError, InvalidProof."""
    verifier = SwirlVerifier(key_in(proof.verification_key))
    if verifier.key_digest() != proof.key_digest:
        raise InvalidProof("the key that came with the proof is not the one that its digest names")
    count = len(proof.partitions)
    names = [PROOF] if count == 1 else list(map(numbered, range(count)))
    with Folder.make(folder, private=False) as out:
        out.write_new(KEY, proof.verification_key["file"])
        for name, partition in zip(names, proof.partitions, strict=True):
            proof_in(partition)
            out.write_new(name, partition.data[ENCODED])
    command = ("distprove", "verify", str(folder / names[0]), "--vk", str(folder / KEY))
    return Exported(names, command, checks_all=False, own_key=True)
