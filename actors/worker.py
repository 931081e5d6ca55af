"""A worker: one device and all it needs to prove by itself. It is given orders in chunks and answers in batches.

    orders --> made by its synthesisers --> ready --> staged, computed, put together by its prover --> outcomes

The same class works on threads of the driver's process, in a process of its own and in a Ray actor. It decides nothing:
what failed is told, and whoever gave the order says what becomes of it. A witness never leaves the worker that made it.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from actors.channel import sendable
from actors.grants import HELD, Governor, Memory, MemoryCache, SynthesisLease, ThreadCache
from actors.inflight import Timed, Turn
from actors.pace import Pace
from actors.processes import WorkerDied
from actors.prover import ProverWorker, Shared
from actors.spans import of_times, span_json
from actors.waiting import LastFirst
from distprove.errors import CalledOff, ClusterError, InputError
from distprove.host.beside import in_background
from distprove.system import DeviceTask, Partition, PredictsMemory, ProofSystem, StepTimes, Witness
from distprove.wanted import unless

LINGER = 0.25
"""Seconds between two batches, at least, unless there is trouble to tell or nothing left to do. A chunk is half a
second of work, and another one waits behind it: no worker runs dry before its news were told."""
FEW = 8
"""Proofs that are told before `LINGER` is over, at least, when no more than these are left to be made: what is left to
be verified and kept after the last proof of a job is then little."""
TICK = 0.1
"""Seconds between two looks at what the governor is to be told, and between two batches of a job with `parallel`."""
LONG = 2.0
"""Seconds after which the witness that a synthesiser makes is a long one, for which no other job waits."""
UNHEARD = 10.0
"""Seconds that a synthesiser has to give up what is called off, before its process is ended. Loading it again may take
longer than what it is at, such as one step of a large circuit."""
AT_EXIT = 30.0
"""Seconds that the interpreter waits at its exit for what workers of this process compute, in which a step ends."""
IDLE = 0.02
"""Seconds for which synthesisers beside a GPU keep their threads, at least, while there is nothing for them to make."""


class Ask(str, Enum):
    """Requests for a partition. PROVE takes the witness that COMMIT left here, if there is one."""

    COMMIT = "commit"
    PROVE = "prove"
    DIAGNOSE = "diagnose"


@dataclass(frozen=True)
class Order:
    """A partition, and what is to be done with it."""

    partition: Partition
    ask: Ask
    challenge: bytes | None = None


class Stretch(NamedTuple):
    """Time that a worker spent on a partition, in seconds since the epoch by the clock of its machine."""

    worker: str
    stage: str
    started: float
    ended: float
    span: str
    """The span's text in the timeline, as `actors.spans` writes it."""


@dataclass
class Outcome:
    """Result of an order. Errors are those of the proof system and backend, or `WorkerDied` and `WitnessGone`."""

    name: str
    ask: Ask
    worker: str
    """The prover or synthesiser that had it last."""
    value: Any = None
    """The commitment, or the `PartitionProof`."""
    times: StepTimes | None = None
    """Times of the partition's proof, without the steps that only the timeline holds."""
    error: BaseException | None = None
    witness_bytes: int = 0
    stretches: list[Stretch] = field(default_factory=list)


@dataclass
class Batch:
    """News of a worker for one job."""

    outcomes: list[Outcome]
    under_way: list[tuple[str, str, str]]
    """Partition, stage and worker of the orders that have begun, the oldest of a stage first."""
    returned: list[str] = field(default_factory=list)
    """Partitions whose orders were asked back, and had not begun."""
    loaded: list[tuple[str, Timed]] = field(default_factory=list)
    """Synthesisers that came back after they died."""
    lost: list[tuple[str, BaseException]] = field(default_factory=list)
    """Synthesisers that did not."""


class WitnessRef(Protocol):
    """A reference to a witness that a synthesiser made."""

    @property
    def nbytes(self) -> int: ...

    def read(self) -> Witness:
        """The witness, where the prover can read it. Raises WitnessGone."""

    def release(self) -> None:
        """Nobody reads it any more. A second call does nothing."""


