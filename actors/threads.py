"""A worker on threads of this process, with its synthesisers: nothing between it and whoever asks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from actors.backends import leases_from
from actors.grants import Governor
from actors.inflight import Timed
from actors.process import WorkerSpec
from actors.processes import Given
from actors.prover import ProverWorker
from actors.synthesiser import SynthesiserWorker
from actors.worker import Maker, Worker
from distprove.system import Partition, Witness
from kernels.host.arena import HostArena


class WorkerThreads:
    """A worker, as whoever carries messages to it sees it."""

    def __init__(self, spec: WorkerSpec, governor: Governor, arena: HostArena) -> None:
        system = spec.system
        self.prover = ProverWorker(system, spec.choice, leases_from(governor, spec.choice), arena)
        makers: dict[str, Maker] = {
            name: Given(spec.given) if spec.given else SynthesiserThread(spec, arena) for name in spec.synthesisers
        }
        self._worker = Worker(
            spec.name, system, system.shared, self.prover, makers, governor, spec.in_flight, spec.threads
        )

    def start(self) -> None:
        """Do nothing: a thread needs no start."""

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._worker, name)(*arguments)

    def tell(self, name: str, *arguments: Any) -> None:
        getattr(self._worker, name)(*arguments)

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        self._worker.stop()


class SynthesiserThread:
    """`SynthesiserWorker` on whatever thread asks: an `actors.worker.Maker`."""

    def __init__(self, spec: WorkerSpec, arena: HostArena) -> None:
        self._system = spec.system
        self._synthesiser = SynthesiserWorker(spec.system, spec.threads, arena)

    def load(self) -> Timed:
        started = time.time()
        return Timed(self._synthesiser.load(self._system.shared()), started, time.time())

    def make(self, partition: Partition) -> tuple[WitnessHere, float, float]:
        started = time.time()
        return WitnessHere(self._synthesiser.synthesise(partition)), started, time.time()

    def kill(self) -> None:
        """Threads cannot be ended."""

    def end(self) -> None:
        """Do nothing: it is at nothing of its own."""


@dataclass
class WitnessHere:
    """A witness in this process."""

    witness: Witness | None

    @property
    def nbytes(self) -> int:
        return 0 if self.witness is None else self.witness.nbytes

    def read(self) -> Witness:
        assert self.witness is not None, "released"
        return self.witness

    def release(self) -> None:
        self.witness = None
