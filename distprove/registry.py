"""The proof systems: each is a folder and a line here, and is imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from distprove.entry import Entry

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
