"""The proof systems: each is a folder and a line here, and is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.entry import Entry
from distprove.errors import FormatError

if TYPE_CHECKING:
    from distprove.proof import Verifier

SYSTEMS: dict[str, str] = {
    "groth16": "distprove.groth16.entry",
    "stark": "distprove.stark.entry",
}
"""The module with the `ENTRY` of each proof system, by the name that jobs and proofs give the system."""

DEFAULT = "groth16"
"""The system of a job from Python that names none."""


def entry_of(system: str) -> Entry:
    """The entry of a system in `SYSTEMS`."""
    entry: Entry = import_module(SYSTEMS[system]).ENTRY
    return entry


def load_verifier(system: str, own_key: dict[str, Any], vk: Path | None) -> Verifier:
    """Load the verifier of `system` for the key in the file `vk`, or else for `own_key`, which came with the proof.

    Raises FormatError for an unknown system, InputError and its subclasses for a bad key, InvalidProof for a proof that
    names another key than the file `vk`.
    """
    if system not in SYSTEMS:
        raise FormatError(f"the proof is of system {system!r}, which this distprove cannot verify")
    return entry_of(system).verifier(own_key, vk)
