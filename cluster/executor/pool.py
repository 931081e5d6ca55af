"""A pool of workers for many jobs and many keys: what a standing service proves with.

    driver of a job --its Client, an ordinary executor--> resident key --a room on each worker--> the fleet

Each job has a driver of its own, on a thread of its own, which takes its `Client` for an executor of its own. The
workers' processes and devices are opened once, by `Pool.start`. A key comes with its first job, for which it is loaded
on every worker (`Client.cold`); it stays when that job is over, and the next job of the same key finds it loaded and
checked. Jobs may name their partitions alike: whatever a worker knows of a partition it knows by job and name.

Order: at a worker, jobs of the lowest rank go first, and jobs of one rank take turns, partition by partition, so that a
large job does not hold up a small one. Priority is strict: under a steady load of a lower rank a job of a higher one
gets nothing. What is with the prover already, three partitions as a rule, is not overtaken.

Memory: a key that finds no room, on a device or in a node's budget, takes the place of the one that was used longest
ago and that no job is at work with. Where every other key is in use its job waits until one is not, and says so
(`Executor.waits_for`).

Trouble: a worker that dies is started again, and loads again the keys of the jobs that use it. Only the job at whose
partition it died is blamed for it. A job whose driver gives up a worker goes on without it, and the others with it. A
worker that several jobs give up in a row, or that dies again and again, with no good proof of any job in between, is
given up for all.

Growth: nodes may join and leave a cluster. Workers on those that joined have a room for each resident key at once, and
load it for the next job that asks, be it at work already; those whose node left are given up for all. Whoever asks
anything of the pool has it look.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from actors.messages import files_of
from actors.processes import WorkerDied
from actors.worker import Ask, Batch, Loaded, Order
from cluster.executor.base import Executor, WorkerHandle
from cluster.executor.fleet import Fleet, FleetExecutor, Site, files_bytes
from cluster.executor.opening import choose, open_fleet
from cluster.executor.tasks import Finished, Kind
from cluster.executor.transport import Transport
from cluster.executor.views import KeyView, WorkerView
from cluster.recent import Recent
from distprove.errors import ClusterError, DistproveError, UsageError
from distprove.host.beside import in_background
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, PartitionProof, ProofSystem
from kernels.errors import OutOfMemory

MINUTE = 60
"""Seconds over which a worker's share of busy time is told."""
GIVEN_UP = 3
"""Jobs in a row that give up a worker, with no good proof of any in between, before it is given up for all. Before the
last its process is started anew."""
DEATHS = 6
"""Deaths of a worker in a row, with no good proof in between, before it is given up for all: twice as many as a job
takes, so that it is a job's own partition that is found first."""
REPORT_AGE = 1.0
"""Seconds for which a look at processes and GPUs is new enough for reports of jobs: it takes milliseconds, and short
jobs end by the hundred a second."""


@dataclass
class _Standing:
    """What the pool knows of a worker."""

    worker: WorkerHandle
    facts: dict[str, Any] = field(default_factory=dict)
    proven: int = 0
    computed: Recent = field(default_factory=lambda: Recent(MINUTE))
    """Microseconds that the device computed."""
    given_up: int = 0
    """Jobs in a row that gave it up."""
    deaths: int = 0
    """Deaths in a row."""
    life: object = None
    """The process whose death was counted last."""
    restarted: bool = False
    """Whether the pool ended its process, for which no job is to blame."""
    lost: str | None = None
    loading: _Loadings = field(default_factory=lambda: _Loadings())
    """Its keys load one at a time, so that it is known of which it dies."""

    def computes(self, started: float, ended: float) -> None:
        """Its device computed for that time."""
        for second in range(int(started), int(ended) + 1):
            self.computed.add(second, int(1e6 * (min(ended, second + 1.0) - max(started, float(second)))))

    def told(self) -> WorkerView:
        facts, busy = self.facts, self.computed.total(time.time()) / (1e6 * MINUTE)
        return WorkerView(
            self.worker.id,
            str(facts.get("node", self.worker.node)),
            str(facts.get("device", "")),
            str(facts.get("kind", "")),
            min(1.0, busy),
            self.proven,
            facts.get("memory_used") or None,
            facts.get("memory_total") or None,
            self.lost,
        )


