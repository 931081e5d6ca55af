"""Proof files taken apart into what others read: snarkjs' JSON for Groth16, key and partition proofs for a STARK."""

from __future__ import annotations

from pathlib import Path

from distprove import canonical
from distprove.errors import InvalidProof
from distprove.files import write_atomically
from distprove.proof import Proof, encode_partition
from distprove.stark.key import VerifyingKey
from distprove.stark.keyfile import write_key

STARK_KEY = "verifying_key.msgpack"


def export_groth16(proof: Proof, folder: Path) -> None:
    """proof.json and public.json in a folder for each partition, and verification_key.json, as snarkjs writes them."""
    from distprove.groth16.keys import VerificationKey
    from distprove.groth16.proof import Groth16Proof
    from distprove.groth16.snarkjs import write_proof, write_public, write_verification_key

    for partition in proof.partitions:
        own = folder / partition.name
        own.mkdir(parents=True, exist_ok=True)
        write_proof(own / "proof.json", Groth16Proof.from_dict(partition.data))
        write_public(own / "public.json", partition.public)
    write_verification_key(folder / "verification_key.json", VerificationKey.from_dict(proof.verification_key))


def export_stark(proof: Proof, key: VerifyingKey, folder: Path) -> None:
    """The verifying key, and each partition's proof as the map that stands in proof.msgpack, canonically encoded.

    Raises InvalidProof when the proof is of another key.
    """
    if key.digest != proof.key_digest:
        raise InvalidProof("the key is not that of the proof")
    folder.mkdir(parents=True, exist_ok=True)
    write_key(folder / STARK_KEY, key)
    for partition in proof.partitions:
        write_atomically(folder / f"{partition.name}.msgpack", canonical.encode(encode_partition(partition)))
