"""The proof systems by name: from a job to what proves it."""

from __future__ import annotations

from distprove.errors import UsageError
from distprove.job import Job
from distprove.system import ProofSystem


def load_system(job: Job) -> ProofSystem:
    """The proof system of a job, with its program and key. Raises InputError subclasses for files that do not hold."""
    if job.system == "groth16":
        from distprove.groth16.system import Groth16System  # only the system that is used is loaded

        system: ProofSystem = Groth16System.from_options(job.options)
        return system
    raise UsageError(f"unknown proof system {job.system!r}")