class Pool:
    """See the module's text. Any thread may call; `start` comes first and `close` last."""

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self.chosen = str(choose(settings))
        """As `Executor.chosen`."""
        self.changed = threading.Condition()
        """Guards all that the pool and its keys know; notified when a key or a job comes, is ready, or goes."""
        self.standing: dict[str, _Standing] = {}
        """Workers by id."""
        self._fleet: Fleet | None = None
        self._keys: dict[str, _Key] = {}
        """Resident keys, and those on their way, by identity."""
        self._clients: dict[str, Client] = {}
        self.evicted = 0
        """Idle keys that made room for others."""
        self._shutting = 0
        """Keys that are giving back their memory."""
        self._opening = threading.Lock()
        self._closed = False

    @property
    def fleet(self) -> Fleet:
        assert self._fleet is not None, "start first"
        return self._fleet

    def start(self) -> None:
        """Open the workers' processes and devices, unless they are. Raises ClusterError."""
        with self._opening:
            if self._fleet is not None:
                return
            fleet = open_fleet(self.settings)
            try:
                fleet.report_age = REPORT_AGE
                fleet.open(None)
            except BaseException:
                fleet.close(now=True)
                raise
            sites = list(fleet.sites.values())
            with self.changed:
                self.standing = {site.worker.id: _Standing(site.worker) for site in sites}
                self._fleet = fleet
        _start_all(sites)

    def close(self, now: bool = False) -> None:
        """End the waiting of all jobs, then everything that the pool started; `now`: without waiting for what runs."""
        with self.changed:
            self._closed = True
            keys, self._keys = list(self._keys.values()), {}
            clients = list(self._clients.values())
            self.changed.notify_all()
        for client in clients:
            client.stop(ClusterError("the pool of workers was closed"))
        for key in keys:
            key.executor.abandon()
        if self._fleet is not None:
            self._fleet.close(now=now)

    def __enter__(self) -> Pool:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(now=error is not None)

    def lend(self, system: ProofSystem, *, job: str, rank: int = 2, known_as: str | None = None) -> Client:
        """An executor for the driver of one job. Jobs have different names; those of the lowest rank go first. Its key
        is found or loaded when the driver starts the executor. `known_as` is the `identity` of the system, where
        that was found out before. Raises UsageError for a name that is in use."""
        if not job:
            raise UsageError("a job needs a name")
        with self.changed:
            if job in self._clients:
                raise UsageError(f"a job named {job} is at work already")
            client = self._clients[job] = Client(self, system, job, rank, known_as)
            return client

    def keys(self) -> list[KeyView]:
        """The resident keys."""
        with self.changed:
            return [key.told() for key in self._keys.values() if key.loaded]

    def workers(self) -> list[WorkerView]:
        """The workers, those that were given up included."""
        self.renew()
        with self.changed:
            return [standing.told() for standing in self.standing.values()]

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """Reports of the nodes' governors, as an executor gives them."""
        fleet = self._fleet
        return [] if fleet is None else fleet.governor_report(began)

    def settle(self, timeout: float) -> None:
        """Wait until every worker that was asked to load has, or has failed: a short job ends before they all have."""
        late = time.monotonic() + timeout
        with self.changed:
            while any(key.pending for key in self._keys.values()) and (left := late - time.monotonic()) > 0:
                self.changed.wait(left)

    # -- for keys and clients ---------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Use the workers that joined the fleet, and give up those whose nodes left it. Waits for nothing."""
        fleet = self._fleet
        if fleet is None or fleet.lost:
            return
        with self.changed:
            if self._closed or self._fleet is not fleet:
                return
            with suppress(Exception):  # nobody's job or question fails for it; there is another look
                fleet.grow()
            # Those that it has placed are there, even if it failed afterwards.
            new = [site for name, site in list(fleet.sites.items()) if name not in self.standing]
            self.standing |= {site.worker.id: _Standing(site.worker) for site in new}
            for key in self._keys.values() if new else ():
                key.seat_newcomers()
        _start_all(new)
        for worker in fleet.left():
            self.lose(worker, "its node left the cluster")

    def lose_all(self, fleet: Fleet) -> None:
        """What the workers ran on is gone: the next job has others started."""
        with self.changed:
            if self._fleet is not fleet:
                return
            keys, self._keys, self._fleet = list(self._keys.values()), {}, None
            self.changed.notify_all()
        for key in keys:
            key.executor.abandon()
        # On another thread: it waits for the one that looks whether all is there, which may be this one.
        threading.Thread(target=fleet.close, kwargs={"now": True}, name="distprove-lost", daemon=True).start()

    def admit(self, client: Client) -> tuple[_Key, bool]:
        """The resident key of a client's system, and whether it had to be loaded for it. Raises ClusterError, and why
        the client is stopped."""
        name = client.known_as or identity(client.system)
        while True:
            self.start()
            with self.changed:
                if self._closed:
                    raise ClusterError("the pool of workers was closed")
                key, cold = self._keys.get(name), False
                if key is None:
                    key, cold = _Key(self, name, client), True
                    self._keys[name] = key
                key.clients[client.job] = client
                client.key = key
                while not cold and not key.opened and key in self._keys.values():
                    client.check_ended()
                    self.changed.wait(1.0)
                if key is not self._keys.get(name):
                    continue  # whoever was to open it could not, and hears why; this one tries for itself
            if cold:
                try:
                    key.open(client)
                except BaseException:
                    with self.changed:
                        self._drop([key])
                    self._shut([key])
                    raise
            with self.changed:
                cold = cold or not (key.loaded or key.pending)
            key.wait(client)
            return key, cold

    def make_room(self, key: _Key, say: Callable[[str], None], needed: Callable[[], bool]) -> bool:
        """Have the idle key that was used longest ago give back its memory; wait for one while all others are in use,
        as long as room is `needed`. False where `key` is alone."""
        told = False
        while not self.evict_oldest(key):
            with self.changed:
                if self._closed or not needed() or not (len(self._keys) > 1 or self._shutting):
                    return False
                if not told:
                    say("room for its key beside those in use")
                    told = True
                before = self._shutting
                self.changed.wait(1.0)
                if self._shutting < before:
                    return True
        return True

    def evict_oldest(self, key: _Key | None = None) -> bool:
        """Have the idle key that was used longest ago, if not `key`, give back its memory; whether there was one."""
        with self.changed:
            others = [other for other in self._keys.values() if other is not key and other.idle]
            oldest = sorted(others, key=lambda other: other.used)[:1]
            self.evicted += len(oldest)
            self._drop(oldest)
        self._shut(oldest)
        return bool(oldest)

    def leave(self, client: Client) -> None:
        """A job is over."""
        with self.changed:
            if self._clients.get(client.job) is client:
                del self._clients[client.job]
            key, gone = client.key, []
            if key is not None and key.clients.pop(client.job, None) is not None:
                key.used = time.time()
                if not key.clients and not key.loaded and key.identity in self._keys:
                    gone = [key]  # no worker could load it
                    self._drop(gone)
            self.changed.notify_all()
        self._shut(gone)

    @property
    def crowded(self) -> bool:
        """Whether several keys are resident."""
        return len(self._keys) > 1

    def backlog(self, worker: str) -> int:
        """Number of orders that a worker has, of all jobs."""
        return sum(client.handed[worker] for client in tuple(self._clients.values()))

    def good(self, worker: str) -> None:
        """A worker's proof holds. Called without the lock: what it resets is of no weight by itself."""
        standing = self.standing[worker]
        if standing.given_up or standing.deaths:
            with self.changed:
                standing.given_up = standing.deaths = 0

    def died(self, worker: str, life: object) -> None:
        """A worker's process ended: that one, of whose end several keys may tell."""
        with self.changed:
            standing = self.standing[worker]
            standing.deaths += standing.life != life
            standing.life = life
            lost = standing.deaths >= DEATHS
        if lost:
            self.lose(worker, f"it died {DEATHS} times in a row")

    def given_up(self, worker: str) -> None:
        """A job gave up a worker that had loaded its key."""
        with self.changed:
            standing = self.standing[worker]
            standing.given_up += 1
            count = standing.given_up
        if count >= GIVEN_UP:
            self.lose(worker, f"{count} jobs in a row gave it up")
        elif count == GIVEN_UP - 1:
            standing.restarted = True
            self.fleet.sites[worker].host.kill()

    def lose(self, worker: str, reason: str) -> None:
        """Give up a worker for all."""
        with self.changed:
            standing, fleet = self.standing[worker], self._fleet
            if standing.lost is not None:
                return
            standing.lost = reason
            keys = list(self._keys.values())
        if fleet is not None:
            fleet.retire(worker)
        for key in keys:
            key.lose(worker, reason)

    def _drop(self, keys: list[_Key]) -> None:
        """Keys are not resident from here on; `_shut` is to follow. Called with the lock held."""
        for key in keys:
            if self._keys.pop(key.identity, None) is not None:
                self._shutting += 1

    def _shut(self, keys: list[_Key]) -> None:
        for key in keys:
            try:
                key.executor.close()
            finally:
                with self.changed:
                    self._shutting -= 1
                    self.changed.notify_all()


