"""A resident key in its fleet: its files, its slots on the workers, and what verifies its proofs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, suppress
from typing import Any

from actors.messages import WorkerSpec
from actors.protocol import Transport, WorkerDied
from actors.worker import Worker
from cluster.executor.fleet import Fleet, Site
from cluster.executor.verifiers import Verifiers
from cluster.record.report import public_message
from cluster.scheduler.batches import Batches
from cluster.scheduler.events import Died, Event, KeyChecked, KeyLoaded, LoadFailed, News, Verdict, Verified
from distprove.errors import ClusterError
from distprove.host.beside import in_background
from distprove.system import FindsInvalid, PartitionId, PartitionProof, ProofSystem

Proven = tuple[PartitionId, PartitionProof]


class Resident:
    """A resident key, whose reports go to `post`. `open` comes first and `close` last; both take their time."""

    def __init__(
        self, key: str, system: ProofSystem, fleet: Fleet, post: Callable[[Event], None], quiet: float
    ) -> None:
        self.key = key
        self.system = system
        self.fleet = fleet
        self.transports: dict[str, Transport] = {}
        """Key slots, by worker."""
        self._post = post
        self._quiet = quiet
        self._epochs: dict[str, int] = {}
        """The last load of each worker."""
        self._closed = False
        self._lock = threading.Lock()
        """Held to close it, and to take what opening got: one of the two gives that back."""
        self._shuts = False
        """Whether slots end with the key, while the fleet stays."""
        self._give_back: Callable[[], None] = lambda: None
        self._shared: Any = None
        self._verifiers: Verifiers | None = None
        self._batches: Batches[Proven] | None = None

    def open(self) -> None:
        """Lease the key's memory on all nodes, and give them its files. Raises ClusterError, InputError, and holds
        nothing then. A key that is closed meanwhile raises ClusterError."""
        with ExitStack() as held:
            self._require_open()
            give_back = self.fleet.keep(self.system)
            held.callback(give_back)
            shared = self.fleet.share(self.system)
            verifiers = self.fleet.verifiers(self.system)
            if verifiers is not None:
                held.callback(verifiers.close)
            count = self.fleet.verifying_threads if verifiers is None else verifiers.count
            with self._lock:
                self._require_open()
                self._give_back, self._shared, self._verifiers = give_back, shared, verifiers
                self._batches = Batches(self._verify, count, spread=verifiers is not None)
            held.pop_all()

    def _require_open(self) -> None:
        if self._closed:
            raise ClusterError("the key was closed while it was being opened")

    def close(self, patience: float) -> None:
        """Give back the key's memory on all workers, for which so many seconds are waited at most."""
        slots, self._shuts = list(self.transports.values()), True
        self.stop(wait=patience > 0)
        wait([in_background(slot.end, "distprove-shut") for slot in slots], patience)
        self.release()

    def release(self) -> None:
        """End the lease of the key's memory: the workers have given it back, or are gone."""
        self._batches = None  # which has a reference to this object
        self._give_back()

    def stop(self, *, wait: bool) -> None:
        """Verify nothing more, and ask the workers for no more news."""
        with self._lock:
            self._closed, self.transports = True, {}
        if self._batches is not None:
            self._batches.stop(wait=wait)
        if self._verifiers is not None:
            self._verifiers.close()

    # -- key slots --------------------------------------------------------------------------------------------------

    def load(self, site: Site, epoch: int, permitted: bool) -> None:
        """Load the key on a worker, and report its news from then on, until it dies or the key is closed."""
        worker, slot = site.worker.id, self.slot(site)
        self._epochs[worker] = epoch
        in_background(lambda: self._attend(worker, slot, epoch, permitted), "distprove-load")

    def slot(self, site: Site) -> Transport:
        """The slot for this key on a worker, which may have to be started."""
        worker, transports = site.worker.id, self.transports  # another thread may put others in their place
        if worker not in transports:
            spec = WorkerSpec(worker, self.system, site.worker.synthesisers, site.threads)
            transports[worker] = self.fleet.slot(site.host, spec, self._shared)
        return transports[worker]

    def check(self, worker: str, epoch: int) -> None:
        """Check the key on a worker."""
        slot = self.transports.get(worker)

        def checks() -> None:
            try:
                if slot is None:
                    raise WorkerDied("the worker was given up")
                result: Any = slot.call(Worker.check)
            except BaseException as error:  # whatever it is, the scheduler must know
                result = error
            if not self._closed:
                self._post(KeyChecked(worker, self.key, epoch, result))

        in_background(checks, "distprove-check")

    def _attend(self, worker: str, slot: Transport, epoch: int, permitted: bool) -> None:
        try:
            slot.start()
            loaded = slot.call(Worker.load, epoch, permitted)
        except BaseException as error:  # whatever it is, the scheduler must know
            self._post(LoadFailed(worker, self.key, epoch, error))
        else:
            self._post(KeyLoaded(worker, self.key, epoch, loaded))
            self._report(worker, slot, epoch)
        if self._shuts:
            with suppress(Exception):  # the slot may have opened after the key was closed
                slot.end()

    def _report(self, worker: str, slot: Transport, epoch: int) -> None:
        while not self._closed and self.transports.get(worker) is slot and self._epochs[worker] == epoch:
            try:
                batch = slot.call(Worker.batch, self._quiet)
            except BaseException as error:  # whatever it is, the worker's news are lost
                lost = f"its news were lost: {public_message(error)}"
                died = error if isinstance(error, WorkerDied) else WorkerDied(lost)
                self._post(Died(worker, self.key, epoch, died))
                return
            self._post(News(worker, self.key, epoch, batch))

    # -- verification -----------------------------------------------------------------------------------------------

    def verify(self, proofs: Sequence[Proven], node: str | None, *, last: bool) -> None:
        """Verify proofs that a worker of that node made, together with others that wait; unless these are the `last`,
        also with others to come."""
        assert self._batches is not None, "open first"
        if self._verifiers is not None:
            self._verifiers.made_on(node, [proof for _, proof in proofs])
        self._batches.submit(proofs, last=last)

    def _verify(self, proven: list[Proven]) -> None:
        verifiers, proofs = self._verifiers, [proof for _, proof in proven]
        started = time.time()
        try:
            reasons = why_invalid(verifiers or self.system, proofs)
        except BaseException as error:  # no verdict: such a proof does not count
            reasons = [public_message(error)] * len(proofs)
        finally:
            if verifiers is not None:
                verifiers.done_with(proofs)
        each = (time.time() - started) / len(proofs)
        if not self._closed:
            self._post(
                Verified(
                    [
                        Verdict(id, proof, reason, started + i * each, started + (i + 1) * each)
                        for i, ((id, proof), reason) in enumerate(zip(proven, reasons, strict=True))
                    ]
                )
            )


def why_invalid(verifies: Verifiers | ProofSystem, proofs: list[PartitionProof]) -> list[str | None]:
    """Reasons why proofs do not hold, in order; None for one that holds. All are verified at once with random
    coefficients, and one by one only those that this finds at fault."""
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
