"""The way into the STARK."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.entry import Entry, Exported, OwnProgram
from distprove.errors import InvalidProof
from distprove.stark.options import StarkOptions

if TYPE_CHECKING:
    from distprove.proof import Proof, Verifier


def verifier(own_key: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.stark.job_verifier import StarkVerifier
    from distprove.stark.keyfile import difference, node_key, program_of, read_key, shipped_key

    if vk is None:
        return StarkVerifier(*shipped_key(own_key), node_key=node_key)
    key = read_key(vk)
    if not key.is_named(own_key):
        raise InvalidProof(
            f"the proof is of another key than the one that is given: {difference(own_key, key.named())}"
        )
    return StarkVerifier(key, program_of(key), node_key=node_key)


def own_verifier(own_key: dict[str, Any], program: OwnProgram) -> Verifier:
    from distprove.stark.job_verifier import StarkVerifier
    from distprove.stark.keyfile import node_key
    from distprove.stark.keyfile import own_key as key_of_own

    key, made = key_of_own(own_key, program)
    asked = {n: v for n, v in program.arguments.items() if n in made.compared}
    return StarkVerifier(key, made, asked=asked, node_key=node_key)


def export(proof: Proof, run: Path, folder: Path) -> Exported:
    from distprove.stark.export import export

    return export(proof, run, folder)


ENTRY = Entry(
    title="STARK",
    help="Prove a program over Goldilocks, cut into partitions; `PROGRAM --help` tells its options.",
    options=StarkOptions,
    system="distprove.stark.systems:StarkSystems",
    verifier=verifier,
    own_verifier=own_verifier,
    remakes_key=True,
    export=export,
)
