"""A pool of workers for many jobs and many keys: what a standing service proves with.

    driver of a job --its Client, an ordinary executor--> Pool: the resident key --> workers

Each job has a driver of its own, on a thread of its own, which takes its `Client` for an executor of its own. The
workers' processes and devices are opened once, by `Pool.start`. A key comes with its first job, whose client loads it
on every worker (`Client.cold`); it stays when that job is over, and the next job of the same key finds it loaded and
checked. Jobs may name their partitions alike: whatever a worker knows of a partition it knows by job and name.

Order: at a worker, jobs of the lowest rank go first, and jobs of one rank take turns, partition by partition, so that a
large job does not hold up a small one. Priority is strict: under a steady load of a lower rank a job of a higher one
gets nothing.

Memory: a key that finds no room takes the place of the one that was used longest ago and that no job is at work with.
Where every other key is in use, its job waits until one is not, and says so (`Executor.waits_for`).
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from actors.process import files_of
from actors.processes import WorkerDied
from actors.worker import Batch, Loaded, Order
from cluster.executor.base import Executor, Worker
from cluster.executor.opening import open_executor
from cluster.executor.tasks import Finished, Kind
from distprove.errors import ClusterError, UsageError
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, ProofSystem
from kernels.errors import OutOfMemory

MINUTE = 60
"""Seconds over which a worker's share of busy time is told."""


@dataclass(frozen=True)
class KeyFacts:
    """A resident key."""

    digest: str
    system: str
    title: str
    workers: int
    """Workers that have loaded it."""
    bytes: int
    jobs: int
    """Jobs at work with it."""
    last_used: float


@dataclass(frozen=True)
class WorkerFacts:
    """A worker of the pool."""

    id: str
    node: str
    device: str
    kind: str
    busy: float
    """Share of the last minute for which its device computed, from 0 to 1."""
    proven: int
    memory_used: int | None = None
    memory_total: int | None = None
    lost: str | None = None
    """Why it is not used, if it is not."""


@dataclass
class _Standing:
    """What the pool knows of a worker."""

    worker: Worker
    facts: dict[str, Any] = field(default_factory=dict)
    proven: int = 0
    peak: int | None = None
    computed: dict[int, float] = field(default_factory=dict)
    """Seconds that the device computed, by second since the epoch."""

    def computes(self, started: float, ended: float) -> None:
        for second in range(int(started), int(ended) + 1):
            overlap = min(ended, second + 1.0) - max(started, float(second))
            self.computed[second] = self.computed.get(second, 0.0) + max(0.0, overlap)
        for second in [second for second in self.computed if second < ended - 2 * MINUTE]:
            del self.computed[second]

    def busy(self, now: float) -> float:
        return min(1.0, sum(took for second, took in self.computed.items() if second >= now - MINUTE) / MINUTE)


