"""A prover: one backend with one key resident. The same class works in a thread and inside a Ray actor."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.backends import BackendChoice, make_backend
from distprove.system import (
    ChecksKey,
    Diagnoses,
    Partition,
    PartitionProof,
    PhaseTimes,
    ProofSystem,
    Prover,
    Synthesised,
)
from kernels.backend import Backend


class ProverWorker:
    """Commits and proves, one partition at a time. `load` must have succeeded before anything else is asked."""

    def __init__(self, system: ProofSystem, choice: BackendChoice) -> None:
        self._system = system
        self._choice = choice
        self._shared: dict[str, NDArray[np.uint8]] = {}
        self._backend: Backend | None = None
        self._prover: Prover | None = None

    def load(self, shared: dict[str, NDArray[np.uint8]]) -> dict[str, Any]:
        """Make the backend and bring the key onto it; returns public facts of the device. Does nothing the second time.

        Raises InputError when the key is at fault, BackendError when the device is.
        """
        if self._backend is None:
            self._backend = make_backend(self._choice)
        if self._prover is None:
            self._shared = shared
            self._prover = self._system.prover(shared, self._backend)
        info = self._backend.info()
        return {
            "device": info.name,
            "kind": info.kind,
            "memory_total": info.memory_total,
            "memory_budget": info.memory_budget,
            **process_facts(),
        }

    def commit(self, partition: Partition, work: Synthesised) -> bytes | None:
        return self._ready().commit(partition, work)

    def prove(
        self, partition: Partition, work: Synthesised, challenge: bytes | None
    ) -> tuple[PartitionProof, PhaseTimes]:
        return self._ready().prove(partition, work, challenge)

    def check(self) -> None:
        """Check the key on this backend, for systems that have a check. Raises InvalidKey."""
        self._ready()
        assert self._backend is not None
        if isinstance(self._system, ChecksKey):
            self._system.check(self._shared, self._backend)

    def diagnose(self, partition: Partition, work: Synthesised) -> None:
        """After a bad proof: raise UnsatisfiedWitness when the witness is to blame and the system can tell."""
        prover = self._ready()
        if isinstance(prover, Diagnoses):
            prover.diagnose(partition, work)

    def close(self) -> None:
        """Give back the key's memory and the device."""
        prover, self._prover = self._prover, None
        backend, self._backend = self._backend, None
        if prover is not None:
            prover.close()
        if backend is not None:
            backend.close()

    def _ready(self) -> Prover:
        if self._prover is None:
            raise RuntimeError("the prover was asked for work before its key was loaded")
        return self._prover


def process_facts() -> dict[str, Any]:
    """Where this process is, for reports and for the test that kills it."""
    return {"host": socket.gethostname(), "pid": os.getpid()}
