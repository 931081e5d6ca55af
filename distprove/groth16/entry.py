"""The way into Groth16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.entry import Entry, Exported
from distprove.errors import InvalidProof
from distprove.groth16.options import Groth16Options

if TYPE_CHECKING:
    from distprove.proof import Proof, Verifier
    from distprove.system import ProofSystem


def verifier(own_key: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.groth16.committed.key import key_from_dict
    from distprove.groth16.job_verifier import Groth16Verifier
    from distprove.groth16.keyfile import read_trusted_key

    own = key_from_dict(own_key)
    given = own if vk is None else read_trusted_key(vk, own)
    if own.digest() != given.digest():  # the file says whose key it is twice, and both must be true
        raise InvalidProof(
            f"the proof is for key {own.digest().hex()[:16]}..., not for {given.digest().hex()[:16]}... that is given"
        )
    return Groth16Verifier(given)


def export(proof: Proof, run: Path, folder: Path) -> Exported:
    from distprove.groth16.export import export

    return export(proof, folder)


def contracts(proof: Proof, folder: Path, names: Sequence[str]) -> tuple[str, str]:
    from distprove.groth16.solidity import write_contracts

    return write_contracts(proof, folder, names)


def contract_of_key(key: Path, folder: Path) -> tuple[str, str | None]:
    from distprove.groth16.solidity import write_contract_of

    return write_contract_of(key, folder)


def of_key(files: Mapping[str, Path], circuit: str | None) -> ProofSystem:
    from distprove.groth16.system import Groth16System

    return Groth16System.of_key(files, circuit)


ENTRY = Entry(
    title="Groth16",
    help="Prove a circuit for many inputs or witnesses: a partition for each, named after its file.",
    options=Groth16Options,
    system="distprove.groth16.system:Groth16System",
    verifier=verifier,
    remakes_key=False,
    export=export,
    contracts=contracts,
    contract_of_key=contract_of_key,
    of_key=of_key,
)