class Pool:
    """See the module's text. Any thread may call; use `start` before and `close` after everything else."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self._ahead: Executor | None = None
        self._changed = threading.Condition()
        self._keys: dict[str, _Key] = {}
        """Resident keys, and those on their way, by identity."""
        self._clients: dict[str, Client] = {}
        self._standing: dict[str, _Standing] = {}
        self._closed = False

    def start(self) -> None:
        """Open the workers' processes and devices. Raises ClusterError."""
        self._ahead = open_executor(self.settings)

    def settle(self, timeout: float) -> None:
        """Wait until every worker that was asked to load has, or has failed: a short job ends before they all have."""
        late = time.monotonic() + timeout
        with self._changed:
            while any(key.loading for key in self._keys.values()) and time.monotonic() < late:
                self._changed.wait(late - time.monotonic())

    def close(self, now: bool = False) -> None:
        """End the waiting of all jobs, then everything that the pool started; `now`: without waiting for what runs."""
        with self._changed:
            self._closed = True
            keys, self._keys = list(self._keys.values()), {}
            self._changed.notify_all()
        for client in list(self._clients.values()):
            client.stop(ClusterError("the pool of workers was closed"))
        for key in keys:
            key.close(now=now)
        if self._ahead is not None:
            self._ahead.close(now=now)
            self._ahead = None

    def __enter__(self) -> Pool:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(now=error is not None)

    def lend(self, system: ProofSystem, *, job: str, rank: int = 2) -> Client:
        """An executor for the driver of one job. Jobs have different names; those of the lowest rank go first. Loading
        is left to the driver's `start`. Raises UsageError for a name that is in use."""
        with self._changed:
            if job in self._clients:
                raise UsageError(f"a job named {job} is at work already")
            client = self._clients[job] = Client(self, system, job, rank)
            return client

    def keys(self) -> list[KeyFacts]:
        """The keys that are resident."""
        with self._changed:
            return [key.told() for key in self._keys.values() if key.ready]

    def workers(self) -> list[WorkerFacts]:
        """The workers, as far as they are known: a worker is known from the first key that it is to load."""
        now = time.time()
        with self._changed:
            return [
                WorkerFacts(
                    standing.worker.id,
                    str(standing.facts.get("node", standing.worker.node)),
                    str(standing.facts.get("device", "")),
                    str(standing.facts.get("kind", "")),
                    standing.busy(now),
                    standing.proven,
                    standing.peak,
                    int(standing.facts.get("memory_total", 0)) or None,
                )
                for standing in self._standing.values()
            ]

    def evict(self, digest: str) -> bool:
        """Give back the memory of a key that no job is at work with; whether it was resident and idle."""
        with self._changed:
            idle = [key for key in self._keys.values() if key.digest == digest and key.ready and not key.clients]
            for key in idle:
                del self._keys[key.identity]
        for key in idle:
            key.close()
        with self._changed:
            self._changed.notify_all()
        return bool(idle)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """Reports of the nodes' governors, as an executor gives them."""
        with self._changed:
            keys = [key for key in self._keys.values() if key.ready]
        return keys[-1].executor.governor_report(began) if keys else []

    # -- for clients ------------------------------------------------------------------------------------------------

    def admit(self, client: Client) -> tuple[_Key, bool]:
        """The resident key of a client's system, and whether it had to be loaded for it. Raises ClusterError."""
        name = identity(client.system)
        while True:
            with self._changed:
                if self._closed:
                    raise ClusterError("the pool of workers was closed")
                key, cold = self._keys.get(name), False
                if key is None:
                    executor, self._ahead = self._ahead or open_executor(self.settings), None
                    key, cold = _Key(self, name, client.system, executor), True
                    self._keys[name] = key
                key.clients[client.job] = client
                key.used = time.time()
                if not cold:
                    while not key.ready and key.failed is None and client.ended is None:
                        self._changed.wait(1.0)
                    client.check_ended()
                    if key.failed is not None:
                        key.clients.pop(client.job, None)
                        continue  # whoever loaded it hears why; this one tries for itself
                    return key, False
            try:
                key.open(client)
            except BaseException as error:
                with self._changed:
                    key.failed = error
                    self._keys.pop(name, None)
                    self._changed.notify_all()
                key.close(now=True)
                raise
            with self._changed:
                key.ready = True
                for worker in key.workers:
                    self._standing.setdefault(worker.id, _Standing(worker))
                self._changed.notify_all()
            return key, True

    def make_room(self, key: _Key, say: Callable[[str], None], ended: Callable[[], bool]) -> None:
        """Evict the idle key that was used longest ago, or wait until there is one. Raises OutOfMemory where `key` is
        the only one."""
        while True:
            with self._changed:
                others = [other for other in self._keys.values() if other is not key and other.ready]
                idle = sorted((other for other in others if not other.clients), key=lambda other: other.used)
                if not others or ended() or self._closed:
                    raise OutOfMemory("there is no room for the key")
                if not idle:
                    say("room for its key beside those in use")
                    self._changed.wait(1.0)
                    continue
                del self._keys[idle[0].identity]
            idle[0].close()
            return

    def leave(self, client: Client) -> None:
        """A job is over."""
        with self._changed:
            if self._clients.get(client.job) is client:
                del self._clients[client.job]
            if client.key is not None:
                client.key.clients.pop(client.job, None)
                client.key.used = time.time()
            self._changed.notify_all()

    def note(self, worker: str, batch: Batch) -> None:
        """Take figures from a batch of a worker."""
        with self._changed:
            standing = self._standing.get(worker)
            if standing is None:
                return
            for outcome in batch.outcomes:
                standing.proven += outcome.times is not None and outcome.error is None
                for stretch in outcome.stretches:
                    if stretch.stage in ("prove", "commit"):
                        standing.computes(stretch.started, stretch.ended)
                if outcome.times is not None and outcome.times.device_peak:
                    standing.peak = max(standing.peak or 0, outcome.times.device_peak)

    def describe(self, worker: str, loaded: Loaded | None) -> None:
        """A worker's loading is over: note its facts."""
        with self._changed:
            if worker in self._standing and loaded is not None:
                self._standing[worker].facts = loaded.prover.value
            self._changed.notify_all()