class SynthesiserHandle(Protocol):
    """A synthesiser: on a thread, or in a process of its own, which may die."""

    def load(self) -> Timed:
        """Make the program ready, also after a death; public facts."""

    def make(self, partitions: Sequence[Partition]) -> Sequence[Timed]:
        """For each partition, one after the other, its `WitnessRef` or the system's error. Raises WorkerDied."""

    def call_off(self) -> None:
        """Cancel the witnesses that it makes now. Any thread may call; the call returns at once."""

    def tidy(self) -> None:
        """Have those witnesses given back that were released, and have not been."""

    def kill(self) -> None:
        """End its process, where it has one; what it is making raises WorkerDied."""

    def end(self) -> None:
        """End it for good."""


@dataclass(frozen=True)
class Loaded:
    """Result of loading a worker."""

    prover: Timed
    synthesisers: dict[str, Timed]


@dataclass(eq=False)
class _Order:
    """An order on its way."""

    order: Order
    job: _Job
    outcome: Outcome
    witness: WitnessRef | None = None
    memory: Memory | None = None
    alone: bool = False
    """Whether its witness is made by itself: a synthesiser died at it and others."""

    @property
    def named(self) -> Partition:
        """The partition under the name of its job."""
        return replace(self.order.partition, job=self.job.name) if self.job.name else self.order.partition

    @property
    def made_before(self) -> bool:
        """Whether its witness was made for the commitment, and not for this order."""
        return self.witness is not None and not self.outcome.stretches


@dataclass(eq=False)
class _Job:
    """A job at work here: all that is known of its partitions, whose names are its own."""

    name: str = ""
    rank: int = 0
    began: float = 0.0
    """Start of its session."""
    parallel: int | None = None
    """Most of its witnesses that may be in the making or ready."""
    waiting: deque[_Order] = field(default_factory=deque)
    ready: deque[_Order] = field(default_factory=deque)
    kept: dict[str, _Order] = field(default_factory=dict)
    """Orders that were committed and wait for the barrier."""
    preparing: int = 0
    """Witnesses in the making or ready."""
    held: int = 0
    """Witnesses in the making, ready or with the prover."""
    under_way: dict[str, tuple[str, str]] = field(default_factory=dict)
    batch: Batch = field(default_factory=lambda: Batch([], []))
    changed: bool = False
    """Whether something began since the last batch."""
    heard: float = 0.0
    """Time of its last batch, on the monotonic clock."""
    made: int = 0
    """Number of its last turn at a synthesiser; the job that has not been served for longest has the next."""
    proven: int = 0
    """Number of its last turn at the prover."""
    first: bool = True
    """Whether none of its outcomes was told yet: somebody waits to see whether it goes well."""
    over: bool = False
    """Whether it was forgotten: nobody asks any more for what is under way."""
    turns: dict[str, Turn] = field(default_factory=dict)
    """Places at a prover that others use, too: whoever waits there for others does not hang."""

    @property
    def has_news(self) -> bool:
        batch = self.batch
        return bool(batch.outcomes or batch.returned or batch.loaded or batch.lost or self.changed)

    @property
    def is_urgent(self) -> bool:
        """Whether its news are to be told at once."""
        batch = self.batch
        if batch.lost or batch.loaded or batch.returned or (batch.outcomes and batch.outcomes[-1].error is not None):
            return True
        count, left = len(batch.outcomes), len(self.under_way) + len(self.waiting)
        return count > 0 and (self.first or not left or count >= max(FEW, left))

    def told(self, now: float) -> Batch:
        """The news, which are then told."""
        self.heard = now
        batch, self.batch, self.changed = self.batch, Batch([], []), False
        self.first = self.first and not batch.outcomes
        for name, (stage, who) in self.under_way.items():
            turn = self.turns.get(name)
            batch.under_way.append((name, stage if turn is None or turn.begun else "ready", who))
        return batch


@dataclass(eq=False)
class _Making:
    """A synthesiser at work on witnesses of a job."""

    job: _Job
    name: str
    synthesiser: SynthesiserHandle
    lease: SynthesisLease
    since: float = field(default_factory=time.monotonic)
    called_off: float | None = None
    """Time at which these witnesses were cancelled."""

    @property
    def long(self) -> bool:
        return time.monotonic() - self.since > LONG


