"""A prover: one backend with one key resident. The same class works in a thread and inside a Ray actor."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.backends import BackendChoice, Leases, Placed, make_backend, place_operations
from actors.inflight import InFlight, Line, Timed, Turn
from distprove.system import ChecksKey, Diagnoses, Partition, ProofSystem, Prover, StepTimes, Witness
from kernels.host.arena import HostArena
from kernels.interface.backend import Backend

Shared = dict[str, NDArray[np.uint8]]
"""A system's files, by name."""

SWITCH_INTERVAL = 1e-4
"""Seconds that a thread waits for the interpreter, at most, while another computes in Python. With Python's own 5 ms a
proof of 17 ms that waits for its device 30 times took 25 beside a verification; with this, 20."""


class ProverWorker:
    """Commits and proves, in the order in which it is asked. `load` must have succeeded before anything else is asked.

    Several threads may ask. One partition computes at a time; the next one's data travels meanwhile (see
    `actors.inflight`). `turn` is a place that was taken earlier on `line`, by a caller to whom the order matters.
    """

    def __init__(
        self, system: ProofSystem, choice: BackendChoice, leases: Leases | None = None, arena: HostArena | None = None
    ) -> None:
        """Computations on the processors hold `leases`. Large buffers on the host come from `arena`."""
        self._system = system
        self._choice = choice
        self._leases = leases or Leases()
        self._arena = arena
        self._shared: Shared = {}
        self._placed: Placed | None = None
        self._prover: Prover | None = None
        self._in_flight = InFlight()

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on the threads that synthesis wants, too."""
        return self._choice.name == "cpu"

    @property
    def line(self) -> Line:
        """The line in which the worker's tasks wait for their turn."""
        return self._in_flight.line

    def load(self, shared: Shared, turn: Turn | None = None) -> Timed:
        """Make the backend and bring the key onto it; public facts of the device. Does nothing the second time.

        Raises InputError when the key is at fault, BackendError when the device is.
        """
        return self._in_flight.alone(lambda: self._load(shared), turn)

    def commit(self, partition: Partition, witness: Witness, turn: Turn | None = None) -> Timed:
        """(commitment, StepTimes); the commitment is bytes or None."""
        return self._in_flight.alone(lambda: self._commit(partition, witness), turn)

    def prove(self, partition: Partition, witness: Witness, challenge: bytes | None, turn: Turn | None = None) -> Timed:
        """(PartitionProof, StepTimes)"""
        timed = self._in_flight.prove(self._ready(), partition, witness, challenge, turn)
        times: StepTimes = timed.value[1]
        assert self._placed is not None
        times.device_peak = int(self._placed.backend.info().details.get("peak_bytes", 0))
        return timed

    def check(self, turn: Turn | None = None) -> Timed:
        """Check the key on this backend, for systems that have a check. Raises InvalidKey."""
        return self._in_flight.alone(self._check, turn)

    def diagnose(self, partition: Partition, witness: Witness, turn: Turn | None = None) -> Timed:
        """Raise UnsatisfiedWitness after a bad proof if the witness is to blame and the system can tell."""
        return self._in_flight.alone(lambda: self._diagnose(partition, witness), turn)

    def close(self) -> None:
        """Give back the key's memory and the device."""
        self._in_flight.alone(self._close)

    def _load(self, shared: Shared) -> dict[str, Any]:
        if self._placed is None:
            self._placed = self._open(shared)
        backend = self._placed.backend
        if self._prover is None:
            self._shared = shared
            self._prover = self._system.prover(shared, backend)
        info = backend.info()
        return {
            "device": info.name,
            "kind": info.kind,
            "memory_total": info.memory_total,
            "memory_budget": info.memory_budget,
            "gpus": [str(self._choice.device)] if info.kind != "cpu" else [],
            "placement": str(self._placed.placement),
            "placement_reason": self._placed.reason,
            **process_facts(),
        }

    def _open(self, shared: Shared) -> Placed:
        device: Backend = make_backend(self._choice, self._arena, self._leases.device)
        try:
            return place_operations(device, self._choice, self._system, shared, self._leases.host, self._arena)
        except BaseException:
            device.close()
            raise

    def _commit(self, partition: Partition, witness: Witness) -> tuple[bytes | None, StepTimes]:
        prover = self._ready()
        assert self._placed is not None
        busy = self._placed.backend.watch_busy()
        commitment = prover.commit(partition, witness)
        busy.end()
        return commitment, StepTimes(on_device=busy.time())

    def _check(self) -> None:
        self._ready()
        assert self._placed is not None
        if isinstance(self._system, ChecksKey):
            self._system.check(self._shared, self._placed.backend)

    def _diagnose(self, partition: Partition, witness: Witness) -> None:
        prover = self._ready()
        if isinstance(prover, Diagnoses):
            prover.diagnose(partition, witness)

    def _close(self) -> None:
        prover, self._prover = self._prover, None
        placed, self._placed = self._placed, None
        if prover is not None:
            prover.close()
        if placed is not None:
            placed.backend.close()

    def _ready(self) -> Prover:
        if self._prover is None:
            raise RuntimeError("the prover was asked for work before its key was loaded")
        return self._prover


def process_facts() -> dict[str, Any]:
    """Node and number of this process, for reports and for the test that kills it."""
    return {"host": socket.gethostname(), "pid": os.getpid()}