class _Key:
    """A resident key: the executor that serves it, and the jobs at work with it."""

    def __init__(self, pool: Pool, name: str, system: ProofSystem, executor: Executor) -> None:
        self.identity = name
        self.digest = system.key_digest().hex()
        self.system = system
        self.executor = executor
        self.workers: list[Worker] = []
        self.clients: dict[str, Client] = {}
        """Jobs at work with it."""
        self.used = time.time()
        self.ready = False
        self.failed: BaseException | None = None
        self._pool = pool
        self._lock = threading.Lock()
        self._once: dict[tuple[Kind, str], Finished] = {}
        """What loading and checking came to, which is done once for all jobs."""
        self._waiting: dict[tuple[Kind, str], list[Client]] = {}
        executor.told = self._deliver  # type: ignore[method-assign]

    def open(self, client: Client) -> None:
        """Place the workers for it."""
        self.executor.waits_for = client.waits_for
        self.workers = self.executor.start(self.system)

    def close(self, *, now: bool = False) -> None:
        """Give back what it takes."""
        self.executor.close(now=now)

    @property
    def loading(self) -> bool:
        """Whether a worker is loading it."""
        return any(kind is Kind.LOAD for kind, _ in self._waiting)

    def told(self) -> KeyFacts:
        loaded = sum(kind is Kind.LOAD for kind, _ in self._once)
        size = sum(array.nbytes for array in self.system.shared().values())
        return KeyFacts(
            self.digest, self.system.name, title_of(self.system), loaded, size, len(self.clients), self.used
        )

    def once(self, client: Client, kind: Kind, worker: Worker) -> None:
        """Load or check the key on a worker, unless that was done already; either way `client` is told what it came
        to."""
        name = (kind, worker.id)
        with self._lock:
            if name in self._once:
                client.take(self._once[name])
                return
            waiting = self._waiting.setdefault(name, [])
            waiting.append(client)
            first = len(waiting) == 1
        if first and kind is Kind.LOAD:
            self.executor.load(worker, not isinstance(self.system, ChecksKey))
        elif first:
            self.executor.check(worker)

    def _deliver(self, finished: Finished) -> None:
        worker = finished.worker
        assert worker is not None, "clients verify and keep for themselves"
        if finished.kind is Kind.BATCH and finished.error is None:
            self._route(worker, finished)
            return
        with self._lock:
            if isinstance(finished.error, WorkerDied):  # it must be loaded again, for everybody
                self._once = {name: value for name, value in self._once.items() if name[1] != worker}
            if finished.kind is Kind.BATCH:
                told = list(self.clients.values())
            else:
                told = self._waiting.pop((finished.kind, worker), [])
                if finished.error is None:
                    self._once[finished.kind, worker] = finished
        if finished.kind is Kind.LOAD:
            self._pool.describe(worker, finished.value)
        for client in told:
            client.take(finished)

    def _route(self, worker: str, finished: Finished) -> None:
        """Tell each job its part of a worker's news."""
        news: dict[str, Batch] = finished.value
        for job, client in list(self.clients.items()):
            batch = news.get(job) or news.get("") or Batch([], [])
            self._pool.note(worker, batch)
            client.take(replace(finished, value=batch))