class Crew:
    """The threads that take partitions to a device's prover, as many as may be in flight there, for all workers that
    share the device: partition by partition from the job whose turn it is."""

    def __init__(self, name: str, count: int) -> None:
        """`count` threads, named after the worker called `name`."""
        self.lock = threading.Lock()
        """Guards the jobs of all these workers."""
        self.provable = threading.Condition(self.lock)
        self.turns = itertools.count(1)
        self._workers: list[Worker] = []
        self._taking = threading.Lock()
        self._over = False
        self.threads = [
            threading.Thread(target=self._run, name=f"distprove-{name}-prove-{index}", daemon=True)
            for index in range(count)
        ]

    def join(self, worker: Worker) -> None:
        """Take partitions of this worker, too. A second call does nothing."""
        with self.lock:
            if worker not in self._workers:
                self._workers.append(worker)
            begins = not self.threads[0].ident and not self._over
            if begins:
                for thread in self.threads:
                    thread.start()

    def leave(self, worker: Worker) -> None:
        """Take nothing more of this worker."""
        with self.lock:
            if worker in self._workers:
                self._workers.remove(worker)

    def end(self) -> None:
        """Begin nothing more, of any worker."""
        with self.lock:
            self._over = True
            self.provable.notify_all()

    def wait(self) -> None:
        """Wait for what is under way after `end`."""
        for thread in self.threads:
            if thread.ident:
                thread.join()

    def _run(self) -> None:
        """One of the partitions in flight."""
        while True:
            with self._taking:  # one at a time, so that they stand in line as they became ready
                found = self._next()
            if found is None:
                return
            worker, order, turn = found
            worker.compute(order, turn)
            del found, order

    def _next(self) -> tuple[Worker, _Order, Turn] | None:
        with self.lock:
            while not self._over:
                ready = [(job.rank, job.proven, worker, job) for worker in self._workers for job in worker.provable()]
                if ready:
                    _, _, worker, job = min(ready, key=lambda each: each[:2])
                    job.proven = next(self.turns)
                    return worker, *worker.take_ready(job, shared=len(self._workers) > 1)
                self.provable.wait()
        return None


