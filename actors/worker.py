"""A worker: one device and all it needs to prove by itself. It is given orders in chunks and answers in batches.

    orders --> made by its synthesisers --> ready --> staged, computed, put together by its prover --> outcomes

Synthesisers and prover take the order with the lowest `Place`, whatever its job. The same class works on threads of the
driver's process, in a process of its own and over Ray. It decides nothing: it tells what failed, and the scheduler
decides what becomes of it. A witness never leaves the worker that made it.
"""

from __future__ import annotations

import atexit
import itertools
import threading
import time
import weakref
from bisect import insort
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from actors import patience
from actors.channel import sendable
from actors.grants import Governor, Memory, MemoryCache, SynthesisLease, ThreadCache
from actors.inflight import Turn
from actors.pace import Pace
from actors.protocol import Batch, Interval, Loaded, Order, Outcome, Timed, UnderWay, WorkerDied, WorkKind
from actors.prover import ProverWorker, Shared
from actors.spans import of_times, span_json
from actors.waiting import LastFirst
from distprove.errors import CalledOff, ClusterError, InputError
from distprove.host.beside import in_background
from distprove.system import DeviceTask, Partition, PartitionId, PredictsMemory, ProofSystem, StepTimes, Witness
from distprove.wanted import unless

FEW = 8
"""Proofs that are told before `patience.NEWS` is over, at least, when no more than these are left to be made: what is
left to be verified and kept after the last proof is then little. Also the number of jobs at a worker up to which the
first and the last outcome of each are told at once, and rows of witnesses are of one job: more of them are short, and
are told, and their witnesses made, together."""
SEARCHED = 64
"""Orders among which those of a row are looked for, at most."""


class WitnessRef(Protocol):
    """A reference to a witness that a synthesiser made."""

    @property
    def nbytes(self) -> int: ...

    def read(self) -> Witness:
        """The witness, where the prover can read it. Raises WitnessGone."""

    def release(self) -> None:
        """Nobody reads it any more. A second call does nothing."""


RANKS = 4
"""Number of priorities."""


class SynthesiserHandle(Protocol):
    """A synthesiser: on a thread, or in a process of its own, which may die."""

    def load(self) -> Timed:
        """Make the program ready, also after a death; public facts."""

    def make(self, partitions: Sequence[Partition]) -> Sequence[Timed]:
        """For each partition, one after the other, its `WitnessRef` or the system's error. Raises WorkerDied."""

    def cancel(self) -> None:
        """Cancel the witnesses that it makes now. Any thread may call; the call returns at once."""

    def tidy(self) -> None:
        """Have those witnesses given back that were released, and have not been."""

    def kill(self) -> None:
        """End its process, where it has one; what it is making raises WorkerDied."""

    def end(self) -> None:
        """End it for good."""


@dataclass(eq=False)
class _Job:
    """A job with orders at this worker."""

    parallel: int | None = None
    """Most of its witnesses that may be in the making or ready."""
    kept: dict[PartitionId, _Order] = field(default_factory=dict)
    """Orders that were committed and wait for the barrier."""
    left: int = 0
    """Orders without an outcome."""
    preparing: int = 0
    """Witnesses in the making or ready."""
    first: bool = True
    """Whether none of its outcomes was told yet: somebody waits to see whether it goes well."""
    over: bool = False
    """Whether it was forgotten: what is under way of it is dropped."""


@dataclass(eq=False)
class _Order:
    """An order on its way."""

    order: Order
    job: _Job
    outcome: Outcome
    position: tuple[int, int, int]
    """Rank, turn and number of arrival: the lowest goes first."""
    witness: WitnessRef | None = None
    memory: Memory | None = None
    alone: bool = False
    """Whether its witness is made by itself: a synthesiser died at it and others."""
    stage: str = ""
    at: str = ""
    """The prover or synthesiser that it is with."""
    turn: Turn | None = None
    """Its place at a prover that others use, too: an order that waits there for others does not hang."""

    @property
    def id(self) -> PartitionId:
        return self.outcome.id

    @property
    def rank(self) -> int:
        return self.position[0]

    @property
    def made_before(self) -> bool:
        """Whether its witness was made for the commitment, and not for this order."""
        return self.witness is not None and not self.outcome.intervals

    @property
    def under_way(self) -> UnderWay:
        return UnderWay(self.id, self.stage if self.turn is None or self.turn.begun else "ready", self.at)


