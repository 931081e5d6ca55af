"""Maps the name of a proof system to the code that proves a job with it and to the code that verifies its proofs.

Each system is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from distprove.errors import FormatError, InvalidProof, UsageError
from distprove.job import Job
from distprove.options import Groth16Options, StarkOptions
from distprove.proof import Verifier
from distprove.system import ProofSystem

Options = TypeVar("Options", Groth16Options, StarkOptions)


@dataclass(frozen=True)
class _Entry:
    """The entry points of one proof system."""

    system: Callable[[Job], ProofSystem]
    verifier: Callable[[dict[str, Any], Path | None], Verifier]
    """Makes the verifier from the key that the proof carries, or from a key file that replaces it."""
    remakes_key: bool
    """Whether a verifier without a key file makes the key itself, from what the proof names. If not, it can only use
    the key that the proof carries, whoever made that key."""


def _groth16_system(job: Job) -> ProofSystem:
    from distprove.groth16.system import Groth16System

    return Groth16System.from_options(_options(job, Groth16Options))


def _groth16_verifier(own_key: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.groth16.keys import VerificationKey
    from distprove.groth16.snarkjs import read_verification_key
    from distprove.groth16.verifier import Groth16Verifier

    return Groth16Verifier(VerificationKey.from_dict(own_key) if vk is None else read_verification_key(vk))


def _stark_system(job: Job) -> ProofSystem:
    from distprove.stark.system import StarkSystem

    return StarkSystem.from_options(_options(job, StarkOptions))


def _stark_verifier(own_key: dict[str, Any], vk: Path | None) -> Verifier:
    from distprove.stark.keyfile import program_of, read_key, shipped_key
    from distprove.stark.system import StarkVerifier

    if vk is not None:
        key = read_key(vk)
        if not key.is_named(own_key):
            raise InvalidProof(
                "the proof names another program, other arguments or parameters than the key that is given"
            )
        return StarkVerifier(key, program_of(key))
    return StarkVerifier(*shipped_key(own_key))


def _options(job: Job, kind: type[Options]) -> Options:
    if not isinstance(job.options, kind):
        raise UsageError(f"the options of a job of {job.system} must be {kind.__name__}")
    return job.options


_SYSTEMS = {
    "groth16": _Entry(_groth16_system, _groth16_verifier, remakes_key=False),
    "stark": _Entry(_stark_system, _stark_verifier, remakes_key=True),
}


def load_system(job: Job) -> ProofSystem:
    """Load the proof system of a job with its program and key. Raises UsageError, and InputError for bad files."""
    if job.system not in _SYSTEMS:
        raise UsageError(f"unknown proof system {job.system!r}")
    return _SYSTEMS[job.system].system(job)


def load_verifier(system: str, own_key: dict[str, Any], vk: Path | None) -> Verifier:
    """Load the verifier of `system` for the key in the file `vk`, or else for `own_key`, which came with the proof.

    Raises FormatError for an unknown system, InputError and its subclasses for a bad key, InvalidProof for a STARK
    proof that names another key than the file `vk`.
    """
    if system not in _SYSTEMS:
        raise FormatError(f"the proof is of system {system!r}, which this distprove cannot verify")
    return _SYSTEMS[system].verifier(own_key, vk)


def remakes_key(system: str) -> bool:
    """Whether a proof of `system` verifies under a key that the verifier makes itself, when none is given."""
    return _SYSTEMS[system].remakes_key
