"""The interface of all executors; those of one machine are in `local`, the one over Ray is in `ray`.

An executor owns workers, each a device with its synthesisers (`actors.worker`), and knows how a message reaches them
(`Transport`). It carries orders to them in chunks, and reports their batches. It decides nothing: which partition goes
where, what is tried again and who is given up is the driver's business, so all executors behave alike.
"""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from actors.processes import WorkerDied
from actors.worker import Batch, Order
from cluster.executor.tasks import Batches, Finished, Kind, Verdict
from cluster.executor.transport import Transport
from cluster.executor.verifiers import Hangs, Verifiers, within
from cluster.record.report import public_message
from distprove.settings import ExecutorSettings
from distprove.system import DeviceTask, FindsInvalid, PartitionProof, ProofSystem

KEEPERS = 4
"""Threads that put proofs on disk. They wait for it most of the time, and a disk that syncs several files at once takes
hardly longer than for one."""
QUIET = 5.0
"""Seconds for which a worker that has nothing to tell may leave a question for news unanswered."""


@dataclass(frozen=True)
class WorkerHandle:
    """A worker's public facts: ids are unique within the executor."""

    id: str
    """Identifier of the worker, which is that of its prover."""
    node: str
    synthesisers: tuple[str, ...]
    node_id: str | None = None
    """Identifier of its node, where there are several: they may have one address."""


