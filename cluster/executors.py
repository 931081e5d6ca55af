"""Where work runs: one interface. Executors of one machine are in `local_executor`, the one over Ray in `ray_executor`.

An executor owns workers: provers, each with one device and the key resident, and synthesisers. It runs what the driver
submits and reports each thing once it is over, in whatever order things end. It decides nothing: which partition goes
where, what is tried again and who is given up is the driver's business, so all executors behave alike.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import Enum
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from cluster.connect import prepare
from cluster.report import public_message
from cluster.tasks import Batches, Finished, Kind, Task
from cluster.verifiers import Verifiers
from distprove.job import ExecutorSettings
from distprove.system import FindsInvalid, Partition, PartitionProof, ProofSystem

KEEPERS = 4
"""Threads that put proofs on disk. They wait for it most of the time, and a disk that syncs several files at once takes
hardly longer than for one."""


class Role(str, Enum):
    PROVER = "prover"
    SYNTHESISER = "synthesiser"


@dataclass(frozen=True)
class Worker:
    """A worker's public facts: its id is unique within the executor."""

    id: str
    role: Role
    node: str


@dataclass(frozen=True)
class Work:
    """A witness, wherever it is. `handle` means something to the executor only, and is secret."""

    handle: Any = field(repr=False)
    nbytes: int
    seconds: float
    lease: tuple[str, int] | None = None
    """The node whose governor counts its memory until it is forgotten, and the ticket there."""


class Executor(ABC):
    """See the module's text. Use as a context manager; `start` once, then submit and wait."""

    kind: str

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self._done: SimpleQueue[Finished] = SimpleQueue()
        self._verifier: Batches | None = None
        self._keepers: Batches | None = None
        self._system: ProofSystem | None = None
        self.verifiers: Verifiers | None = None
        """Processes that verify, where threads would not do; whoever started them closes them."""
        self._verifying = 1
        """Threads that verify, without these."""

    @abstractmethod
    def start(self, system: ProofSystem) -> list[Worker]:
        """Place the workers. Each must be loaded before it is used. Raises ClusterError for missing resources."""

    @abstractmethod
    def load(self, worker: Worker) -> None:
        """Load program or key on a worker, also after its death. Finishes when the worker is ready."""

    @abstractmethod
    def check(self, worker: Worker) -> None:
        """Check the key on a prover that has loaded it."""

    @abstractmethod
    def synthesise(self, worker: Worker, partition: Partition) -> None: ...

    @abstractmethod
    def forget(self, work: Work) -> None:
        """A witness is needed no more: its memory is free to be leased again. A second call does nothing."""

    @abstractmethod
    def commit(self, worker: Worker, partition: Partition, work: Work) -> None: ...

    @abstractmethod
    def prove(self, worker: Worker, partition: Partition, work: Work, challenge: bytes | None) -> None: ...

    @abstractmethod
    def diagnose(self, worker: Worker, partition: Partition, work: Work) -> None:
        """Find out whether the witness is to blame for a bad proof: ends with an InputError if it is."""

    def verify(self, proof: PartitionProof) -> None:
        """Verify beside the driver, whatever the prover's machine may have said; together with others that wait."""
        verifies = self.verifiers or self._system
        assert verifies is not None, "start first"
        if self._verifier is None:
            count = self._verifying if self.verifiers is None else self.verifiers.count

            def verified(proofs: list[PartitionProof]) -> list[Finished]:
                with self.verifying():
                    return _verified(verifies, proofs)

            self._verifier = Batches(Kind.VERIFY, self._done, verified, count)
        self._verifier.submit([proof])

    @abstractmethod
    def verifying(self) -> AbstractContextManager[object]:
        """A lease of a thread to verify on, from the governor of the driver's node."""

    def keep(self, proof: PartitionProof, store: Callable[[Sequence[PartitionProof]], None]) -> None:
        """Have `store` put a verified proof on disk, beside the driver, which must not wait for a disk; together with
        others that wait."""
        if self._keepers is None:
            self._keepers = Batches(Kind.KEEP, self._done, lambda proofs: _kept(store, proofs), KEEPERS)
        self._keepers.submit([proof])

    @abstractmethod
    def wait(self, timeout: float) -> Finished | None:
        """The next task that is over, or None after `timeout` seconds."""

    @abstractmethod
    def retire(self, worker: Worker) -> None:
        """Stop a worker for good. Its unfinished tasks may or may not be reported."""

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """What each node's governor has to say at the end; times in seconds after `began` (since the epoch)."""
        return []

    def close(self, *, now: bool = False) -> None:
        """Stop everything this executor started. `now`: without waiting for what runs."""
        for threads in (self._verifier, self._keepers):
            if threads is not None:
                threads.stop(wait=not now)

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(now=error is not None)


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor the settings ask for: of this machine, over a Ray that is joined, or over one started for it."""
    if settings.local:
        from cluster.local_executor import local_executor  # it is made of what is here

        return local_executor(settings)
    prepare(settings)
    from cluster.ray_executor import RayExecutor  # Ray takes seconds to import, and reads its environment then

    return RayExecutor(settings)


def keeps_lease(system: ProofSystem) -> bool:
    """Whether a witness's memory stays leased until it is proven. Before a barrier every witness is kept, however many
    there are: waiting for their memory would be waiting for ever."""
    return not system.needs_barrier


def _verified(verifies: Verifiers | ProofSystem, proofs: list[PartitionProof]) -> list[Finished]:
    """Each proof verified: all at once with random coefficients, and one by one only those that this finds at fault."""
    started = time.time()
    reasons = why_invalid(verifies, proofs)
    each = (time.time() - started) / len(proofs)
    return [
        Finished(Task(Kind.VERIFY, None, proof.name), reason, None, started + i * each, started + (i + 1) * each)
        for i, (proof, reason) in enumerate(zip(proofs, reasons, strict=True))
    ]


def why_invalid(verifies: Verifiers | ProofSystem, proofs: list[PartitionProof]) -> list[str | None]:
    """Why each proof does not hold; None for one that does."""
    with suppress(Exception):  # whatever it is: it is looked for in each
        if verifies.verify_batch(proofs):
            return [None] * len(proofs)
    suspects = list(range(len(proofs)))
    if isinstance(verifies, FindsInvalid):
        with suppress(Exception):
            suspects = verifies.find_invalid(proofs) or suspects
    reasons: list[str | None] = [None] * len(proofs)
    for place in suspects:
        try:
            holds = verifies.verify(proofs[place]) is True
            reasons[place] = None if holds else "the proof does not verify"
        except Exception as error:
            reasons[place] = public_message(error)
    if not any(reasons):  # together they fail, and each alone holds: none of them counts
        return ["the proofs that were verified with it do not hold together"] * len(proofs)
    return reasons


def _kept(store: Callable[[Sequence[PartitionProof]], None], proofs: list[PartitionProof]) -> list[Finished]:
    started = time.time()
    store(proofs)
    return [Finished(Task(Kind.KEEP, None, proof.name), None, None, started, time.time()) for proof in proofs]
