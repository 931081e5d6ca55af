"""A Groth16 proof taken apart into the files that snarkjs and bellperson read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from distprove.entry import MAP, Exported
from distprove.formats.folder import Folder
from distprove.formats.names import unique
from distprove.groth16 import gnark, zcash
from distprove.groth16.committed.key import CommittedKey, CommittedProof
from distprove.groth16.job_verifier import carried_key, plain_key
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.snarkjs import format_proof, format_public, format_verification_key
from distprove.groth16.zcash_points import CURVE
from distprove.proof import Proof

KEY = "verification_key.json"
_NONE: Mapping[str, bytes] = MappingProxyType({})


def export(proof: Proof, folder: Path, beside: Mapping[str, bytes] = _NONE) -> Exported:
    """Write proof.json and public.json into a folder for each partition, and verification_key.json, as snarkjs does;
    over BLS12-381 also proof.bin, the 192 bytes that bellperson reads. `beside` are more files, by their names.

    Raises InvalidProof for a key that is not the proof's, UsageError for one of a circuit with commitments.
    """
    key = plain_key(proof, "snarkjs and its contracts take none: `distprove gnark export` writes them for gnark")
    taken = [KEY, MAP, *beside]
    names = unique([*taken, *(partition.name for partition in proof.partitions)])[len(taken) :]
    with Folder.make(folder, private=False) as out:
        out.write_new(KEY, format_verification_key(key).encode())
        for name, content in beside.items():
            out.write_new(name, content)
        for name, partition in zip(names, proof.partitions, strict=True):
            with out.folder(name) as own:
                made = Groth16Proof.from_dict(partition.data)
                own.write_new("proof.json", format_proof(made).encode())
                if made.curve is CURVE:
                    own.write_new("proof.bin", zcash.proof_to_bytes(made))
                own.write_new("public.json", format_public(partition.public).encode())
    files = (folder / KEY, folder / names[0] / "public.json", folder / names[0] / "proof.json")
    command = ("snarkjs", "groth16", "verify", *map(str, files))
    return Exported(names, command, checks_all=False, own_key=True, weakness=key.weakness)


GNARK_KEY = "verifying_key.gnark"


def export_for_gnark(proof: Proof, folder: Path) -> list[str]:
    """Write proof.gnark and public.gnark into a folder for each partition, and verifying_key.gnark. Returns the names
    of these folders, in the partitions' order.

    Raises InvalidProof for a key that is not the proof's, InputError for a curve that gnark's files are not known of.
    """
    key = carried_key(proof)
    read = CommittedProof.from_dict if isinstance(key, CommittedKey) else Groth16Proof.from_dict
    written = gnark.format_verifying_key(key)
    names = unique([GNARK_KEY, *(partition.name for partition in proof.partitions)])[1:]
    with Folder.make(folder, private=False) as out:
        out.write_new(GNARK_KEY, written)
        for name, partition in zip(names, proof.partitions, strict=True):
            with out.folder(name) as own:
                own.write_new("proof.gnark", gnark.format_proof(read(partition.data)))
                own.write_new("public.gnark", gnark.format_public(partition.public))
    return names