class Executor(ABC):
    """Owns workers and carries orders to them. Use as a context manager; `start` once, then ask and wait."""

    kind: str
    chosen = ""
    """Why this kind of executor was chosen, in words for reports; empty where there was no choice."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self.job, self.rank = "", 0
        """Name and rank of the job at workers that serve several: those of the lowest rank go first."""
        self.waits_for: Callable[[str], None] = lambda what: None
        """Called with what `start` begins to wait for, in words for the live display. The driver sets it."""
        self.lost = False
        """Whether what the workers of a pool ran on was lost: begun again, a job has others."""
        self.crowded = False
        """Whether a partition found too little memory beside other keys: with the pool to itself a job has more."""
        self._done: SimpleQueue[Finished] = SimpleQueue()
        self._verifier: Batches | None = None
        self._keepers: Batches | None = None
        self.quiet = min(QUIET, settings.hang_timeout / 4)
        """Seconds after which a worker is heard, if only to say what it is at."""
        self._system: ProofSystem | None = None
        self._transports: dict[str, Transport] = {}
        """Transports of the workers that were not given up, by worker id."""
        self._epochs: dict[str, int] = {}
        """Number of starts of each worker; orders are for one of them."""
        self._lives = itertools.count(1)
        self.verifiers: Verifiers | None = None
        """Processes that verify, where threads would not do; whoever started them closes them."""
        self.verifying_threads = 1
        """Number of threads that verify, without these."""

    def queued(self, worker: WorkerHandle) -> bool:
        """Whether a worker waits for resources that others have."""
        return False

    @property
    def grows(self) -> bool:
        """Whether devices may be added, as by nodes that join a cluster."""
        return False

    @property
    def replaceable(self) -> bool:
        """Whether what the workers ran on is lost, and another executor of these settings would start its own."""
        return False

    @abstractmethod
    def start(self, system: ProofSystem) -> list[WorkerHandle]:
        """Place the workers. Each must be loaded before it is used. Raises ClusterError for missing resources."""

    def newcomers(self) -> list[WorkerHandle]:
        """Workers on devices that were added since this was asked last, as on nodes that joined a cluster. Each must be
        loaded before it is used. Waits for nothing."""
        return []

    def remarks(self) -> list[str]:
        """All that is to be told by now of devices that are not used, oldest first."""
        return []

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None:  # noqa: B027 (most have no devices)
        """Have the device of a worker, by its UUID, not used by later jobs."""

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        """Load a worker, also after its death, and report its batches from then on. `permitted`: whether it may prove
        before `permit` is called."""
        transport = self._transports.get(worker.id)
        if transport is not None:
            epoch = self._epochs[worker.id] = next(self._lives)
            self._beside("load", lambda: self._attend(worker.id, transport, epoch, permitted))

    def check(self, worker: WorkerHandle) -> None:
        """Check the key on a worker that has loaded it."""
        transport = self._transports.get(worker.id)
        if transport is not None:
            self._beside("check", lambda: self._report(Finished(Kind.CHECK, worker.id), transport, "check"))

    def run(self, worker: WorkerHandle, task: DeviceTask) -> Any:
        """Return what a task comes to on the device of a worker that has loaded the key. Waits for it. Raises what the
        task raises, or WorkerDied."""
        transport = self._transports.get(worker.id)
        if transport is None:
            raise WorkerDied("the worker was given up")
        try:
            return within(self.settings.start_timeout, transport.call, "run", task)
        except Hangs:
            raise WorkerDied("it did not answer in time") from None

    def permit(self, worker: WorkerHandle) -> None:
        """The key is good: the worker may prove."""
        self._tell(worker, "permit")

    def hand(
        self, worker: WorkerHandle, orders: Sequence[Order], began: float = 0.0, parallel: int | None = None
    ) -> None:
        """A chunk of orders, of which at most `parallel` may be in the making or ready there at a time. `began` is when
        the job's session did, for its timeline."""
        self._tell(worker, "take", self._epochs[worker.id], orders, self.job, began, parallel, self.rank)

    def backlog(self, worker: WorkerHandle) -> int:
        """Number of orders that a worker has of other jobs."""
        return 0

    def ask_back(self, worker: WorkerHandle, count: int, *, committed: bool = False) -> None:
        """Have the worker return up to `count` orders that it has not begun, as of `actors.worker.Worker.give_back`."""
        self._tell(worker, "give_back", count, self.job, committed)

    def dismiss(self, worker: WorkerHandle, synthesiser: str) -> None:
        """Give up one of a worker's synthesisers."""
        self._tell(worker, "dismiss", synthesiser)

    def interrupt(self, worker: WorkerHandle, who: str) -> None:
        """End the process of a worker that hangs, or of a synthesiser of it; that it died is then reported. One that is
        a thread of this process cannot be ended, and nothing happens."""
        transport = self._transports.get(worker.id)
        if transport is None:
            return
        if who == worker.id:
            self._beside("kill", transport.kill)  # over a network that may take its time
        else:
            transport.tell("interrupt", who)

    def retire(self, worker: WorkerHandle) -> None:
        """Stop a worker for good. What it had may or may not be reported."""
        transport = self._transports.pop(worker.id, None)
        if transport is not None:
            transport.end()

    def verify(self, proofs: Sequence[PartitionProof], worker: WorkerHandle, *, last: bool = False) -> None:
        """Verify what a worker proved, beside the driver or on another node, whatever the worker's own may have said;
        together with others that wait, and, unless these are the `last` or few are to come, with others to come."""
        verifies = self.verifiers or self._system
        assert verifies is not None, "start first"
        if self.verifiers is not None:
            self.verifiers.made_on(worker.node_id, proofs)
        if self._verifier is None:
            count = self.verifying_threads if self.verifiers is None else self.verifiers.count

            def verified(waiting: list[PartitionProof]) -> list[Verdict]:
                verdicts = _verdicts(verifies, waiting)
                if self.verifiers is not None:
                    self.verifiers.done_with(waiting)
                return verdicts

            spread = self.verifiers is not None
            self._verifier = Batches(Kind.VERIFY, self._done, verified, count, spread=spread)
        self._verifier.submit(proofs, last=last)

    def keep(
        self,
        proofs: Sequence[PartitionProof],
        store: Callable[[Sequence[PartitionProof]], None],
        *,
        last: bool = False,
    ) -> None:
        """Have `store`, always the same one, put verified proofs on disk, beside the driver, which must not wait for a
        disk. `last`: see `verify`."""
        if self._keepers is None:

            def kept(waiting: list[PartitionProof]) -> list[str]:
                store(waiting)
                return [proof.name for proof in waiting]

            self._keepers = Batches(Kind.KEEP, self._done, kept, KEEPERS)
        self._keepers.submit(proofs, last=last)

    def wait(self, timeout: float) -> list[Finished]:
        """All that is over; waits for something for up to `timeout` seconds.

        A worker's loading that was asked for again meanwhile, by the next run that it serves or after its death, is not
        told: orders would go to a start that is not there yet, which drops them.
        """
        found: list[Finished] = []
        with suppress(Empty):
            found.append(self._done.get(timeout=timeout))
            while True:
                found.append(self._done.get_nowait())
        return [each for each in found if each.kind is not Kind.LOAD or each.epoch == self.epoch_of(each.worker)]

    def wake(self) -> None:
        """Have `wait` return now. Any thread may call."""
        self._done.put(Finished(Kind.LOAD, epoch=-1))  # of no start, so that it is told to nobody

    def epoch_of(self, worker: str | None) -> int:
        """Number of a worker's last start."""
        return self._epochs.get(worker or "", 0)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """Reports of the nodes' governors at the end; times in seconds after `began` (since the epoch)."""
        return []

    def close(self, *, now: bool = False) -> None:
        """Stop everything this executor started. `now`: without waiting for what runs."""
        self._transports = {}
        for threads in (self._verifier, self._keepers):
            if threads is not None:
                threads.stop(wait=not now)

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(now=error is not None)

    def _tell(self, worker: WorkerHandle, name: str, *arguments: Any) -> None:
        transport = self._transports.get(worker.id)
        if transport is not None:
            transport.tell(name, *arguments)

    def _beside(self, name: str, call: Callable[[], object]) -> None:
        threading.Thread(target=call, name=f"distprove-{name}", daemon=True).start()

    def _attend(self, worker: str, transport: Transport, epoch: int, permitted: bool) -> None:
        """Load a worker, then report its news, until it dies or is ended."""
        if not self._report(Finished(Kind.LOAD, worker, epoch=epoch), transport, "load", epoch, permitted):
            return
        while self._report(Finished(Kind.BATCH, worker), transport, "batch", self.quiet):
            if self._transports.get(worker) is not transport or self._epochs[worker] != epoch:
                return

    def _report(self, finished: Finished, transport: Transport, name: str, *arguments: Any) -> bool:
        """Ask and report what comes of it; whether that was no error."""
        self._ask(finished, transport, name, *arguments)
        self.told(finished)
        return finished.error is None

    def _ask(self, finished: Finished, transport: Transport, name: str, *arguments: Any) -> None:
        try:
            if finished.kind is Kind.LOAD:
                transport.start()
            finished.value = transport.call(name, *arguments)
        except BaseException as error:  # whatever it is, the driver must hear of it
            finished.error = error
            if finished.kind is Kind.BATCH and not isinstance(error, WorkerDied):
                finished.error = WorkerDied(f"its news were lost: {public_message(error)}")

    def told(self, finished: Finished) -> None:
        """Take in what a worker reports, on any thread: its news for the only job that there is."""
        if finished.kind is Kind.BATCH and finished.error is None:
            finished.value = finished.value.get("", None) or Batch([], [])
        self._done.put(finished)


def _verdicts(verifies: Verifiers | ProofSystem, proofs: list[PartitionProof]) -> list[Verdict]:
    """Each proof verified: all at once with random coefficients, and one by one only those that this finds at fault."""
    started = time.time()
    reasons = why_invalid(verifies, proofs)
    each = (time.time() - started) / len(proofs)
    return [
        Verdict(proof.name, reason, started + i * each, started + (i + 1) * each)
        for i, (proof, reason) in enumerate(zip(proofs, reasons, strict=True))
    ]


def why_invalid(verifies: Verifiers | ProofSystem, proofs: list[PartitionProof]) -> list[str | None]:
    """Reasons why proofs do not hold, in order; None for one that holds."""
    with suppress(Exception):  # whatever it is: it is looked for in each
        if verifies.verify_batch(proofs) is True:
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
