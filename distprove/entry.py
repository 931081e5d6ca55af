"""Facts about a proof system before it is loaded: the `ENTRY` in the `entry.py` of its folder. (The command line begins
in `distprove.cli`.)"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.options import Options

if TYPE_CHECKING:
    from distprove.proof import Proof, Verifier
    from distprove.system import ProofSystem


MAP = "files.json"
"""The file in an exported folder that says which input each partition there was made from."""


@dataclass(frozen=True)
class OwnProgram:
    """A program with its arguments, as a verifier names them: no proof chooses either."""

    name: str
    """"module:Class", or the name of a program that ships."""
    arguments: Mapping[str, int | str]


@dataclass(frozen=True)
class Entry:
    """The way into a proof system. Its functions, and `system_class`, import what they need when they are called."""

    title: str
    help: str
    """Help text of `distprove prove SYSTEM`."""
    options: type[Options]
    system: str
    """The class of the system, as "module:name"."""
    verifier: Callable[[dict[str, Any], Path | None], Verifier]
    """Makes the verifier from the key that the proof carries, or from a key file that replaces it."""
    remakes_key: bool
    """Whether a verifier without a key file makes the key itself, from what the proof names. If not, it can only use
    the key that the proof carries, whoever made that key."""
    export: Callable[[Proof, Path, Path], Exported]
    """Writes a proof, read from the run folder or file that comes second, into a folder as others read it.

    Nothing is written through a link, and nothing over a file with another content. A partition whose name is that of
    the key's file, which whoever sends a proof may choose, gets a number after it. Raises UsageError, InputError.
    """
    contracts: Callable[[Proof, Path, Sequence[str]], tuple[str, str]] | None = None
    """Writes a Solidity contract that verifies proofs under a proof's key, and the calldata for each partition, into a
    folder that `export` wrote, with the names that it gave. Returns the names of the contract's file and of each
    partition's calldata. Raises UsageError. None for a system without contracts."""
    contract_of_key: Callable[[Path, Path], tuple[str, str | None]] | None = None
    """Writes the contract of a key's file into a folder. Returns its name there, and why anybody can forge proofs under
    the key, if the key shows that. One system has it. Raises InputError, FormatError, InvalidKey, UsageError."""
    of_key: Callable[[Mapping[str, Path], str | None], ProofSystem] | None = None
    """Makes the system of a proving key without a job, from its files by the settings that name them and the circuit in
    Python that it is of: workers share it with the systems of jobs of that key. None for a system whose keys are not in
    files. Raises UsageError, and InputError for bad files."""
    deadlines: Mapping[str, str] = field(default_factory=dict)
    """Settings that only jobs with a deadline have, and the priority of these in a service where none is asked for."""
    own_verifier: Callable[[dict[str, Any], OwnProgram], Verifier] | None = None
    """Makes the verifier from a program of the caller's own, under the parameters that the proof names; None for a
    system without programs. Raises UsageError, InvalidProof and CodeFault."""

    def system_class(self) -> Any:
        """The class of the system, whose `from_options` makes the system of a job. That raises UsageError, and
        InputError for bad files."""
        module, _, name = self.system.partition(":")
        return getattr(import_module(module), name)


@dataclass(frozen=True)
class Exported:
    """Files that were exported, and how they are checked."""

    names: list[str]
    """Names of the partitions there, in order."""
    command: tuple[str, ...]
    """The command, word by word, that checks the first partition, or with `checks_all` every one."""
    checks_all: bool
    own_key: bool
    """Whether the key came with the proof, so that it says nothing of whose it is."""
    weakness: str | None = None
    """Why anybody can forge proofs under the key, in words, if the key shows that."""