class _Loadings:
    """Orders the loadings of keys on one worker: the key of the most urgent job goes first, then the oldest."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Key] = []
        self._busy = False

    @contextmanager
    def turn(self, key: _Key) -> Iterator[None]:
        with self._changed:
            self._waiting.append(key)
            self._changed.wait_for(lambda: not self._busy and min(self._waiting, key=lambda each: each.rank) is key)
            self._waiting.remove(key)
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class _KeyExecutor(FleetExecutor):
    """The executor of a resident key, whose reports go to the jobs at work with it."""

    def __init__(self, key: _Key, pool: Pool) -> None:
        super().__init__(pool.fleet, own=False)
        self._key = key
        self._pool = pool

    @property
    def transports(self) -> dict[str, Transport]:
        """Ways for messages to its rooms, by worker."""
        return self._transports

    def told(self, finished: Finished) -> None:
        self._key.take(finished)

    def abandon(self) -> None:
        """End what is here; the rooms end with the fleet."""
        self._transports = {}
        self.close(now=True)

    def _ask(self, finished: Finished, transport: Transport, name: str, *arguments: Any) -> None:
        worker = finished.worker or ""
        if finished.kind is not Kind.LOAD:
            super()._ask(finished, transport, name, *arguments)
            return
        with self._pool.standing[worker].loading.turn(self._key):
            if self._transports.get(worker) is transport:
                super()._ask(finished, transport, name, *arguments)
            else:
                finished.error = ClusterError("its jobs ended before the key was loaded")
        if self._transports.get(worker) is not transport:
            transport.end()  # the room may have opened after the key was given back


class _Key:
    """A resident key, and the jobs at work with it."""

    def __init__(self, pool: Pool, name: str, client: Client) -> None:
        self.identity = name
        self.system = client.system
        self.digest = client.system.key_digest().hex()
        self.executor = _KeyExecutor(self, pool)
        self.workers: list[WorkerHandle] = []
        self.clients: dict[str, Client] = {}
        """Jobs at work with it."""
        self.used = time.time()
        self.opened = False
        self.loaded: dict[str, Finished] = {}
        """What loading came to, by worker, where it succeeded and the worker lives."""
        self.pending: set[str] = set()
        """Workers that are loading it."""
        self._failed: dict[str, Finished] = {}
        """Loadings that came to nothing, and that no job was told of."""
        self._checked: Finished | None = None
        """The check that found the key good."""
        self._asked: dict[str, list[Client]] = {}
        """Jobs that wait for a worker's loading."""
        self._waits_for_room = 0
        """Workers on whose devices it waits for room."""
        self._checking: list[tuple[Client, WorkerHandle]] = []
        """Jobs that wait for the key's check, which the first one's worker does."""
        self._pool = pool

    @property
    def idle(self) -> bool:
        """Whether it may give way to others."""
        return self.opened and not self.clients and not self.pending

    @property
    def rank(self) -> int:
        """The rank of its most urgent job; the last of all where it has none left."""
        return min((client.rank for client in tuple(self.clients.values())), default=sys.maxsize)

    def open(self, client: Client) -> None:
        """Open a room for it on every worker, and begin to load. Raises ClusterError."""
        while True:
            try:
                self.workers = self.executor.start(self.system)
                break
            except ClusterError:
                if not self._pool.make_room(self, client.waits_for, lambda: client.ended is None):
                    client.check_ended()
                    raise
        with self._pool.changed:
            self.opened = True
            self.seat_newcomers()
            self.pending = {worker.id for worker in self.workers}
            self._pool.changed.notify_all()
        for worker in list(self.workers):
            self.executor.load(worker, self._permitted)

    def seat_newcomers(self) -> None:
        """Prepare a room on the workers that joined the fleet since it was opened. The lock is held."""
        seated = {worker.id for worker in self.workers}
        for site in list(self.executor.fleet.sites.values()) if self.opened else ():
            if site.worker.id not in seated:
                self.workers.append(self.executor.seat(site))

    def wait(self, client: Client) -> None:
        """Wait until a worker has loaded it, or none will without the driver's doing."""
        late = time.monotonic() + self._pool.settings.start_timeout
        with self._pool.changed:
            while not self.loaded and self.pending and (self._waits_for_room or time.monotonic() < late):
                client.check_ended()
                self._pool.changed.wait(1.0)
            self.used = time.time()
        client.check_ended()

    def told(self) -> KeyView:
        """Called with the lock held."""
        took = max((int(loaded.value.prover.value.get("key_bytes", 0)) for loaded in self.loaded.values()), default=0)
        size = took
        with suppress(DistproveError):  # the key's file was replaced or is gone: its loading says so
            size = took or files_bytes(self.system)
        title = title_of(self.system)
        return KeyView(self.digest, self.system.name, title, len(self.loaded), size, len(self.clients), self.used)

    # -- what jobs ask ----------------------------------------------------------------------------------------------

    def load(self, client: Client, worker: WorkerHandle) -> None:
        """Have a worker load it, unless it has; either way `client` is told what it came to."""
        with self._pool.changed:
            lost = self._pool.standing[worker.id].lost
            known = self.loaded.get(worker.id) or self._failed.pop(worker.id, None)
            if lost is not None:
                known = Finished(Kind.LOAD, worker.id, error=ClusterError(lost))
            if known is not None:
                client.take(known)
                return
            self._asked.setdefault(worker.id, []).append(client)
            if worker.id in self.pending:
                return
            self.pending.add(worker.id)
        self.executor.load(worker, self._permitted)

    def check(self, client: Client, worker: WorkerHandle) -> None:
        """Have the key checked, unless it has been; either way `client` is told what it came to."""
        with self._pool.changed:
            if self._checked is not None:
                client.take(replace(self._checked, worker=worker.id))
                return
            self._checking.append((client, worker))
            if len(self._checking) > 1:
                return
        self.executor.check(worker)

    def lose(self, worker: str, reason: str) -> None:
        """A worker was given up for all: jobs that use it are told so when they have it loaded again."""
        self.executor.transports.pop(worker, None)
        with self._pool.changed:
            self.pending.discard(worker)
            asked = self._asked.pop(worker, [])
        for client in asked:
            client.take(Finished(Kind.LOAD, worker, error=ClusterError(reason)))
        self._take_death(worker, Finished(Kind.BATCH, worker, error=WorkerDied(reason)))

    # -- what workers report ----------------------------------------------------------------------------------------

    def take(self, finished: Finished) -> None:
        """Take to the jobs what a worker reports."""
        worker = finished.worker
        if finished.kind is Kind.LOST:
            with self._pool.changed:
                clients = list(self.clients.values())
            for client in clients:
                client.take(finished)
            self._pool.lose_all(self.executor.fleet)
            return
        assert worker is not None, "clients verify and keep for themselves"
        if finished.kind is Kind.LOAD:
            self._take_loading(worker, finished)
        elif finished.kind is Kind.CHECK:
            self._take_check(worker, finished)
        elif finished.error is not None:
            self._take_death(worker, finished)
        else:
            self._take_news(worker, finished)

    def _take_loading(self, worker: str, finished: Finished) -> None:
        pool = self._pool
        if finished.epoch != self.executor.epoch_of(worker):
            return
        if isinstance(finished.error, OutOfMemory) and self._make_room():
            handle = next(handle for handle in self.workers if handle.id == worker)
            self.executor.load(handle, self._permitted)
            return
        at = finished.error.at if isinstance(finished.error, WorkerDied) else None
        if isinstance(finished.error, WorkerDied) and at is None:
            pool.died(worker, object())  # of this
        with pool.changed:
            self.pending.discard(worker)
            asked = self._asked.pop(worker, [])
            if finished.error is None:
                self.loaded[worker] = finished
                standing, loaded = pool.standing[worker], finished.value
                assert isinstance(loaded, Loaded)
                standing.facts, standing.restarted = loaded.prover.value, False
            elif not asked:
                self._failed[worker] = finished
            for client in asked:
                client.take(replace(finished, blamed=at is None or at[0] == client.job))
            pool.changed.notify_all()

    def _make_room(self) -> bool:
        """Have another key give way on the devices; whether one did."""
        with self._pool.changed:
            clients = list(self.clients.values())
            self._waits_for_room += 1

        def say(what: str) -> None:
            for client in clients:
                client.waits_for(what)

        try:
            return self._pool.make_room(
                self, say, lambda: any(client.ended is None for client in self.clients.values())
            )
        finally:
            with self._pool.changed:
                self._waits_for_room -= 1

    def _take_check(self, worker: str, finished: Finished) -> None:
        with self._pool.changed:
            asked, self._checking = self._checking, []
            if finished.error is None:
                self._checked = finished
        for client, where in asked:
            if isinstance(finished.error, WorkerDied) and where.id != worker:
                self.check(client, where)  # that one lives
            else:
                client.take(replace(finished, worker=where.id))

    def _take_death(self, worker: str, finished: Finished) -> None:
        loaded = self.loaded.get(worker)
        if loaded is not None:
            facts = loaded.value.prover.value
            self._pool.died(worker, (facts.get("host"), facts.get("pid")))
        with self._pool.changed:
            at = finished.error.at if isinstance(finished.error, WorkerDied) else None
            if self._pool.standing[worker].restarted:
                at = None
            self.loaded.pop(worker, None)
            for client in self.clients.values():
                client.take(replace(finished, blamed=at is not None and at[0] == client.job))

    def _take_news(self, worker: str, finished: Finished) -> None:
        """Tell each job its part of a worker's news; now and then also a job that has nothing there, for which the
        worker would else be silent."""
        news: dict[str, Batch] = finished.value
        now = time.monotonic()
        if any(isinstance(outcome.error, OutOfMemory) for batch in news.values() for outcome in batch.outcomes):
            while self._pool.evict_oldest(self):  # the driver has the partition tried again
                pass
        with self._pool.changed:
            standing, crowded = self._pool.standing[worker], self._pool.crowded
            for job, batch in news.items():
                for outcome in batch.outcomes:
                    if crowded and isinstance(outcome.error, OutOfMemory) and job in self.clients:
                        self.clients[job].crowded = True
                    standing.proven += outcome.ask is Ask.PROVE and outcome.error is None
                    for stretch in outcome.stretches:
                        if stretch.stage in ("prove", "commit"):
                            standing.computes(stretch.started, stretch.ended)
            for job, client in self.clients.items():
                part = news.get(job) or news.get("")
                if part is not None or now - client.heard.get(worker, 0.0) > self.executor.quiet:
                    client.heard[worker] = now
                    client.take(replace(finished, value=part or Batch([], [])))

    @property
    def _permitted(self) -> bool:
        return self._checked is not None or not isinstance(self.system, ChecksKey)


