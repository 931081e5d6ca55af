"""A worker: one device and all it needs to prove by itself. It is given orders in chunks and answers in batches.

    orders --> made by its synthesisers --> ready --> staged, computed, put together by its prover --> outcomes

The same class works on threads of the driver's process, in a process of its own and in a Ray actor. It decides nothing:
what failed is told, and whoever gave the order says what becomes of it. A witness never leaves the worker that made it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from actors.channel import sendable
from actors.grants import Governor, Memory, Purse, Shift
from actors.inflight import Timed, Turn
from actors.processes import WorkerDied
from actors.prover import ProverWorker, Shared
from actors.spans import of_times, span_json
from distprove.errors import InputError
from distprove.system import Partition, PredictsMemory, ProofSystem, StepTimes, Witness

LINGER = 0.25
"""Seconds between two batches, at least, unless there is trouble to tell or nothing left to do. A chunk is half a
second of work, and another one waits behind it: no worker runs dry before its news were told."""
TICK = 0.1
"""Seconds between two looks at what the governor is to be told, and between two batches of a job with `parallel`."""
IDLE = 0.02
"""Seconds for which a synthesiser beside a GPU keeps its threads while there is nothing for it to make."""


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
    """News of a worker."""

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


class Maker(Protocol):
    """A synthesiser: on a thread, or in a process of its own, which may die."""

    def load(self) -> Timed:
        """Make the program ready, also after a death; public facts."""

    def make(self, partition: Partition) -> tuple[WitnessRef, float, float]:
        """The witness, and when its making began and ended. Raises WorkerDied beside the errors of the system."""

    def kill(self) -> None:
        """End its process, where it has one; what it is making raises WorkerDied."""

    def end(self) -> None:
        """End it for good."""


@dataclass(frozen=True)
class Loaded:
    """Result of loading a worker."""

    prover: Timed
    synthesisers: dict[str, Timed]


@dataclass
class _Order:
    """An order on its way."""

    order: Order
    job: str
    outcome: Outcome
    witness: WitnessRef | None = None
    memory: Memory | None = None


class Worker:
    """One device with its key, its synthesisers and its line of partitions. `load` must have succeeded before anything
    else is asked, except `close`."""

    def __init__(
        self,
        name: str,
        system: ProofSystem,
        shared: Callable[[], Shared],
        prover: ProverWorker,
        makers: Mapping[str, Maker],
        governor: Governor,
        in_flight: int,
        threads: int,
    ) -> None:
        """`shared` gives the system's files. `makers` are the synthesisers by id, each of so many `threads`; up to
        `in_flight` partitions are with the prover at once."""
        self._name = name
        self._system = system
        self._shared = shared
        self._prover = prover
        self._makers = dict(makers)
        self._governor = governor
        self._in_flight = in_flight
        self._threads = threads
        self._purse = Purse(governor)
        self._room = in_flight + len(self._makers)
        """Witnesses in the making, ready or with the prover at a time; those that wait for a barrier are beside it."""
        self._lock = threading.Lock()
        self._makeable = threading.Condition(self._lock)
        self._provable = threading.Condition(self._lock)
        self._news = threading.Condition(self._lock)
        self._waiting: dict[str, deque[_Order]] = {}
        self._limits: dict[str, int | None] = {}
        self._began: dict[str, float] = {}
        """Start of each job's session."""
        self._preparing: Counter[str] = Counter()
        """Witnesses in the making or ready, by job."""
        self._ready: deque[_Order] = deque()
        self._kept: dict[str, _Order] = {}
        """Orders that were committed and wait for the barrier."""
        self._held = 0
        self._under_way: dict[str, tuple[str, str]] = {}
        self._batch = Batch([], [])
        self._told = 0.0
        self._changed = False
        """Whether something began since the last batch."""
        self._epoch = 0
        self._permitted = False
        self._over = False
        self._running: list[threading.Thread] = []
        self._taking = threading.Lock()
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
        results: dict[str, Timed | BaseException] = {}

        def load(name: str, maker: Maker) -> None:
            try:
                results[name] = maker.load()
            except BaseException as error:  # raised below
                results[name] = error

        loading = [threading.Thread(target=load, args=item, daemon=True) for item in self._makers.items()]
        for thread in loading:
            thread.start()
        loaded = self._prover.load(self._shared())
        for thread in loading:
            thread.join()
        made = {name: result for name, result in results.items() if isinstance(result, Timed)}
        lost = [(name, result) for name, result in results.items() if isinstance(result, BaseException)]
        for name, error in lost:
            if isinstance(error, InputError) or not made:
                raise error
            self._makers.pop(name)
        with self._lock:
            self._batch.lost += lost
            if epoch > self._epoch:
                self._forget()
                self._epoch = epoch
            self._permitted |= permitted
        if not self._running:
            loops: list[Callable[[], None]] = [partial(self._make, name) for name in self._makers]
            loops += [self._compute] * self._in_flight
            loops.append(self._tick)
            self._running = [
                threading.Thread(target=loop, name=f"distprove-{self._name}-{index}", daemon=True)
                for index, loop in enumerate(loops)
            ]
            for thread in self._running:
                thread.start()
        return Loaded(loaded, made)

    def _forget(self) -> None:
        """Forget what an earlier load was given: whoever loads again has given it to others."""
        for order in self._kept.values():
            if order.witness is not None:
                order.witness.release()
        self._kept.clear()
        self._waiting.clear()

    def check(self) -> Timed:
        """Check the key on this worker's backend. Raises InvalidKey."""
        return self._prover.check()

    def permit(self) -> None:
        """The key is checked: what is ready may be proven."""
        with self._lock:
            self._permitted = True
            self._provable.notify_all()

    def take(
        self, epoch: int, orders: Sequence[Order], job: str = "", began: float = 0.0, parallel: int | None = None
    ) -> None:
        """Orders of a job whose session `began` then, of which at most `parallel` may be in the making or ready at a
        time. Orders that were sent to an earlier life of this worker are dropped: whoever sent them has given them to
        somebody else."""
        with self._lock:
            if epoch != self._epoch:
                return
            self._limits[job], self._began[job] = parallel, began
            waiting = self._waiting.setdefault(job, deque())
            for order in orders:
                kept = self._kept.pop(order.partition.name, None)
                new = _Order(order, job, Outcome(order.partition.name, order.ask, self._name))
                if kept is not None and order.ask is Ask.PROVE:
                    new.witness, new.outcome.witness_bytes = kept.witness, kept.outcome.witness_bytes
                    self._ready.append(new)
                    self._provable.notify()
                else:
                    if kept is not None and kept.witness is not None:
                        kept.witness.release()
                    waiting.append(new)
            self._makeable.notify_all()

    def give_back(self, count: int, job: str = "") -> None:
        """Up to `count` orders of a job that have not begun, the last first, go back (`Batch.returned`)."""
        with self._lock:
            waiting = self._waiting.get(job, deque())
            for _ in range(min(count, len(waiting))):
                self._batch.returned.append(waiting.pop().order.partition.name)
            self._news.notify()

    def dismiss(self, synthesiser: str) -> None:
        """Give up a synthesiser."""
        with self._lock:
            maker = self._makers.pop(synthesiser, None)
            self._makeable.notify_all()
        if maker is not None:
            maker.end()

    def interrupt(self, synthesiser: str) -> None:
        """End the process of a synthesiser that hangs. It is loaded again."""
        maker = self._makers.get(synthesiser)
        if maker is not None:
            maker.kill()

    def batch(self, timeout: float) -> Batch:
        """The news, as soon as it is worth telling; perhaps none after `timeout` seconds."""
        late = time.monotonic() + timeout
        with self._lock:
            while not self._over:
                now = time.monotonic()
                # Where witnesses are counted over all workers, the next order waits for this news.
                linger = TICK if any(self._limits.values()) else LINGER
                due = self._told + linger if self._has_news else late
                if self._is_urgent or now >= min(due, late):
                    break
                self._news.wait(min(due, late) - now)
            batch, self._batch = self._batch, Batch([], [])
            batch.under_way = [(name, *where) for name, where in self._under_way.items()]
            self._told, self._changed = time.monotonic(), False
            return batch

    def close(self) -> None:
        """Give back the device's memory, in the node's deallocation lane, and end the synthesisers."""
        self.stop()
        for thread in self._running:
            thread.join()
        with suppress(RuntimeError), self._governor.lease(lane=True):  # it may not have been loaded
            self._prover.close()

    def stop(self) -> None:
        """Begin nothing more, and end the synthesisers."""
        with self._lock:
            self._over = True
            for changed in (self._makeable, self._provable, self._news):
                changed.notify_all()
        for maker in self._makers.values():
            maker.end()

    # -- synthesis --------------------------------------------------------------------------------------------------

    def _make(self, name: str) -> None:
        """One synthesiser at work, until it is dismissed."""
        maker, shift = self._makers[name], Shift(self._governor, self._threads)
        try:
            while (order := self._next_to_make(name, shift)) is not None:
                started = time.time()
                try:
                    self._synthesise(order, name, maker, shift)
                except BaseException as error:  # whatever it is, whoever gave the order must hear of it
                    shift.end()
                    order.outcome.worker, order.outcome.error = name, error
                    self._note(order, name, "synthesise", started, time.time(), None)
                    self._drop(order)
                    self._done(order)
                    if isinstance(error, WorkerDied) and not self._again(name, maker):
                        return
        finally:
            shift.end()

    def _next_to_make(self, name: str, shift: Shift) -> _Order | None:
        patience = 0.0 if self._prover.on_cpu else IDLE
        with self._lock:
            while True:
                if self._over or name not in self._makers:
                    return None
                for job, waiting in self._waiting.items():
                    limit = self._limits[job]
                    if waiting and self._held < self._room and (limit is None or self._preparing[job] < limit):
                        self._held += 1
                        self._preparing[job] += 1
                        return waiting.popleft()
                if not shift.held:
                    self._makeable.wait()
                elif not patience or not self._makeable.wait(patience):
                    self._lock.release()
                    try:
                        shift.end()
                    finally:
                        self._lock.acquire()

    def _synthesise(self, order: _Order, name: str, maker: Maker, shift: Shift) -> None:
        system, partition = self._system, order.order.partition
        size = system.synthesis_bytes(partition) if isinstance(system, PredictsMemory) else 0
        memory = self._purse.find(size)
        if memory is None:
            shift.end()  # who waits for memory must not hold threads
            memory = self._purse.take(size)
        order.memory = memory
        shift.begin()
        with self._lock:
            self._begin(order, "synthesising", name)  # not before: who waits for others does not hang
        witness, started, ended = maker.make(partition)
        order.witness, order.outcome.witness_bytes = witness, witness.nbytes
        self._note(order, name, "synthesise", started, ended, None)
        if self._system.needs_barrier:
            # Before a barrier every witness is kept, however many there are: waiting for their memory would be waiting
            # for ever.
            self._purse.put(memory)
            order.memory = None
        else:
            self._purse.fit(memory, witness.nbytes)
        with self._lock:
            self._under_way.pop(partition.name, None)
            self._under_way[partition.name] = ("ready", self._name)
            self._ready.append(order)
            self._provable.notify()

    def _again(self, name: str, maker: Maker) -> bool:
        """Load a synthesiser that died; whether it came back."""
        try:
            loaded = maker.load()
        except BaseException as error:  # whatever it is, it is told
            with self._lock:
                if not self._over and self._makers.pop(name, None) is not None:
                    self._batch.lost.append((name, error))
                    self._news.notify()
            return False
        with self._lock:
            self._batch.loaded.append((name, loaded))
            self._news.notify()
        return True

    # -- proving ----------------------------------------------------------------------------------------------------

    def _compute(self) -> None:
        """One of the partitions in flight."""
        while True:
            with self._taking:  # one at a time, so that they stand in line as they became ready
                order = self._next_to_prove()
                if order is None:
                    return
                turn = self._prover.line.join()
            ask = order.order.ask
            started = time.time()
            try:
                with turn:  # so that it is left, whatever becomes of it
                    timed = self._ask(order, turn)
                value, times = timed.value if ask is not Ask.DIAGNOSE else (None, None)
                self._note(order, self._name, ask.value, timed.started, timed.ended, times)
                order.outcome.value = value
                order.outcome.times = None if times is None else replace(times, steps=[], on_device=None)
            except BaseException as error:  # whatever it is, whoever gave the order must hear of it
                order.outcome.worker, order.outcome.error = self._name, error
                self._note(order, self._name, ask.value, started, time.time(), None)
            if ask is Ask.COMMIT and order.outcome.error is None:
                with self._lock:
                    self._kept[order.outcome.name] = order
            else:
                self._drop(order)
            self._done(order)
            del order

    def _next_to_prove(self) -> _Order | None:
        with self._lock:
            self._provable.wait_for(lambda: self._over or (self._ready and self._permitted))
            if self._over:
                return None
            order = self._ready.popleft()
            if order.outcome.stretches:  # it was made for this order
                self._preparing[order.job] -= 1
                if self._limits[order.job] is not None:
                    self._makeable.notify()
            self._begin(order, "committing" if order.order.ask is Ask.COMMIT else "proving", self._name)
        return order

    def _ask(self, order: _Order, turn: Turn) -> Timed:
        assert order.witness is not None
        partition, witness = order.order.partition, order.witness.read()
        calls: dict[Ask, Callable[[], Timed]] = {
            Ask.COMMIT: lambda: self._prover.commit(partition, witness, turn),
            Ask.PROVE: lambda: self._prover.prove(partition, witness, order.order.challenge, turn),
            Ask.DIAGNOSE: lambda: self._prover.diagnose(partition, witness, turn),
        }
        return calls[order.order.ask]()

    # -- both -------------------------------------------------------------------------------------------------------

    def _begin(self, order: _Order, stage: str, worker: str) -> None:
        """Called with the lock held."""
        self._under_way.pop(order.outcome.name, None)
        self._under_way[order.outcome.name] = (stage, worker)
        if not self._changed:
            self._changed = True
            self._news.notify()

    def _note(
        self, order: _Order, worker: str, stage: str, started: float, ended: float, times: StepTimes | None
    ) -> None:
        error, name = order.outcome.error, order.outcome.name
        outcome = "ok" if error is None else type(error).__name__
        span = span_json(worker, name, stage, started, ended, outcome, self._began[order.job], *of_times(times))
        order.outcome.stretches.append(Stretch(worker, stage, started, ended, span))

    def _drop(self, order: _Order) -> None:
        """Release the witness of an order, which is not needed any more."""
        if order.witness is not None:
            order.witness.release()
        if order.memory is not None:
            self._purse.put(order.memory)
        order.witness = order.memory = None

    def _done(self, order: _Order) -> None:
        outcome = order.outcome
        at_prover = outcome.worker == self._name
        if outcome.error is not None:
            outcome.error = sendable(outcome.error)
        with self._lock:
            if outcome.stretches[0].stage == "synthesise":
                self._held -= 1
                if not at_prover:
                    self._preparing[order.job] -= 1
            self._under_way.pop(outcome.name, None)
            self._batch.outcomes.append(outcome)
            self._makeable.notify()
            if len(self._batch.outcomes) == 1 or self._is_urgent:
                self._news.notify()

    @property
    def _has_news(self) -> bool:
        batch = self._batch
        return bool(batch.outcomes or batch.returned or batch.loaded or batch.lost or self._changed)

    @property
    def _is_urgent(self) -> bool:
        batch = self._batch
        if batch.lost or batch.loaded or batch.returned or (batch.outcomes and batch.outcomes[-1].error is not None):
            return True
        return bool(batch.outcomes) and not self._under_way and not self._ready and not any(self._waiting.values())

    def _tick(self) -> None:
        """Give back, now and then, what is not in use."""
        while True:
            with self._lock:
                over = self._over
            self._purse.give_back(0.0 if over else 0.25)
            if over:
                return
            time.sleep(TICK)
