"""One executor, several clients: how copies of a job that are proven at once share its workers.

Each client is an executor to a driver of its own, on a thread of its own. Workers are placed, loaded and checked once,
for the first client that asks; the others are told what that gave. Every client verifies for itself, as drivers on
machines of their own would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from queue import Empty

from cluster.executors import Executor, Work, Worker
from cluster.tasks import Finished, Kind, Task, WorkerDied
from distprove.errors import ClusterError
from distprove.system import Partition, ProofSystem

POLL = 0.01
"""Seconds that the shared executor is waited for at a time: what was submitted meanwhile is waited for from then on."""
ONCE = (Kind.LOAD, Kind.CHECK)
"""What is done once for all clients."""


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

    def submit(self, client: Client, partition: str, call: Callable[[], None]) -> None:
        """Run `call`, which hands a task on `partition` to the executor, and remember whose it is."""
        with self._lock:
            self._owners[partition] = client
            call()

    def once(self, client: Client, task: Task, call: Callable[[], None]) -> None:
        """Run `call` unless that was done already; either way `client` is told what it came to."""
        assert task.worker is not None
        key = (task.kind, task.worker)
        with self._lock:
            if key in self._once:
                client.take(self._once[key])
                return
            waiting = self._waiting.setdefault(key, [])
            waiting.append(client)
            if len(waiting) == 1:
                call()

    def forget(self, work: Work) -> None:
        with self._lock:
            self._executor.forget(work)

    def _run(self) -> None:
        while not self._over.is_set():
            finished = self._executor.wait(POLL)
            if finished is not None:
                with self._lock:
                    self._deliver(finished)

    def _deliver(self, finished: Finished) -> None:
        task = finished.task
        if isinstance(finished.error, WorkerDied):  # it must be loaded again, for everybody
            self._once = {key: value for key, value in self._once.items() if key[1] != task.worker}
        if task.kind in ONCE and task.worker is not None:
            key = (task.kind, task.worker)
            if finished.error is None:
                self._once[key] = finished
            for client in self._waiting.pop(key, ()):
                client.take(finished)
        elif task.partition is not None and task.partition in self._owners:
            self._owners[task.partition].take(finished)

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

    def load(self, worker: Worker) -> None:
        self._shared.once(self, Task(Kind.LOAD, worker.id, None), lambda: self._executor.load(worker))

    def check(self, worker: Worker) -> None:
        self._shared.once(self, Task(Kind.CHECK, worker.id, None), lambda: self._executor.check(worker))

    def synthesise(self, worker: Worker, partition: Partition) -> None:
        self._shared.submit(self, partition.name, lambda: self._executor.synthesise(worker, partition))

    def commit(self, worker: Worker, partition: Partition, work: Work) -> None:
        self._shared.submit(self, partition.name, lambda: self._executor.commit(worker, partition, work))

    def prove(self, worker: Worker, partition: Partition, work: Work, challenge: bytes | None) -> None:
        self._shared.submit(self, partition.name, lambda: self._executor.prove(worker, partition, work, challenge))

    def diagnose(self, worker: Worker, partition: Partition, work: Work) -> None:
        self._shared.submit(self, partition.name, lambda: self._executor.diagnose(worker, partition, work))

    def verifying(self) -> AbstractContextManager[object]:
        return self._executor.verifying()

    def forget(self, work: Work) -> None:
        self._shared.forget(work)

    def take(self, finished: Finished) -> None:
        """Something this client waits for is over."""
        self._done.put(replace(finished))

    def end(self, reason: BaseException) -> None:
        self._ended = reason

    def wait(self, timeout: float) -> Finished | None:
        deadline = time.monotonic() + timeout
        while self._ended is None:
            try:
                return self._done.get(timeout=min(0.1, max(0.0, deadline - time.monotonic())))
            except Empty:
                if time.monotonic() >= deadline:
                    return None
        raise self._ended

    def retire(self, worker: Worker) -> None:
        """The others still use it, and without it what is measured is not what was asked for."""
        self._shared.stop(ClusterError(f"{worker.id} was given up while settings were compared"))