class Client(Executor):
    """The executor of one job, on the workers of a pool. Made by `Pool.lend`; close it when the job is over."""

    kind = "pool"

    def __init__(self, pool: Pool, system: ProofSystem, job: str, rank: int, known_as: str | None = None) -> None:
        super().__init__(pool.settings)
        self.chosen = pool.chosen
        self.system = system
        self.job = job
        self.rank = rank
        self.known_as = known_as
        self.cold: bool | None = None
        """Whether the key had to be loaded for this job; None before that is known."""
        self.key: _Key | None = None
        self.ended: BaseException | None = None
        """Why this job is not to go on, if it is not."""
        self._pool = pool
        self.handed: Counter[str] = Counter()
        """Number of orders that each worker has of this job."""
        self.heard: dict[str, float] = {}
        """Time at which each worker was last heard, on the monotonic clock."""
        self._made_by: dict[str, str] = {}
        """Workers of the proofs that are being verified and kept, by partition."""
        self._known: set[str] = set()
        """Workers that its driver was told of."""

    def start(self, system: ProofSystem) -> list[WorkerHandle]:
        """The workers that may be used. At least one has loaded the key, unless all failed to. Raises ClusterError, and
        why this job was stopped."""
        key, self.cold = self._pool.admit(self)
        self._system = system
        self._transports = key.executor.transports
        self.verifiers = key.executor.verifiers
        self.verifying_threads = key.executor.verifying_threads
        usable = self.newcomers()
        if not usable:
            lost = (standing.lost for standing in self._pool.standing.values() if standing.lost)
            raise ClusterError(f"no worker is left: {next(lost, 'none was started')}")
        return usable

    def newcomers(self) -> list[WorkerHandle]:
        self._pool.renew()
        standing = self._pool.standing
        new = [worker for worker in tuple(self._resident.workers) if worker.id not in self._known]
        self._known |= {worker.id for worker in new}
        return [worker for worker in new if standing[worker.id].lost is None]

    def stop(self, reason: BaseException) -> None:
        """End the job's waiting: its driver gets `reason`. Any thread may call."""
        self.ended = reason
        self.wake()

    def check_ended(self) -> None:
        """Raise why this job is not to go on."""
        if self.ended is not None:
            raise self.ended

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        self._resident.load(self, worker)

    def check(self, worker: WorkerHandle) -> None:
        self._resident.check(self, worker)

    def hand(
        self, worker: WorkerHandle, orders: Sequence[Order], began: float = 0.0, parallel: int | None = None
    ) -> None:
        self.handed[worker.id] += len(orders)
        super().hand(worker, orders, began, parallel)

    def backlog(self, worker: WorkerHandle) -> int:
        return self._pool.backlog(worker.id) - self.handed[worker.id]

    def dismiss(self, worker: WorkerHandle, synthesiser: str) -> None:
        """This job gives up a synthesiser. The others still use it, and it is started again whenever it dies."""

    def remarks(self) -> list[str]:
        return self._pool.fleet.remarks

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None:
        self._pool.fleet.remember(worker, device, reason)
        self._pool.lose(worker.id, f"its device was given up: {reason}")

    def retire(self, worker: WorkerHandle) -> None:
        """This job gives up a worker; the pool decides what that means for the others."""
        self._tell(worker, "forget", self.job)
        if worker.id in self._resident.loaded:
            self._pool.given_up(worker.id)

    def verify(self, proofs: Sequence[PartitionProof], worker: WorkerHandle, *, last: bool = False) -> None:
        self._made_by |= dict.fromkeys((proof.name for proof in proofs), worker.id)
        super().verify(proofs, worker, last=last)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return self._pool.governor_report(began)

    def take(self, finished: Finished) -> None:
        """Take in something that is over."""
        self.lost = self.lost or finished.kind is Kind.LOST
        if finished.kind is Kind.BATCH and finished.worker is not None:
            batch: Batch | None = finished.value if finished.error is None else None
            over = self.handed[finished.worker] if batch is None else len(batch.outcomes) + len(batch.returned)
            self.handed[finished.worker] -= over
        if finished.kind is Kind.LOAD and finished.worker is not None:
            self._epochs[finished.worker] = finished.epoch  # orders are for this life
        self._done.put(finished)

    def wait(self, timeout: float) -> list[Finished]:
        self.check_ended()
        found = super().wait(timeout)
        for finished in found:
            if finished.kind is Kind.KEEP and finished.error is None:
                for worker in {self._made_by.pop(name) for name in finished.value}:
                    self._pool.good(worker)
        self.check_ended()
        return found

    def close(self, *, now: bool = False) -> None:
        for worker in self.key.workers if self.key is not None else ():
            self._tell(worker, "forget", self.job)
        super().close(now=now)
        self._pool.leave(self)

    @property
    def _resident(self) -> _Key:
        assert self.key is not None, "start first"
        return self.key


def _start_all(sites: Sequence[Site]) -> None:
    """Begin to start the processes of workers."""
    for site in sites:
        # What fails here fails again, and is told, when a key is loaded.
        in_background(site.host.start, "distprove-start")


def identity(system: ProofSystem) -> str:
    """What two systems must have in common to be served by the same rooms: key, program and files."""
    facts = json.dumps(system.describe(), sort_keys=True, default=str)
    state = hashlib.sha256(f"{system.name} {system.key_digest().hex()} {facts}".encode())
    shared = system.shared()
    files = files_of(shared)
    for name, array in sorted(shared.items()):
        content = repr(files[name]).encode() if name in files else hashlib.sha256(array.tobytes()).digest()
        state.update(name.encode() + content)
    return state.hexdigest()


def title_of(system: ProofSystem) -> str:
    """What a person calls the key, in few words."""
    facts = system.describe()
    return str(facts.get("program") or facts.get("circuit") or system.name)