_POSITION = attrgetter("position")


@dataclass
class _News:
    """What is to be told, and how soon."""

    batch: Batch = field(default_factory=Batch)
    changed: bool = False
    """Whether something began since the last batch."""
    prompt: bool = False
    """Whether the first or the last outcome of a job is among it."""
    urgent: bool = False
    """Whether something is among it that does not wait."""

    def __bool__(self) -> bool:
        return self.changed or self.urgent or bool(self.batch.outcomes)

    def is_urgent(self, left: int, jobs: int) -> bool:
        """Whether it is told at once, while so many orders of so many jobs are here."""
        count = len(self.batch.outcomes)
        return self.urgent or (count > 0 and (not left or count >= max(FEW, left) or (self.prompt and jobs <= FEW)))


@dataclass(eq=False)
class _Making:
    """A synthesiser at work on a row of witnesses."""

    orders: Sequence[_Order]
    name: str
    synthesiser: SynthesiserHandle
    lease: SynthesisLease
    since: float = field(default_factory=time.monotonic)
    cancelled: float | None = None
    """Time at which these witnesses were cancelled."""

    @property
    def long(self) -> bool:
        return time.monotonic() - self.since > patience.LONG_WITNESS

    @property
    def over(self) -> bool:
        """Whether the jobs of all of them are over."""
        return all(order.job.over for order in self.orders)


