"""The proof systems: each is a folder and a line here, and is imported when it is first used."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from distprove.entry import Entry

SYSTEMS: dict[str, str] = {
    "groth16": "distprove.groth16.entry",
    "stark": "distprove.stark.entry",
    "filecoin": "distprove.filecoin.entry",
    "swirl": "distprove.stark.openvm.entry",
}
"""The module with the `ENTRY` of each proof system, by the name that jobs and proofs give the system."""

DEFAULT = "groth16"
"""The system of a job from Python that names none."""


def entry_of(system: str) -> Entry:
    """The entry of a system in `SYSTEMS`."""
    return _entry_in(SYSTEMS[system])


@cache
def _entry_in(module: str) -> Entry:
    """The entry in a module. Cached: a service asks four times for each job, and an import asks for locks."""
    entry: Entry = import_module(module).ENTRY
    return entry
