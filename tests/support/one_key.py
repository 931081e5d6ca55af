"""A fleet with one resident key, without a scheduler: a test loads, hands out orders, and takes the reports itself."""

from __future__ import annotations

import time
from queue import SimpleQueue
from typing import TypeVar

from actors.protocol import Loaded, Order, Outcome, Transport, WorkKind
from actors.worker import Worker
from cluster.executor.fleet import Fleet
from cluster.scheduler.events import Died, Event, KeyLoaded, LoadFailed, News
from cluster.scheduler.resident import Resident
from distprove.system import Partition, ProofSystem

Kind = TypeVar("Kind", KeyLoaded, News)
PATIENCE = 180.0
FIRST = "prover-0"


class OneKey:
    """One resident key on a fleet, whose orders and reports a test handles. The first worker is the default."""

    def __init__(self, fleet: Fleet, system: ProofSystem) -> None:
        self.fleet = fleet
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.resident = Resident("key", system, fleet, self._events.put, 5.0)
        self._epoch = 0
        self._closed = False
        try:
            fleet.open(system)
            self.resident.open()
        except BaseException:
            fleet.close(now=True)
            raise

    def load(self, worker: str = FIRST) -> None:
        self._epoch += 1
        self.resident.load(self.fleet.sites[worker], self._epoch, True)

    def loaded(self, worker: str = FIRST) -> Loaded:
        """Load the key on a worker, and wait for it."""
        self.load(worker)
        return self.next(KeyLoaded).loaded

    def slot(self, worker: str = FIRST) -> Transport:
        """The worker's slot, which need not be loaded yet."""
        return self.resident.slot(self.fleet.sites[worker])

    def hand(self, *partitions: Partition, kind: WorkKind = WorkKind.PROVE) -> None:
        """Give orders of the last load to the first worker."""
        self.slot().tell(Worker.take, self._epoch, [Order(partition, kind) for partition in partitions], None)

    def asked(self, partition: Partition, kind: WorkKind = WorkKind.PROVE) -> Outcome:
        """Have an order carried out."""
        self.hand(partition, kind=kind)
        while not (outcomes := self.next(News).batch.outcomes):
            pass
        (outcome,) = outcomes
        return outcome

    def next(self, kind: type[Kind]) -> Kind:
        """The next report of that kind. Raises the error of a worker that died or could not load the key."""
        late = time.monotonic() + PATIENCE
        while True:
            event = self._events.get(timeout=late - time.monotonic())
            if isinstance(event, kind):
                return event
            if isinstance(event, Died | LoadFailed):
                raise event.error

    def close(self, *, now: bool = False) -> None:
        if not self._closed:
            self._closed = True
            self.resident.close(0.0 if now else PATIENCE)
            self.fleet.close(now=now)

    def __enter__(self) -> OneKey:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(now=error is not None)