class ProverThreads:
    """The threads that take partitions to a device's prover, as many as may be in flight there, for all workers that
    share the device: the ready order with the lowest place goes first. Less urgent ones in flight do not count: they
    take no place from an order, which goes before those of them that have not begun."""

    def __init__(self, name: str, count: int) -> None:
        """For `count` partitions in flight. The threads are named after the worker called `name`."""
        self.lock = threading.Lock()
        """Guards the orders of all these workers."""
        self.provable = threading.Condition(self.lock)
        self.arrivals = itertools.count()
        """Numbers of orders, in which they came to these workers."""
        self._workers: list[Worker] = []
        self._taking = threading.Lock()
        self._most = count
        self._computing: list[int] = []
        """Rank of each partition in flight."""
        self._preparing: float | None = None
        """When the piece that is prepared was begun."""
        self._over = False
        self.threads = [
            threading.Thread(target=self._run, name=f"distprove-{name}-prove-{index}", daemon=True)
            for index in range(count * RANKS)
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
            try:
                worker.compute(order, turn)
            finally:
                with self.lock:
                    self._computing.remove(order.rank)
                    self.provable.notify()  # another one may wait that has room now, or can prepare
            del found, order

    def _next(self) -> tuple[Worker, _Order, Turn] | None:
        with self.lock:
            while not self._over:
                ready = [(order.position, worker) for worker in self._workers if (order := worker.next_ready())]
                if ready:
                    position, worker = min(ready, key=lambda each: each[0])
                    if sum(rank <= position[0] for rank in self._computing) < self._most:
                        self._computing.append(position[0])
                        return worker, *worker.take_ready(shared=len(self._workers) > 1)
                idle = None if self._computing else next((own for own in self._workers if own.prover.prepares), None)
                if idle is None:
                    self.provable.wait()
                elif not self.provable.wait(patience.IDLE) and not any(own.next_ready() for own in self._workers):
                    self._preparing = time.monotonic()
                    self.lock.release()
                    try:
                        idle.prover.prepare_more()
                    finally:
                        self.lock.acquire()
                        self._preparing = None
        return None

    @property
    def hold_up(self) -> bool:
        """Whether what is prepared takes so long that orders wait for it. Called with the lock held."""
        return self._preparing is not None and time.monotonic() - self._preparing > patience.PIECE


class Worker:
    """One device with its key, its synthesisers and its queue of orders. `load` must have succeeded before anything
    else is called, except `close`."""

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
        prover_threads: ProverThreads,
        facts: Mapping[str, Any],
    ) -> None:
        """`shared` gives the system's files. `synthesisers` are by id, each of so many `threads`, and `another` makes
        another one of an id; up to `in_flight` partitions are with the prover at once, which the `prover_threads` take
        there. `facts` are as of `HostSpec`."""
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
        self._prover_threads = prover_threads
        self._facts = facts
        self._memory = MemoryCache(governor)
        self._threads = ThreadCache(governor, threads, keeps=not prover.on_cpu)
        self._in_flight = in_flight
        self._pace = Pace()
        self._lock = prover_threads.lock
        self._makeable = LastFirst(self._lock)
        self._tellable = threading.Condition(self._lock)
        self._news = _News()
        self._jobs: dict[str, _Job] = {}
        """Jobs that have orders or kept witnesses here, or untold outcomes."""
        self._waiting: list[_Order] = []
        """Orders whose witnesses are to be made, by position."""
        self._ready: list[_Order] = []
        """Orders that may be proven, by position."""
        self._under_way: dict[PartitionId, _Order] = {}
        """Orders that have begun, the oldest of a stage first."""
        self._held: set[_Order] = set()
        """Orders whose witnesses are in the making, ready or with the prover, without those from before a barrier."""
        self._told = 0.0
        self._forgotten = 0
        self._numbers = itertools.count(1)
        """Numbers of news."""
        self._epoch = 0
        self._permitted = False
        self._over = False
        self._running: list[threading.Thread] = []
        self._beside: set[Future[None]] = set()
        """What was begun beside these and is under way."""
        self._loading = threading.Lock()

    # -- verbs ------------------------------------------------------------------------------------------------------

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
            if epoch > self._epoch:  # the scheduler has given to others what an earlier load was given
                self._forget(set(self._jobs))
                self._news = _News()
                self._epoch = epoch
            self._tell(lost=lost)
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
        self._prover_threads.join(self)
        return Loaded(self._placed(loaded), {name: self._placed(timed) for name, timed in made.items()})

    def _placed(self, loaded: Timed) -> Timed:
        return loaded._replace(value={**loaded.value, **self._facts})

    def _forget(self, names: Container[str]) -> None:
        """Drop all orders of these jobs, and tell nothing more of them. Called with the lock held."""
        gone = {job for name in list(self._jobs) if name in names and (job := self._jobs.pop(name))}
        if not gone:
            return
        for job in gone:
            job.over = True
        for order in (*(kept for job in gone for kept in job.kept.values()), *self._ready):
            if order.job in gone:
                self._drop(order)
        self._waiting = [order for order in self._waiting if order.job not in gone]
        self._ready = [order for order in self._ready if order.job not in gone]
        self._under_way = {id: order for id, order in self._under_way.items() if order.job not in gone}
        self._held = {order for order in self._held if order.job not in gone}
        batch = self._news.batch
        batch.outcomes = [outcome for outcome in batch.outcomes if outcome.id.job not in names]
        batch.returned = [id for id in batch.returned if id.job not in names]
        self._cancel([making for making in self._making if making.over])

    def _cancel(self, makings: Sequence[_Making]) -> None:
        """Cancel witnesses in the making. Called with the lock held, so that no other ones are begun meanwhile."""
        for making in makings:
            making.cancelled = making.cancelled or time.monotonic()
            making.synthesiser.cancel()

    def _tell(self, loaded: Sequence[tuple[str, Timed]] = (), lost: Sequence[tuple[str, BaseException]] = ()) -> None:
        """Tell of synthesisers. Called with the lock held."""
        if loaded or lost:
            self._news.batch.loaded += loaded
            self._news.batch.lost += lost
            self._news.urgent = True
            self._tellable.notify()

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
            self._prover_threads.provable.notify_all()

    def take(self, epoch: int, orders: Sequence[Order], parallel: int | None = None) -> None:
        """Take orders, of each of whose jobs at most `parallel` witnesses may be in the making or ready at a time. The
        order with the lowest place goes first, then the oldest. Orders for an earlier life of this worker are dropped:
        the scheduler has given them to another one."""
        with self._lock:
            if epoch != self._epoch:
                return
            committed = []
            for order in orders:
                job = self._jobs.setdefault(order.id.job, _Job())
                job.parallel, job.left = parallel, job.left + 1
                kept = job.kept.pop(order.id, None)
                position = (*order.place, next(self._prover_threads.arrivals))
                new = _Order(order, job, Outcome(order.id, order.kind, self._name), position)
                if kept is not None and order.kind is WorkKind.PROVE:
                    new.witness, new.outcome.witness_bytes = kept.witness, kept.outcome.witness_bytes
                    committed.append(new)
                else:
                    if kept is not None and kept.witness is not None:
                        kept.witness.release()
                    insort(self._waiting, new, key=_POSITION)
            # Those last for which the prover has no commitment: to make one again takes memory that the others have.
            positions = sorted(map(_POSITION, committed))
            committed.sort(key=lambda order: (not self.prover.holds(order.id), order.position))
            for new, new.position in zip(committed, positions, strict=True):
                insort(self._ready, new, key=_POSITION)
            self._prover_threads.provable.notify(len(committed))
            self._makeable.notify_all()

    def give_back(self, count: int, committed: bool = False) -> None:
        """Return up to `count` orders that have not begun, the last first (`Batch.returned`).

        Orders without a witness go first. Then go those after a barrier whose commitment the prover does not hold. With
        `committed`, orders follow whose commitment it holds; the prover drops these commitments. Orders to diagnose
        stay: this worker made the bad proof."""
        with self._lock:
            idle = [order for order in reversed(self._waiting) if order.order.kind is not WorkKind.DIAGNOSE]
            before = [order for order in reversed(self._ready) if order.made_before]
            held = {order for order in before if self.prover.holds(order.id)}
            free = [order for order in before if order not in held]
            back = [*idle, *free, *(order for order in before if committed and order in held)][:count]
            gone = set(back)
            for order in back:
                self._drop(order)
                order.job.left -= 1
            self._waiting = [order for order in self._waiting if order not in gone]
            self._ready = [order for order in self._ready if order not in gone]
            self._news.batch.returned += [order.id for order in back]
            self._news.urgent |= bool(back)
            self._tellable.notify()
        if dropped := {order.id for order in gone & held}:
            self._drop_committed(None, dropped)

    def forget(self, job: str, number: int) -> None:
        """Drop what waits of a job, which is over, and tell nothing more of it. For `number`: `Batch.forgotten`."""
        with self._lock:
            self._forget({job})
            self._forgotten = max(self._forgotten, number)
            self._makeable.notify_all()
        if self.prover.keeps:
            self._drop_committed(job)

    def _drop_committed(self, job: str | None, partitions: Container[PartitionId] | None = None) -> None:
        """Have the prover give back commitments. The caller does not wait for that."""
        self._in_background(partial(self.prover.drop, job, partitions), "drop")

    def _in_background(self, call: Callable[[], None], name: str) -> None:
        """Begin what may take its time. `finish` waits for it. Raises RuntimeError if no thread can be started."""
        begun = in_background(call, f"distprove-{self._name}-{name}")
        self._beside.add(begun)
        begun.add_done_callback(self._beside.discard)

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

    def batch(self, timeout: float) -> Batch:
        """The news of all jobs, as soon as some are worth telling; perhaps none after `timeout` seconds."""
        late = time.monotonic() + timeout
        with self._lock:
            while not self._over:
                now = time.monotonic()
                # Where witnesses are counted over all workers, the next order waits for this news.
                linger = patience.WORKER_TICK if any(job.parallel for job in self._jobs.values()) else patience.NEWS
                due = self._told + linger if self._news else late
                if self._is_urgent() or now >= min(due, late):
                    break
                self._tellable.wait(min(due, late) - now)
            self._told = time.monotonic()
            batch, self._news = self._news.batch, _News()
            for id in (*(outcome.id for outcome in batch.outcomes), *batch.returned):
                job = self._jobs.get(id.job)
                if job is not None:
                    job.first = False
                    if not job.left and not job.kept:
                        del self._jobs[id.job]
            if self._prover_threads.hold_up and (waiting := self.next_ready()) is not None:
                self._enter(waiting, self._stage_at_prover(waiting), self._name)  # it hangs where the prover does
            batch.under_way = [order.under_way for order in self._under_way.values()]
            batch.forgotten, batch.number = self._forgotten, next(self._numbers)
            return batch

    def _is_urgent(self) -> bool:
        return self._news.is_urgent(len(self._under_way) + len(self._waiting), len(self._jobs))

    def close(self) -> None:
        """Give back the key's memory, under the node's reclaim lock, and end the synthesisers."""
        self.stop()
        late = time.monotonic() + patience.WITNESS_CANCELLED
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
            for changed in (self._makeable, self._tellable):
                changed.notify_all()
            self._cancel(self._making)
        _STOPPED.add(self)
        self._prover_threads.leave(self)
        for synthesiser in (*self._synthesisers.values(), *(making.synthesiser for making in list(self._making))):
            synthesiser.end()
        self._memory.close()
        self._threads.close()

    def finish(self, late: float) -> None:
        """Wait after `stop` until its threads have left native code, or it is `late` on the monotonic clock."""
        if self._loading.acquire(timeout=max(0.0, late - time.monotonic())):
            self._loading.release()
        for thread in (*self._running, *self._prover_threads.threads):
            if thread.ident:
                thread.join(max(0.0, late - time.monotonic()))
        wait([*self._beside], max(0.0, late - time.monotonic()))

    # -- synthesis --------------------------------------------------------------------------------------------------

    def _make(self, name: str, stand_in: SynthesiserHandle | None = None) -> None:
        """One synthesiser at work, until it is dismissed; one that stands in, until no job needs it."""
        synthesiser, lease = stand_in or self._synthesisers[name], SynthesisLease(self._threads)
        try:
            while orders := self._next_to_make(name, lease, stands_in=stand_in is not None):
                started = time.time()
                try:
                    self._synthesise(orders, name, synthesiser, lease)
                except BaseException as error:  # whatever it is, the scheduler must hear of it
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
            self._stand_in_after = time.monotonic() + patience.WITNESS_CANCELLED
        finally:
            synthesiser.end()
            with self._lock:
                self._standing_in -= 1

    def _needs_stand_in(self) -> bool:
        """Whether a job waits for others' long witnesses alone. Called with the lock held."""
        busy = [making for making in self._making if making.long]
        return len(busy) >= len(self._synthesisers) + self._standing_in and bool(self._next_row(short=True))

    def _next_to_make(self, name: str, lease: SynthesisLease, *, stands_in: bool = False) -> list[_Order]:
        """Orders whose witnesses are made in a row; none when the synthesiser's work is over."""
        with self._lock:
            while True:
                if self._over or name not in self._synthesisers:
                    return []
                row = self._next_row(short=stands_in)
                if row or stands_in:
                    for order in row:
                        self._waiting.remove(order)
                        self._held.add(order)
                        order.job.preparing += 1
                    return row
                if not lease.held:
                    self._makeable.wait()
                else:
                    self._lock.release()
                    try:
                        lease.end()
                    finally:
                        self._lock.acquire()

    def _makeable_orders(self, *, short: bool = False) -> Iterator[_Order]:
        """Orders whose witnesses may be made, by position; `short`: of jobs of which no long one is in the making.
        Called with the lock held."""
        busy = {order.job for making in self._making if short and making.long for order in making.orders}
        for order in self._waiting:
            job = order.job
            if job not in busy and (job.parallel is None or job.preparing < job.parallel):
                yield order

    def _next_row(self, *, short: bool = False) -> list[_Order]:
        """The orders whose witnesses are made next in a row, if there is room; `short`: as of `_makeable_orders`. They
        are of one job, so that no other one waits for a witness that takes long; among many jobs, those with one order
        each are made together. Called with the lock held."""
        orders = self._makeable_orders(short=short)
        first = next(orders, None)
        if first is None:
            return []
        held = sum(order.rank <= first.rank for order in self._held)  # a later rank counts these too
        # The first witnesses go to the prover one by one, so that it does not wait for a row.
        count = 1 if first.alone else min(self._pace.in_a_row, 1 + held)
        if first.job.parallel is not None:
            count = min(count, first.job.parallel - first.job.preparing)
        row, mixed = [first], first.job.left == 1 and len(self._jobs) > FEW
        for order in itertools.islice(orders, SEARCHED if count > 1 else 0):
            if len(row) == count or order.rank != first.rank or order.alone:
                break
            if order.job is first.job or (mixed and order.job.left == 1):
                row.append(order)
        # Witnesses in the making, ready or with the prover at a time, of jobs of one rank and those before it; those
        # that wait for a barrier are beside it, and so is what others are at for long.
        busy = [making for making in self._making if making.long]
        at_long = {order.job for making in busy for order in making.orders}
        room = self._in_flight + max(len(self._synthesisers), self._pace.ahead)
        room += len(busy) if first.job not in at_long else 0
        return row if held + len(row) <= room else []

    def _synthesise(
        self, orders: list[_Order], name: str, synthesiser: SynthesiserHandle, lease: SynthesisLease
    ) -> None:
        """Have witnesses made in a row. Those for which there is no memory wait again, and leave the `orders`."""
        self._have_memory(orders, lease)
        lease.begin()
        with self._lock:
            for order in orders:
                self._begin(order, "synthesising", name)  # not before: who waits for others does not hang
            making = _Making(orders, name, synthesiser, lease)
            if making.over or self._over:
                raise CalledOff
            self._making.append(making)
        try:
            with unless(lambda: making.cancelled is not None):
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
                interval = order.outcome.intervals[-1]
                self._pace.made(interval.ended - interval.started, order.outcome.witness_bytes)
                if order.job.over:
                    self._drop(order)
                else:
                    self._enter(order, "ready", self._name)
                    insort(self._ready, order, key=_POSITION)
            self._prover_threads.provable.notify()

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
        """Have orders wait again, where they were, whose making has not begun or has to begin again."""
        if not orders:
            return
        with self._lock:
            for order in orders:
                self._drop(order)
                order.alone |= alone
                order.job.preparing -= 1
                self._leave(order)
                if not order.job.over:
                    insort(self._waiting, order, key=_POSITION)
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
        them, another one is started for a job that waits. The system shares out the cores then. What is cancelled and
        goes on is ended."""
        with self._lock:
            busy, now = [making for making in self._making if making.long], time.monotonic()
            if busy and now >= self._stand_in_after and self._needs_stand_in():
                try:
                    self._in_background(partial(self._stand_in, busy[0].name), "beside")
                    self._standing_in += 1
                except RuntimeError:  # no thread can be started: it is tried again
                    self._stand_in_after = now + patience.WITNESS_CANCELLED
            for making in busy:
                if making.cancelled is not None and now - making.cancelled > patience.WITNESS_CANCELLED:
                    making.synthesiser.kill()
                elif making.cancelled is not None:
                    self._cancel([making])  # it may not have begun when it was told
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
                    self._tell(lost=[(name, error)])
            return False
        with self._lock:
            self._tell(loaded=[(name, self._placed(loaded))])
        return True

    # -- proving ----------------------------------------------------------------------------------------------------

    def next_ready(self) -> _Order | None:
        """The order that may be proven next. Called with the lock held."""
        return self._ready[0] if self._ready and self._permitted and not self._over else None

    def take_ready(self, *, shared: bool) -> tuple[_Order, Turn]:
        """The order that is proven next, and its place in the prover's line, which may be `shared` with other workers.
        Called with the lock held."""
        order = self._ready.pop(0)
        if not order.made_before:
            order.job.preparing -= 1
            if order.job.parallel is not None:
                self._makeable.notify()
        turn = self.prover.line.join(order.rank)
        turn.partition = order.id
        order.turn = turn if shared else None
        self._begin(order, self._stage_at_prover(order), self._name)
        return order, turn

    @staticmethod
    def _stage_at_prover(order: _Order) -> str:
        return "committing" if order.order.kind is WorkKind.COMMIT else "proving"

    def compute(self, order: _Order, turn: Turn) -> None:
        """Have the prover do what was ordered."""
        kind = order.order.kind
        started = time.time()
        try:
            with turn, unless(lambda: order.job.over):  # the turn is left, whatever becomes of it
                timed = self._prove(order, turn)
            value, times = timed.value if kind is not WorkKind.DIAGNOSE else (None, None)
            self._note(order, self._name, kind.value, timed.started, timed.ended, times)
            order.outcome.value = value
            order.outcome.times = None if times is None else replace(times, steps=[], on_device=None)
        except BaseException as error:  # whatever it is, the scheduler must hear of it
            order.outcome.worker, order.outcome.error = self._name, error
            self._note(order, self._name, kind.value, started, time.time(), None)
        with self._lock:
            keeps = kind is WorkKind.COMMIT and order.outcome.error is None and not order.job.over
            if keeps:
                order.job.kept[order.id] = order
        if not keeps:
            self._drop(order)
        self._done(order)

    def _prove(self, order: _Order, turn: Turn) -> Timed:
        assert order.witness is not None
        wanted, partition, witness = order.order, order.order.partition, order.witness.read()
        if wanted.kind is WorkKind.COMMIT:
            return self.prover.commit(partition, witness, turn)
        if wanted.kind is WorkKind.PROVE:
            return self.prover.make_proof(partition, witness, wanted.challenge, turn)
        return self.prover.diagnose(partition, witness, turn)

    # -- both -------------------------------------------------------------------------------------------------------

    def _begin(self, order: _Order, stage: str, worker: str) -> None:
        """Note that an order is at work at that stage. Called with the lock held."""
        if not order.job.over:
            self._enter(order, stage, worker)
            if not self._news.changed:
                self._news.changed = True
                self._tellable.notify()

    def _enter(self, order: _Order, stage: str, worker: str) -> None:
        """Put an order behind all others that have begun. Called with the lock held."""
        order.stage, order.at = stage, worker
        self._under_way.pop(order.id, None)
        self._under_way[order.id] = order

    def _leave(self, order: _Order) -> None:
        """An order is not under way any more. Called with the lock held."""
        self._held.discard(order)
        if self._under_way.get(order.id) is order:
            del self._under_way[order.id]

    def _note(
        self, order: _Order, worker: str, stage: str, started: float, ended: float, times: StepTimes | None
    ) -> None:
        error, name = order.outcome.error, order.id.name
        outcome = "ok" if error is None else type(error).__name__
        span = span_json(worker, name, stage, started, ended, outcome, order.order.began, *of_times(times))
        order.outcome.intervals.append(Interval(worker, stage, started, ended, span))

    def _drop(self, order: _Order) -> None:
        """Release the witness of an order, which is not needed any more."""
        if order.witness is not None:
            order.witness.release()
        if order.memory is not None:
            self._memory.put(order.memory)
        order.witness = order.memory = None

    def _done(self, order: _Order) -> None:
        outcome, job = order.outcome, order.job
        at_prover, last = outcome.worker == self._name, outcome.intervals[-1]
        if outcome.error is not None:
            outcome.error = sendable(outcome.error)
        with self._lock:
            if outcome.intervals[0].stage == "synthesise" and not at_prover:
                job.preparing -= 1
            if at_prover:
                self._pace.proven(last.ended - last.started)
            self._leave(order)
            if not job.over:
                news, job.left = self._news, job.left - 1
                news.batch.outcomes.append(outcome)
                news.urgent |= outcome.error is not None
                news.prompt |= job.first or not job.left
            if self._next_row():  # a synthesiser that wakes takes the interpreter from the prover
                self._makeable.notify()
            if len(self._news.batch.outcomes) == 1 or self._is_urgent():
                self._tellable.notify()

    def _tick(self) -> None:
        """Give back, now and then, what is not in use, and learn whether others wait for what is."""
        while True:
            with self._lock:
                over = self._over
            if over:
                return
            self._memory.give_back(patience.IDLE_LEASE)
            for synthesiser in list(self._synthesisers.values()):
                synthesiser.tidy()
            self._look_at_long()
            self._threads.give_back(patience.IDLE_THREADS)
            with suppress(Exception):  # the governor is gone: whoever asks it for something next tells
                self._threads.look()
            time.sleep(patience.WORKER_TICK)


_STOPPED: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    """Wait for stopped workers of this process: the interpreter would unwind their threads through C++, and abort."""
    late = time.monotonic() + patience.EXIT_STEP
    for worker in list(_STOPPED):
        worker.finish(late)
