"""Proof files taken apart into what others read: snarkjs' JSON for Groth16, key and partition proofs for a STARK.

Nothing is written through a link, and nothing over a file with another content. A partition whose name is that of the
key's file, which whoever sends a proof may choose, gets a number after it.
"""

from __future__ import annotations

from pathlib import Path

from distprove.errors import InvalidProof
from distprove.formats import canonical
from distprove.formats.folder import Folder
from distprove.formats.names import unique
from distprove.proof import Proof, encode_partition
from distprove.stark.keyfile import key_content
from distprove.stark.verifying_key import VerifyingKey

GROTH16_KEY = "verification_key.json"
STARK_KEY = "verifying_key.msgpack"


def export_groth16(proof: Proof, folder: Path) -> list[str]:
    """proof.json and public.json in a folder for each partition, and verification_key.json, as snarkjs writes them.

    Returns the partitions' folders, in order. Raises UsageError, InputError for what is there already.
    """
    from distprove.groth16.keys import VerificationKey
    from distprove.groth16.proof import Groth16Proof
    from distprove.groth16.snarkjs import format_proof, format_public, format_verification_key

    names = unique([GROTH16_KEY, *(partition.name for partition in proof.partitions)])[1:]
    with Folder.make(folder, private=False) as out:
        key = format_verification_key(VerificationKey.from_dict(proof.verification_key))
        out.write_new(GROTH16_KEY, key.encode())
        for name, partition in zip(names, proof.partitions, strict=True):
            with out.folder(name) as own:
                own.write_new("proof.json", format_proof(Groth16Proof.from_dict(partition.data)).encode())
                own.write_new("public.json", format_public(partition.public).encode())
    return names


def export_stark(proof: Proof, key: VerifyingKey, folder: Path) -> list[str]:
    """The verifying key, and each partition's proof as the map that stands in proof.msgpack, canonically encoded.

    Returns the names of the partitions' files without their suffix, in order. Raises InvalidProof when the proof is of
    another key, UsageError and InputError for what is there already.
    """
    if key.digest != proof.key_digest:
        raise InvalidProof("the key is not that of the proof")
    names = unique([Path(STARK_KEY).stem, *(partition.name for partition in proof.partitions)])[1:]
    with Folder.make(folder, private=False) as out:
        out.write_new(STARK_KEY, key_content(key))
        for name, partition in zip(names, proof.partitions, strict=True):
            out.write_new(f"{name}.msgpack", canonical.encode(encode_partition(partition)))
    return names