class Worker:
    """One device with its key, its synthesisers and its line of partitions. `load` must have succeeded before anything
    else is asked, except `close`."""

    def __init__(
        self,
        name: str,
        system: ProofSystem,
        shared: Callable[[], Shared],
        prover: ProverWorker,
        synthesisers: Mapping[str, SynthesiserHandle],
        another: Callable[[str], SynthesiserHandle],
        governor: Governor,
        in_flight: int,
        threads: int,
        crew: Crew,
    ) -> None:
        """`shared` gives the system's files. `synthesisers` are by id, each of so many `threads`, and `another` makes
        another one of an id; up to `in_flight` partitions are with the prover at once, which the `crew` takes there."""
        self._name = name
        self._system = system
        self._shared = shared
        self.prover = prover
        self._synthesisers = dict(synthesisers)
        self._another = another
        self._making: list[_Making] = []
        """What synthesisers are at."""
        self._standing_in = 0
        """Number of synthesisers beside the usual ones, for jobs that others' long witnesses would keep waiting."""
        self._stand_in_after = 0.0
        """Time before which no other one is started, on the monotonic clock."""
        self._governor = governor
        self._crew = crew
        self._memory = MemoryCache(governor)
        self._threads = ThreadCache(governor, threads, keeps=not prover.on_cpu)
        self._in_flight = in_flight
        self._pace = Pace()
        self._lock = self._crew.lock
        self._makeable = LastFirst(self._lock)
        self._news = threading.Condition(self._lock)
        self._jobs: dict[str, _Job] = {}
        self._told = 0.0
        self._epoch = 0
        self._permitted = False
        self._over = False
        self._running: list[threading.Thread] = []
        self._loading = threading.Lock()

    # -- what is asked ----------------------------------------------------------------------------------------------

    def load(self, epoch: int, permitted: bool) -> Loaded:
        """Load key and programs, and begin to take orders of this `epoch`, unless those of a later one are taken.
        `permitted`: see `permit`.

        Raises InputError when key or program are at fault, BackendError when the device is, WorkerDied.
        """
        with self._loading:  # one run that this worker serves may ask before the loading for the last one is over
            return self._load(epoch, permitted)

    def _load(self, epoch: int, permitted: bool) -> Loaded:
        loading = {name: in_background(each.load) for name, each in self._synthesisers.items()}
        loaded = self.prover.load(self._shared())
        lost = [(name, error) for name, each in loading.items() if (error := each.exception()) is not None]
        made = {name: each.result() for name, each in loading.items() if each.exception() is None}
        for name, error in lost:
            if isinstance(error, InputError) or not made:
                raise error
            self._synthesisers.pop(name)
        with self._lock:
            if epoch > self._epoch:  # whoever loads again has given to others what an earlier load was given
                for job in list(self._jobs):
                    self._forget(job)
                self._epoch = epoch
            self._tell_all(lost=lost)
            self._permitted |= permitted
        if not self._running:
            loops: list[Callable[[], None]] = [partial(self._make, name) for name in self._synthesisers]
            loops.append(self._tick)
            self._running = [
                threading.Thread(target=loop, name=f"distprove-{self._name}-{index}", daemon=True)
                for index, loop in enumerate(loops)
            ]
            for thread in self._running:
                thread.start()
        self._crew.join(self)
        return Loaded(loaded, made)

    def _forget(self, name: str) -> None:
        """Forget a job and what waits of it; of what is under way nothing is told. Called with the lock held."""
        job = self._jobs.pop(name, None)
        if job is not None:
            job.over = True
            for order in (*job.kept.values(), *job.ready):
                self._drop(order)
            self._call_off([making for making in self._making if making.job is job])

    def _call_off(self, makings: Sequence[_Making]) -> None:
        """Nobody waits for these witnesses, which are in the making. Called with the lock held, so that no other ones
        are begun meanwhile."""
        for making in makings:
            making.called_off = making.called_off or time.monotonic()
            making.synthesiser.call_off()

    def _tell_all(
        self, loaded: Sequence[tuple[str, Timed]] = (), lost: Sequence[tuple[str, BaseException]] = ()
    ) -> None:
        """Tell every job of synthesisers, or the job without a name where there is none. Called with the lock held."""
        if loaded or lost:
            for job in list(self._jobs.values()) or [self._jobs.setdefault("", _Job())]:
                job.batch.loaded += loaded
                job.batch.lost += lost
            self._news.notify()

    def check(self) -> Timed:
        """Check the key on this worker's backend. Raises InvalidKey."""
        return self.prover.check()

    def run(self, task: DeviceTask) -> Any:
        """Return what a task comes to on this worker's device. Raises what the task raises."""
        return self.prover.run(task)

    def permit(self) -> None:
        """The key is checked: what is ready may be proven."""
        with self._lock:
            self._permitted = True
            self._crew.provable.notify_all()

    def take(
        self,
        epoch: int,
        orders: Sequence[Order],
        job: str = "",
        began: float = 0.0,
        parallel: int | None = None,
        rank: int = 0,
    ) -> None:
        """Orders of a job whose session `began` then, of which at most `parallel` may be in the making or ready at a
        time. Jobs of the lowest `rank` go first, whatever waits of others; those of one rank take turns, partition by
        partition. Orders that were sent to an earlier life of this worker are dropped: whoever sent them has given them
        to somebody else."""
        with self._lock:
            if epoch != self._epoch:
                return
            ours = self._jobs.setdefault(job, _Job(job))
            ours.began, ours.parallel, ours.rank = began, parallel, rank
            committed = []
            for order in orders:
                kept = ours.kept.pop(order.partition.name, None)
                new = _Order(order, ours, Outcome(order.partition.name, order.ask, self._name))
                if kept is not None and order.ask is Ask.PROVE:
                    new.witness, new.outcome.witness_bytes = kept.witness, kept.outcome.witness_bytes
                    committed.append(new)
                else:
                    if kept is not None and kept.witness is not None:
                        kept.witness.release()
                    ours.waiting.append(new)
            # Those last for which the prover has no commitment: to make one again takes memory that the others have.
            ours.ready += sorted(committed, key=lambda order: not self._holds(order))
            self._crew.provable.notify(len(committed))
            self._makeable.notify_all()

    def give_back(self, count: int, job: str = "", committed: bool = False) -> None:
        """Up to `count` orders of a job that have not begun, the last first, go back (`Batch.returned`): those without
        a witness, then those that were committed here and whose commitment the prover does not hold. If `committed`,
        then also those whose it does, and drops. What is to be diagnosed stays: it is this worker's proof that was
        bad."""
        with self._lock:
            ours = self._jobs.get(job)
            if ours is None:
                return
            idle = [order for order in reversed(ours.waiting) if order.order.ask is not Ask.DIAGNOSE]
            before = [order for order in reversed(ours.ready) if order.made_before]
            held = {order for order in before if self._holds(order)}
            free = [order for order in before if order not in held]
            back = [*idle, *free, *(order for order in before if committed and order in held)][:count]
            gone = set(back)
            for order in back:
                self._drop(order)
            ours.waiting = deque(order for order in ours.waiting if order not in gone)
            ours.ready = deque(order for order in ours.ready if order not in gone)
            ours.batch.returned += [order.outcome.name for order in back]
            self._news.notify()
        if dropped := {order.outcome.name for order in gone & held}:
            self._drop_committed(job, dropped)

    def forget(self, job: str) -> None:
        """A job is over: what waits of it is dropped, and nothing of it is told any more."""
        with self._lock:
            self._forget(job)
            self._makeable.notify_all()
        if self.prover.keeps:
            self._drop_committed(job)

    def _drop_committed(self, job: str, names: Container[str] | None = None) -> None:
        """Have the prover give back commitments, for which whoever tells does not wait."""
        threading.Thread(target=self.prover.drop, args=(job, names), name="distprove-drop", daemon=True).start()

    def dismiss(self, name: str) -> None:
        """Give up a synthesiser."""
        with self._lock:
            synthesiser = self._synthesisers.pop(name, None)
            self._makeable.notify_all()
        if synthesiser is not None:
            synthesiser.end()

    def interrupt(self, name: str) -> None:
        """End the process of a synthesiser that hangs. It is loaded again."""
        synthesiser = self._synthesisers.get(name)
        if synthesiser is not None:
            synthesiser.kill()

    def batch(self, timeout: float) -> dict[str, Batch]:
        """The news by job, as soon as some are worth telling; perhaps none after `timeout` seconds."""
        late = time.monotonic() + timeout
        with self._lock:
            while not self._over:
                now, jobs = time.monotonic(), self._jobs.values()
                # Where witnesses are counted over all workers, the next order waits for this news.
                linger = TICK if any(job.parallel for job in jobs) else LINGER
                due = self._told + linger if any(job.has_news for job in jobs) else late
                if any(job.is_urgent for job in jobs) or now >= min(due, late):
                    break
                self._news.wait(min(due, late) - now)
            now = self._told = time.monotonic()
            # A job without news hears now and then what it is at: to tell all jobs of each one's news would cost more
            # than short jobs do.
            heard = now - timeout / 2
            return {name: job.told(now) for name, job in self._jobs.items() if job.has_news or job.heard <= heard}

    def close(self) -> None:
        """Give back the key's memory, under the node's reclaim lock, and end the synthesisers."""
        self.stop()
        late = time.monotonic() + UNHEARD
        for thread in self._running:
            if thread.ident:  # code of a user's own may never end, on a thread
                thread.join(max(0.0, late - time.monotonic()))
        with suppress(RuntimeError), self._governor.lease(reclaim=True):  # it may not have been loaded
            self.prover.close()

    def stop(self) -> None:
        """Begin nothing more, and end the synthesisers."""
        with self._lock:
            self._over = True
            for job in self._jobs.values():
                job.over = True
            for changed in (self._makeable, self._news):
                changed.notify_all()
            self._call_off(self._making)
        _STOPPED.add(self)
        self._crew.leave(self)
        for synthesiser in (*self._synthesisers.values(), *(making.synthesiser for making in list(self._making))):
            synthesiser.end()
        self._memory.close()
        self._threads.close()

    def finish(self, late: float) -> None:
        """Wait after `stop` until its threads have left native code, or it is `late` on the monotonic clock."""
        if self._loading.acquire(timeout=max(0.0, late - time.monotonic())):
            self._loading.release()
        for thread in (*self._running, *self._crew.threads):
            if thread.ident:
                thread.join(max(0.0, late - time.monotonic()))

    # -- synthesis --------------------------------------------------------------------------------------------------

    def _make(self, name: str, stand_in: SynthesiserHandle | None = None) -> None:
        """One synthesiser at work, until it is dismissed; one that stands in, until no job needs it."""
        synthesiser, lease = stand_in or self._synthesisers[name], SynthesisLease(self._threads)
        try:
            while orders := self._next_to_make(name, lease, stands_in=stand_in is not None):
                started = time.time()
                try:
                    self._synthesise(orders, name, synthesiser, lease)
                except BaseException as error:  # whatever it is, whoever gave the order must hear of it
                    lease.end()
                    # A synthesiser that died was at one of them, and nobody knows which: the first is told to be lost,
                    # and the others are made by themselves, so that none is charged for another one.
                    self._wait_again(orders[1:], alone=isinstance(error, WorkerDied))
                    self._failed_to_make(orders[0], name, Timed(error, started, time.time()))
                    if isinstance(error, WorkerDied) and (stand_in or not self._again(name, synthesiser)):
                        return
        finally:
            lease.end()

    def _stand_in(self, name: str) -> None:
        """Make witnesses beside synthesisers that are all at long ones, under the name of one of them."""
        synthesiser = self._another(name)
        try:
            synthesiser.load()
            self._make(name, synthesiser)
        except Exception:  # those that it stands in for are there, and it is tried again
            self._stand_in_after = time.monotonic() + UNHEARD
        finally:
            synthesiser.end()
            with self._lock:
                self._standing_in -= 1

    def _needs_stand_in(self) -> bool:
        """Whether a job waits for others' long witnesses alone. Called with the lock held."""
        busy = [making for making in self._making if making.long]
        return len(busy) >= len(self._synthesisers) + self._standing_in and self._next_job_to_make(short=True)[1] > 0

    def _next_to_make(self, name: str, lease: SynthesisLease, *, stands_in: bool = False) -> list[_Order]:
        """Orders of one job whose witnesses are made in a row; none when it is over."""
        with self._lock:
            while True:
                if self._over or name not in self._synthesisers:
                    return []
                job, count = self._next_job_to_make(short=stands_in)
                if stands_in and job is None:
                    return []
                if job is not None:
                    job.held += count
                    job.preparing += count
                    job.made = next(self._crew.turns)
                    return [job.waiting.popleft() for _ in range(count)]
                if not lease.held:
                    self._makeable.wait()
                else:
                    self._lock.release()
                    try:
                        lease.end()
                    finally:
                        self._lock.acquire()

    def _next_job_to_make(self, *, short: bool = False) -> tuple[_Job | None, int]:
        """The job whose witnesses are made next, and how many in a row, if there is room; `short`: among those of which
        no long one is in the making. Called with the lock held."""
        jobs, busy = self._jobs.values(), [making.job for making in self._making if making.long]
        may = [job for job in jobs if job.waiting and (job.parallel is None or job.preparing < job.parallel)]
        if short:
            may = [job for job in may if job not in busy]
        best = min(may, key=lambda job: (job.rank, job.made), default=None)
        if best is None:
            return None, 0
        held = sum(job.held for job in jobs if job.rank <= best.rank)  # a later rank counts these too
        # Whoever makes the first ones of a job hands each over at once.
        count = min(self._pace.in_a_row, len(best.waiting), 1 + held)
        if best.parallel is not None:
            count = min(count, best.parallel - best.preparing)
        if any(order.alone for order in itertools.islice(best.waiting, count)):
            count = 1
        # Witnesses in the making, ready or with the prover at a time, of jobs of one rank and those before it; those
        # that wait for a barrier are beside it, and so is what others are at for long.
        room = self._in_flight + max(len(self._synthesisers), self._pace.ahead) + (best not in busy and len(busy))
        return (best, count) if held + count <= room else (None, 0)

    def _synthesise(
        self, orders: list[_Order], name: str, synthesiser: SynthesiserHandle, lease: SynthesisLease
    ) -> None:
        """Have witnesses made in a row. Those for which there is no memory wait again, and leave the `orders`."""
        self._have_memory(orders, lease)
        lease.begin()
        with self._lock:
            for order in orders:
                self._begin(order, "synthesising", name)  # not before: who waits for others does not hang
            making = _Making(orders[0].job, name, synthesiser, lease)
            if making.job.over or self._over:
                raise CalledOff("nobody waits for it any more")
            self._making.append(making)
        try:
            with unless(lambda: making.called_off is not None):
                made = synthesiser.make([order.order.partition for order in orders])
        finally:
            with self._lock:
                self._making.remove(making)
        ready = []
        for order, timed in zip(orders, made, strict=True):
            if isinstance(timed.value, BaseException):
                self._failed_to_make(order, name, timed)
            else:
                self._made(order, name, timed)
                ready.append(order)
        with self._lock:
            for order in ready:
                job, partition = order.job, order.order.partition
                stretch = order.outcome.stretches[-1]
                self._pace.made(stretch.ended - stretch.started, order.outcome.witness_bytes)
                job.under_way.pop(partition.name, None)
                job.under_way[partition.name] = ("ready", self._name)
                if job.over:
                    self._drop(order)
                else:
                    job.ready.append(order)
            self._crew.provable.notify()

    def _have_memory(self, orders: list[_Order], lease: SynthesisLease) -> None:
        """Lease memory for the witnesses, all at once: who waits for more holds none. Where it can never be had for
        all, the first one is made alone."""
        system, sizes = self._system, [0] * len(orders)
        if isinstance(system, PredictsMemory):
            sizes = [system.synthesis_bytes(order.order.partition) for order in orders]
        memory = self._memory.find(sum(sizes))
        if memory is None:
            lease.end()  # who waits for memory must not hold threads
            try:
                memory = self._memory.take(sum(sizes))
            except ClusterError:
                if len(orders) == 1:
                    raise
                self._wait_again(orders[1:])
                del orders[1:]
                memory = self._memory.take(sizes[0])
        memory.holders = len(orders)
        for order in orders:
            order.memory = memory

    def _wait_again(self, orders: list[_Order], *, alone: bool = False) -> None:
        """Orders whose making has not begun, or has to begin again, wait before all others of their job."""
        if not orders:
            return
        with self._lock:
            for order in reversed(orders):
                self._drop(order)
                order.alone |= alone
                job = order.job
                job.held -= 1
                job.preparing -= 1
                job.under_way.pop(order.outcome.name, None)
                if not job.over:
                    job.waiting.appendleft(order)
            self._makeable.notify()

    def _made(self, order: _Order, name: str, timed: Timed) -> None:
        """Note a witness."""
        order.witness, order.outcome.witness_bytes = timed.value, timed.value.nbytes
        self._note(order, name, "synthesise", timed.started, timed.ended, None)
        assert order.memory is not None
        if self._system.needs_barrier:
            # Before a barrier every witness is kept, however many there are: waiting for their memory would be waiting
            # for ever.
            self._memory.put(order.memory)
            order.memory = None
        elif order.memory.holders == 1:
            self._memory.fit(order.memory, timed.value.nbytes)

    def _failed_to_make(self, order: _Order, name: str, timed: Timed) -> None:
        """Tell of a witness that was not made: the value is the error."""
        order.outcome.worker, order.outcome.error = name, timed.value
        self._note(order, name, "synthesise", timed.started, timed.ended, None)
        self._drop(order)
        self._done(order)

    def _look_at_long(self) -> None:
        """Have nobody wait for long witnesses: they keep no threads that others want, and where all synthesisers are at
        them, another one is started for a job that waits. The system shares out the cores then. What is called off and
        goes on is ended."""
        with self._lock:
            busy, now = [making for making in self._making if making.long], time.monotonic()
            if busy and now >= self._stand_in_after and self._needs_stand_in():
                try:
                    in_background(partial(self._stand_in, busy[0].name), f"distprove-{self._name}-beside")
                    self._standing_in += 1
                except RuntimeError:  # no thread can be started: it is tried again
                    self._stand_in_after = now + UNHEARD
            for making in busy:
                if making.called_off is not None and now - making.called_off > UNHEARD:
                    making.synthesiser.kill()
                elif making.called_off is not None:
                    self._call_off([making])  # it may not have begun when it was told
        held = [making.lease for making in busy if making.lease.held]
        with suppress(Exception):  # as of the governor in `_tick`
            if held and self._governor.threads_wanted():
                for lease in held:
                    lease.end()

    def _again(self, name: str, synthesiser: SynthesiserHandle) -> bool:
        """Load a synthesiser that died; whether it came back."""
        try:
            loaded = synthesiser.load()
        except BaseException as error:  # whatever it is, it is told
            with self._lock:
                if not self._over and self._synthesisers.pop(name, None) is not None:
                    self._tell_all(lost=[(name, error)])
            return False
        with self._lock:
            self._tell_all(loaded=[(name, loaded)])
        return True

    # -- proving ----------------------------------------------------------------------------------------------------

    def provable(self) -> list[_Job]:
        """Jobs with partitions that may be proven now. Called with the lock held."""
        return [job for job in self._jobs.values() if job.ready] if self._permitted and not self._over else []

    def take_ready(self, job: _Job, *, shared: bool) -> tuple[_Order, Turn]:
        """A job's next partition, and its place in the prover's line, which may be `shared` with other workers. Called
        with the lock held."""
        order = job.ready.popleft()
        if not order.made_before:
            job.preparing -= 1
            if job.parallel is not None:
                self._makeable.notify()
        turn = self.prover.line.join()
        turn.about = (job.name, order.outcome.name)
        if shared:
            job.turns[order.outcome.name] = turn
        self._begin(order, "committing" if order.order.ask is Ask.COMMIT else "proving", self._name)
        return order, turn

    def compute(self, order: _Order, turn: Turn) -> None:
        """Have the prover do what was ordered."""
        ask = order.order.ask
        started = time.time()
        try:
            with turn, unless(lambda: order.job.over):  # the turn is left, whatever becomes of it
                timed = self._ask(order, turn)
            value, times = timed.value if ask is not Ask.DIAGNOSE else (None, None)
            self._note(order, self._name, ask.value, timed.started, timed.ended, times)
            order.outcome.value = value
            order.outcome.times = None if times is None else replace(times, steps=[], on_device=None)
        except BaseException as error:  # whatever it is, whoever gave the order must hear of it
            order.outcome.worker, order.outcome.error = self._name, error
            self._note(order, self._name, ask.value, started, time.time(), None)
        with self._lock:
            keeps = ask is Ask.COMMIT and order.outcome.error is None and not order.job.over
            if keeps:
                order.job.kept[order.outcome.name] = order
        if not keeps:
            self._drop(order)
        self._done(order)

    def _ask(self, order: _Order, turn: Turn) -> Timed:
        assert order.witness is not None
        partition, witness = order.named, order.witness.read()
        calls: dict[Ask, Callable[[], Timed]] = {
            Ask.COMMIT: lambda: self.prover.commit(partition, witness, turn),
            Ask.PROVE: lambda: self.prover.make_proof(partition, witness, order.order.challenge, turn),
            Ask.DIAGNOSE: lambda: self.prover.diagnose(partition, witness, turn),
        }
        return calls[order.order.ask]()

    # -- both -------------------------------------------------------------------------------------------------------

    def _begin(self, order: _Order, stage: str, worker: str) -> None:
        """Called with the lock held."""
        job = order.job
        job.under_way.pop(order.outcome.name, None)
        job.under_way[order.outcome.name] = (stage, worker)
        if not job.changed:
            job.changed = True
            self._news.notify()

    def _note(
        self, order: _Order, worker: str, stage: str, started: float, ended: float, times: StepTimes | None
    ) -> None:
        error, name = order.outcome.error, order.outcome.name
        outcome = "ok" if error is None else type(error).__name__
        span = span_json(worker, name, stage, started, ended, outcome, order.job.began, *of_times(times))
        order.outcome.stretches.append(Stretch(worker, stage, started, ended, span))

    def _holds(self, order: _Order) -> bool:
        return self.prover.holds(order.named)

    def _drop(self, order: _Order) -> None:
        """Release the witness of an order, which is not needed any more."""
        if order.witness is not None:
            order.witness.release()
        if order.memory is not None:
            self._memory.put(order.memory)
        order.witness = order.memory = None

    def _done(self, order: _Order) -> None:
        outcome, job = order.outcome, order.job
        at_prover, last = outcome.worker == self._name, outcome.stretches[-1]
        if outcome.error is not None:
            outcome.error = sendable(outcome.error)
        with self._lock:
            if outcome.stretches[0].stage == "synthesise":
                job.held -= 1
                if not at_prover:
                    job.preparing -= 1
            if at_prover:
                self._pace.proven(last.ended - last.started)
            job.under_way.pop(outcome.name, None)
            job.turns.pop(outcome.name, None)
            job.batch.outcomes.append(outcome)
            if self._next_job_to_make()[1]:  # a synthesiser that wakes takes the interpreter from the prover
                self._makeable.notify()
            if len(job.batch.outcomes) == 1 or job.is_urgent:
                self._news.notify()

    def _tick(self) -> None:
        """Give back, now and then, what is not in use, and learn whether others wait for what is."""
        while True:
            with self._lock:
                over = self._over
            if over:
                return
            self._memory.give_back(HELD)
            for synthesiser in list(self._synthesisers.values()):
                synthesiser.tidy()
            self._look_at_long()
            self._threads.give_back(IDLE)
            with suppress(Exception):  # the governor is gone: whoever asks it for something next tells
                self._threads.look()
            time.sleep(TICK)


_STOPPED: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """Wait for stopped workers of this process: the interpreter would unwind their threads through C++, and abort."""
    late = time.monotonic() + AT_EXIT
    for worker in list(_STOPPED):
        worker.finish(late)