class Client(Executor):
    """The executor of one job, on the workers of a pool. Made by `Pool.lend`; close it when the job is over."""

    def __init__(self, pool: Pool, system: ProofSystem, job: str, rank: int) -> None:
        super().__init__(pool.settings)
        self.kind = "pool"
        self.system = system
        self.job = job
        self.rank = rank
        self.cold: bool | None = None
        """Whether the key had to be loaded for this job; None before that is known."""
        self.key: _Key | None = None
        self.ended: BaseException | None = None
        """Why this job is not to go on, if it is not."""
        self._pool = pool

    def start(self, system: ProofSystem) -> list[Worker]:
        self._system = system
        self.key, self.cold = self._pool.admit(self)
        self.verifiers = self.key.executor.verifiers
        self.verifying_threads = self.key.executor.verifying_threads
        return self.key.workers

    def stop(self, reason: BaseException) -> None:
        """End the job's waiting: its driver gets `reason`. Any thread may call."""
        self.ended = reason

    def check_ended(self) -> None:
        """Raise why this job is not to go on."""
        if self.ended is not None:
            raise self.ended

    def load(self, worker: Worker, permitted: bool = True) -> None:
        self._resident.once(self, Kind.LOAD, worker)

    def check(self, worker: Worker) -> None:
        self._resident.once(self, Kind.CHECK, worker)

    def permit(self, worker: Worker) -> None:
        self._resident.executor.permit(worker)

    def hand(
        self,
        worker: Worker,
        orders: Sequence[Order],
        began: float = 0.0,
        parallel: int | None = None,
        job: str = "",
        rank: int = 0,
    ) -> None:
        self._resident.executor.hand(worker, orders, began, parallel, self.job, self.rank)

    def ask_back(self, worker: Worker, count: int, job: str = "") -> None:
        self._resident.executor.ask_back(worker, count, self.job)

    def interrupt(self, worker: Worker, who: str) -> None:
        self._resident.executor.interrupt(worker, who)

    def dismiss(self, worker: Worker, synthesiser: str) -> None:
        """Nothing is done: the other jobs still use it."""

    def retire(self, worker: Worker) -> None:
        """Nothing is done: the other jobs still use it."""

    def verifying(self) -> AbstractContextManager[object]:
        return self._resident.executor.verifying()

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return [] if self.key is None else self.key.executor.governor_report(began)

    def take(self, finished: Finished) -> None:
        """Take in something that is over."""
        self._done.put(replace(finished, epoch=0))  # it is of the start that there is: clients count none

    def wait(self, timeout: float) -> list[Finished]:
        deadline = time.monotonic() + timeout
        while True:
            self.check_ended()
            found = super().wait(min(0.1, max(0.0, deadline - time.monotonic())))
            if found or time.monotonic() >= deadline:
                return found

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)
        if self.key is not None:
            for worker in self.key.workers:
                self.key.executor.forget(worker, self.job)
        self._pool.leave(self)

    @property
    def _resident(self) -> _Key:
        assert self.key is not None, "start first"
        return self.key


def identity(system: ProofSystem) -> str:
    """What two systems must have in common to be served by the same workers: key, program and files."""
    facts = json.dumps(system.describe(), sort_keys=True, default=str)
    state = hashlib.sha256(f"{system.name} {system.key_digest().hex()} {facts}".encode())
    shared = system.shared()
    files = files_of(shared)
    for name, array in sorted(shared.items()):
        state.update(repr(files[name]).encode() if name in files else hashlib.sha256(array.tobytes()).digest())
    return state.hexdigest()


def title_of(system: ProofSystem) -> str:
    """What a person calls the key, in few words."""
    facts = system.describe()
    return str(facts.get("program") or facts.get("circuit") or system.name)
