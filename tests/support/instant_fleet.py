"""Workers that answer at once: what is left of a job's time is what its keeping costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from actors.backends import BackendChoice
from actors.channel import sendable
from actors.messages import WorkerSpec
from actors.protocol import Batch, Host, Interval, Loaded, Order, Outcome, Timed, UnderWay, WorkKind
from actors.spans import span_json
from actors.worker import Worker
from cluster.executor.fleet import Fleet, Site
from cluster.scheduler.loop import Scheduler
from cluster.scheduler.workers import WorkerHandle
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem
from tests.support.toy_system import ToyBackend

WORKER = WorkerHandle("prover-0", "local", ("synthesiser-0",))
MOST = 4
"""Orders that are carried out at a time, by default; others go back."""

Before = Callable[[str, str], None]


class InstantHost:
    """The host of the only worker."""

    def start(self) -> None: ...

    def call(self, verb: Any, *arguments: Any, **named: Any) -> Any: ...

    def tell(self, verb: Any, *arguments: Any, **named: Any) -> None: ...

    def kill(self) -> None: ...

    def end(self) -> None: ...


class InstantSlot(InstantHost):
    """The worker's slot for one key: a transport whose verbs are carried out here."""

    def __init__(self, system: ProofSystem, fleet: InstantFleet) -> None:
        self.host = InstantHost()
        self.system, self.fleet = system, fleet
        self.news: SimpleQueue[Batch | None] = SimpleQueue()
        self.under_way: dict[Any, UnderWay] = {}
        self.forgotten = 0

    def call(self, verb: Any, *arguments: Any, **named: Any) -> Any:
        now = time.time()
        if verb is Worker.load:
            shared = self.system.shared()
            self.synthesiser, self.prover = self.system.synthesiser(shared, 1), self.system.prover(shared, ToyBackend())
            timed = Timed({"device": "toy", "kind": "cpu"}, now, time.time())
            return Loaded(timed, {"synthesiser-0": timed})
        if verb is Worker.check:
            return Timed(None, now, now)
        assert verb is Worker.batch, verb
        return self._batch(*arguments)

    def _batch(self, timeout: float) -> Batch:
        found = Batch(forgotten=self.forgotten)
        try:
            batch = self.news.get(timeout=timeout)
            while batch is not None:
                found.outcomes += batch.outcomes
                found.returned += batch.returned
                batch = self.news.get_nowait()
        except Empty:
            pass
        found.under_way = list(self.under_way.values())
        return found

    def tell(self, verb: Any, *arguments: Any, **named: Any) -> None:
        if verb is Worker.take:
            _, orders, *_ = arguments
            self.news.put(Batch(returned=[order.id for order in orders[self.fleet.most :]]))
            for order in orders[: self.fleet.most]:
                if self.fleet.before is None:
                    self.carry_out(order)
                else:
                    threading.Thread(target=self.carry_out, args=(order,), daemon=True).start()

        elif verb is Worker.forget:
            self.forgotten = arguments[1]

    def end(self) -> None:
        self.news.put(None)

    def carry_out(self, order: Order) -> None:
        outcome = Outcome(order.id, order.kind, WORKER.id)
        self.under_way[order.id] = UnderWay(order.id, "proving", WORKER.id)
        try:
            if order.kind is not WorkKind.DIAGNOSE:  # the witness is good
                self._prove(order, outcome)
        except BaseException as error:
            outcome.error = sendable(error)
        finally:
            self.under_way.pop(order.id, None)  # a job of the same id may have come and gone
            self.news.put(Batch([outcome]))

    def _prove(self, order: Order, outcome: Outcome) -> None:
        started = time.time()
        if self.fleet.before is not None:
            self.fleet.before(*order.id)
        witness = self.synthesiser.synthesise(order.partition)
        assert order.kind is WorkKind.PROVE
        outcome.value, outcome.times = self.prover.prove_partition(order.partition, witness, order.challenge)
        outcome.witness_bytes, ended = witness.nbytes, time.time()
        for stage, who in (("synthesise", "synthesiser-0"), ("prove", WORKER.id)):
            span = span_json(who, order.id.name, stage, started, ended, "ok", order.began, {})
            outcome.intervals.append(Interval(who, stage, started, ended, span))


class InstantFleet(Fleet):
    kind = "local"

    def __init__(self, settings: ExecutorSettings, before: Before | None = None, most: int = MOST) -> None:
        """`before` is called before each partition of a job is proven, on a thread of the partition's; `most` orders
        are carried out at a time."""
        super().__init__(settings)
        self.before, self.most = before, most
        self.slots: list[InstantSlot] = []

    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        host: Host = InstantHost()  # type: ignore[assignment]
        self.sites[WORKER.id] = Site(WORKER, BackendChoice("cpu"), 1, host)

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None: ...

    def slot(self, host: Host, spec: WorkerSpec, shared: Any) -> Any:
        self.slots.append(InstantSlot(spec.system, self))
        return self.slots[-1]

    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        raise AssertionError("slots need no opening")

    def keep(self, system: ProofSystem) -> Callable[[], None]:
        return lambda: None

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)
        for slot in self.slots:
            slot.end()  # else a thread would wait for news of it, and have all this stay meanwhile

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return []


def instant_scheduler(settings: ExecutorSettings, before: Before | None = None, most: int = MOST) -> Scheduler:
    """A scheduler of many jobs over these workers."""
    return Scheduler(settings, lambda: InstantFleet(settings, before, most), standing=True, kind=InstantFleet.kind)
