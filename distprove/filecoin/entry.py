"""The way into Filecoin's statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.entry import Entry, Exported
from distprove.errors import InvalidProof
from distprove.filecoin.options import FilecoinOptions

if TYPE_CHECKING:
    from distprove.proof import Proof, Verifier
    from distprove.system import ProofSystem


def verifier(carried: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.filecoin.verifier import FilecoinVerifier, split_key
    from distprove.groth16.keyfile import read_verification_key

    own, statement = split_key(carried)
    given = own if vk is None else read_verification_key(vk)
    if own.digest() != given.digest():
        raise InvalidProof(
            f"the proof is for key {own.digest().hex()[:16]}..., not for {given.digest().hex()[:16]}... that is given"
        )
    return FilecoinVerifier(given, statement)


def export(proof: Proof, run: Path, folder: Path) -> Exported:
    """As Groth16 exports, and proof.bin of all partitions. Nothing is verified, but proof.bin is written only where
    there is a proof for each partition, of the public inputs that follow from the statement. Raises InvalidProof."""
    from distprove.filecoin.verifier import SNARK, FilecoinVerifier, snark, split_key
    from distprove.groth16.export import export

    FilecoinVerifier(*split_key(proof.verification_key)).verify_job(proof.partitions)
    groth16 = replace(proof, verification_key=proof.verification_key["key"])
    return export(groth16, folder, {SNARK: snark(proof.partitions)})


def of_key(files: Mapping[str, Path], circuit: str | None) -> ProofSystem:
    from distprove.filecoin.system import FilecoinKey

    return FilecoinKey.of_key(files, circuit)


ENTRY = Entry(
    title="Filecoin",
    help="Prove a statement of Filecoin's from vanilla proofs, such as the output of C1, and write the bytes that its "
    "software verifies.",
    options=FilecoinOptions,
    system="distprove.filecoin.system:FilecoinSystem",
    verifier=verifier,
    remakes_key=False,
    export=export,
    of_key=of_key,
    deadlines={"winning_post": "urgent", "window_post": "high"},  # as cuzk's daemon has them
)
