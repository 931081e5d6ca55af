"""One executor, several clients: how copies of a job that are proven at once share its workers.

Each client is an executor to a driver of its own, on a thread of its own. Workers are placed, loaded and checked once,
for the first client that asks; the others are told what that gave. Every client verifies for itself, as drivers on
machines of their own would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from actors.processes import WorkerDied
from actors.worker import Batch, Order
from cluster.executor.base import Executor, Worker
from cluster.executor.tasks import Finished, Kind
from distprove.errors import ClusterError
from distprove.system import ProofSystem

POLL = 0.01
"""Seconds that the shared executor is waited for at a time: what was submitted meanwhile is waited for from then on."""
ONCE = (Kind.LOAD, Kind.CHECK)
"""Tasks that are done once for all clients."""


class SharedExecutor:
    """Gives out clients, and takes to each what its tasks came to. Use as a context manager around the clients.

    Partitions of different clients must have different names.
    """

    def __init__(self, executor: Executor, system: ProofSystem) -> None:
        """`executor` has not been started; closing it stays the caller's business. Raises ClusterError."""
        self._executor = executor
        self._system = system
        self.workers = executor.start(system)
        self._lock = threading.Lock()
        self._owners: dict[str, Client] = {}
        self._once: dict[tuple[Kind, str], Finished] = {}
        self._waiting: dict[tuple[Kind, str], list[Client]] = {}
        self._clients: list[Client] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="distprove-shared", daemon=True)

    def client(self) -> Client:
        """A new one."""
        with self._lock:
            client = Client(self, self._executor)
            self._clients.append(client)
            return client

    def stop(self, reason: BaseException) -> None:
        """End every client's waiting with `reason`."""
        with self._lock:
            for client in self._clients:
                client.end(reason)

    def hand(
        self, client: Client, worker: Worker, orders: Sequence[Order], began: float, parallel: int | None, job: str
    ) -> None:
        """Hand orders to the executor, and remember whose they are."""
        with self._lock:
            self._owners |= dict.fromkeys((order.partition.name for order in orders), client)
            self._executor.hand(worker, orders, began, parallel, job)

    def once(self, client: Client, kind: Kind, worker: Worker, call: Callable[[], None]) -> None:
        """Run `call` unless that was done already; either way `client` is told what it came to."""
        key = (kind, worker.id)
        with self._lock:
            if key in self._once:
                client.take(self._once[key])
                return
            waiting = self._waiting.setdefault(key, [])
            waiting.append(client)
            if len(waiting) == 1:
                call()

    def settle(self, timeout: float) -> None:
        """Wait until every worker that was asked to load has, or has failed: a short job ends before they all have."""
        late = time.monotonic() + timeout
        while time.monotonic() < late:
            with self._lock:
                if not any(kind is Kind.LOAD for kind, _ in self._waiting):
                    return
            time.sleep(POLL)

    def _run(self) -> None:
        while not self._over.is_set():
            for finished in self._executor.wait(POLL):
                with self._lock:
                    self._deliver(finished)

    def _deliver(self, finished: Finished) -> None:
        assert finished.worker is not None, "clients verify and keep for themselves"
        if isinstance(finished.error, WorkerDied):  # it must be loaded again, for everybody
            self._once = {key: value for key, value in self._once.items() if key[1] != finished.worker}
        if finished.kind in ONCE:
            key = (finished.kind, finished.worker)
            if finished.error is None:
                self._once[key] = finished
            for client in self._waiting.pop(key, ()):
                client.take(finished)
        elif finished.error is not None:
            for client in self._clients:
                client.take(finished)
        else:
            for client in self._clients:
                client.take(replace(finished, value=self._part(finished.value, client)))

    def _part(self, batch: Batch, client: Client) -> Batch:
        """The part of a batch that belongs to a client."""
        owners = self._owners
        return Batch(
            [outcome for outcome in batch.outcomes if owners.get(outcome.name) is client],
            [begun for begun in batch.under_way if owners.get(begun[0]) is client],
            [name for name in batch.returned if owners.get(name) is client],
            batch.loaded,
            batch.lost,
        )

    def __enter__(self) -> SharedExecutor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class Client(Executor):
    """One client's view of a shared executor. Made by `SharedExecutor.client`."""

    def __init__(self, shared: SharedExecutor, executor: Executor) -> None:
        super().__init__(executor.settings)
        self.kind = executor.kind
        self._shared = shared
        self._executor = executor
        self._ended: BaseException | None = None

    def start(self, system: ProofSystem) -> list[Worker]:
        self._system = system
        self.verifiers = self._executor.verifiers
        return self._shared.workers

    def load(self, worker: Worker, permitted: bool = True) -> None:
        self._shared.once(self, Kind.LOAD, worker, lambda: self._executor.load(worker, permitted))

    def check(self, worker: Worker) -> None:
        self._shared.once(self, Kind.CHECK, worker, lambda: self._executor.check(worker))

    def permit(self, worker: Worker) -> None:
        self._executor.permit(worker)

    def hand(
        self, worker: Worker, orders: Sequence[Order], began: float = 0.0, parallel: int | None = None, job: str = ""
    ) -> None:
        self._shared.hand(self, worker, orders, began, parallel, str(id(self)))

    def ask_back(self, worker: Worker, count: int, job: str = "") -> None:
        self._executor.ask_back(worker, count, str(id(self)))

    def interrupt(self, worker: Worker, who: str) -> None:
        self._executor.interrupt(worker, who)

    def verifying(self) -> AbstractContextManager[object]:
        return self._executor.verifying()

    def take(self, finished: Finished) -> None:
        """Take in something that this client waits for and that is over."""
        self._done.put(replace(finished, epoch=0))  # it is of the start that there is: clients count none

    def end(self, reason: BaseException) -> None:
        self._ended = reason

    def wait(self, timeout: float) -> list[Finished]:
        deadline = time.monotonic() + timeout
        while self._ended is None:
            found = super().wait(min(0.1, max(0.0, deadline - time.monotonic())))
            if found or time.monotonic() >= deadline:
                return found
        raise self._ended

    def retire(self, worker: Worker) -> None:
        """The others still use it, and without it what is measured is not what was asked for."""
        self._shared.stop(ClusterError(f"{worker.id} was given up while settings were compared"))

    def dismiss(self, worker: Worker, synthesiser: str) -> None:
        self._shared.stop(ClusterError(f"{synthesiser} was given up while settings were compared"))
