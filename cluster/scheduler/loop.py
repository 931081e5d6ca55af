"""The loop that feeds the machine: the only thread that knows it. Events come from the fleet; effects go there, and to
the sinks of the jobs.

    scheduler = Scheduler(settings, open_fleet)     one for a process: of a command, a service, a library
    client = scheduler.lend(job="a")                one for each job that has a driver of its own
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

from actors import patience
from actors.protocol import Transport
from actors.worker import Worker as WorkerVerbs
from cluster.executor.fleet import Fleet, Site
from cluster.executor.verifiers import Hangs, within
from cluster.record.report import public_message
from cluster.scheduler import events as e
from cluster.scheduler.ahead import LoadingAhead
from cluster.scheduler.batches import Batches
from cluster.scheduler.jobs import Job
from cluster.scheduler.machine import Machine
from cluster.scheduler.resident import Resident
from cluster.scheduler.state import KeyStage, State
from cluster.scheduler.told import KeyView, WorkerView
from cluster.scheduler.views import key_views, worker_views
from distprove.errors import ClusterError, DistproveError, UsageError, typed
from distprove.host.beside import in_background
from distprove.settings import ExecutorSettings
from distprove.system import DeviceTask, PartitionId, PartitionProof, ProofSystem

KEEPERS = 4
"""Threads that put proofs on disk. They wait for it most of the time, and a disk that syncs several files at once takes
hardly longer than for one."""
MANY = 64
"""Workers from which on events are gathered before they are handled: to hand out costs a walk over all workers."""

Answer = TypeVar("Answer")
ForJob = e.Note | e.Proved | e.Tell | e.StoreBarrier | e.Ended


class Sink(Protocol):
    """Receives what comes of one or several jobs."""

    def take(self, effects: Sequence[ForJob]) -> None:
        """Take effects, in order, on the loop's thread; it must be quick."""

    def keep(self, proofs: Sequence[tuple[Job, PartitionProof]]) -> None:
        """Put verified proofs on disk, on a thread for that. Raises what keeps them from being written."""


_ToKeep = tuple[Sink, Job, PartitionId, PartitionProof]


class _Query(NamedTuple):
    call: Callable[[State], Any]
    answer: Future[Any]


class Scheduler:
    """Feeds the machine with events and carries out its effects. Any thread may call; `close` comes last."""

    def __init__(
        self,
        settings: ExecutorSettings,
        make_fleet: Callable[[], Fleet],
        *,
        standing: bool,
        kind: str,
        chosen: str = "",
    ) -> None:
        """`standing`: it outlives its jobs, and keeps their keys. `kind` and `chosen`: the fleet's kind and the reason
        for it, for reports."""
        self.settings = settings
        self.kind = kind
        self.chosen = chosen
        self.standing = standing
        self.lost: ClusterError | None = None
        """The error with which jobs end whose workers were lost."""
        self._make_fleet = make_fleet
        self._machine = Machine(settings, standing=standing)
        self._inbox: SimpleQueue[e.Event | _Query | None] = SimpleQueue()
        self._fleet: Fleet | None = None
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        """Guards `_sinks`, `_closed` and the loss of the fleet."""
        self._sinks: dict[str, Sink] = {}
        """By job, until the end of the job is told."""
        self._residents: dict[str, Resident] = {}
        self._keeping: Batches[_ToKeep] = Batches(self._keep, KEEPERS)
        self._look_due = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="distprove-scheduler", daemon=True)
        self.quiet = min(patience.QUIET, settings.hang_timeout / 4)

    # -- life -------------------------------------------------------------------------------------------------------

    @property
    def evicted(self) -> int:
        """Number of keys that made room for others."""
        return self._machine.state.evicted

    @property
    def unopened(self) -> bool:
        """Whether it was never started."""
        return self._fleet is None

    @property
    def fleet(self) -> Fleet:
        assert self._fleet is not None, "start first"
        return self._fleet

    def start(self, system: ProofSystem | None = None, waits_for: Callable[[str], None] = lambda what: None) -> None:
        """Open the workers' processes and devices, unless they are. `system`: the only one, where there is one. Raises
        ClusterError."""
        with self._opening:
            if self._closed:
                raise ClusterError("the scheduler was closed")
            if self._fleet is not None:
                return
            fleet = self._make_fleet()
            try:
                fleet.report_age = patience.REPORT_AGE if self.standing else 0.0
                fleet.listeners.append(partial(self._lost, fleet))
                fleet.open(system, waits_for)
                with self._lock:
                    if self._closed:  # meanwhile, and whoever closed it did not find the fleet
                        raise ClusterError("the scheduler was closed")
                    self._fleet = fleet
            except BaseException:
                fleet.close(now=True)
                raise
            if not self._thread.is_alive():
                self._thread.start()
            self._post(e.Joined([site.worker for site in fleet.sites.values()]))
            if self.standing:
                for site in list(fleet.sites.values()):
                    in_background(site.host.start, "distprove-start")  # its loading tells what fails

    def close(self, *, now: bool = False) -> None:
        """End all jobs, then everything that was started; `now`: without waiting for what runs."""
        with self._lock:
            self._closed = True
            open_jobs = list(self._sinks)
        for job in open_jobs:
            self._post(e.JobStopped(job, ClusterError("the scheduler was closed")))
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join()
        self._keeping.stop(wait=not now)
        residents, self._residents = list(self._residents.values()), {}
        for resident in residents:
            resident.stop(wait=not now)
        if self._fleet is not None:
            self._fleet.close(now=now or self._fleet.lost)
        for resident in residents:
            resident.release()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(now=error is not None)

    # -- jobs -------------------------------------------------------------------------------------------------------

    def lend(self, *, job: str = "", rank: int = 2, known_as: str | None = None) -> Client:
        """What the driver of one job uses. Jobs have different names; those of the lowest rank go first. `known_as` is
        the `identity` of the system, where that is known. Raises UsageError for a name that is in use."""
        if self.standing and not job:
            raise UsageError("a job needs a name")
        with self._lock:
            if job in self._sinks:
                raise UsageError(f"a job named {job} is at work already")
            client = self._sinks[job] = Client(self, job, rank, known_as)
        return client

    def add(self, job: Job, sink: Sink) -> None:
        """Begin a job, whose effects go to its sink."""
        with self._lock:
            self._sinks[job.id] = sink
        self._post(e.JobAdded(job))

    def stop(self, job: str, reason: BaseException) -> None:
        """End a job for this reason."""
        self._post(e.JobStopped(job, reason))

    def leave(self, *jobs: str) -> None:
        """Nobody needs the names of these jobs any more, which are over, nor a driver its key."""
        with self._lock:
            for job in jobs:
                if isinstance(self._sinks.get(job), Client):
                    self._post(e.JobLeft(job))  # told before another job may have the name
                self._sinks.pop(job, None)

    # -- keys -------------------------------------------------------------------------------------------------------

    def load_ahead(self, key: str, system: ProofSystem) -> LoadingAhead:
        """Have the workers load a key that no job asked for yet, after the keys of all jobs. `key` is the `identity` of
        its system. Raises UsageError where the same is under way, ClusterError."""
        self.start()  # the workers may have been lost since the last job
        loading = LoadingAhead(key, system, self.kind, lambda job: self.leave(job))
        with self._lock:
            if loading.job.id in self._sinks:
                raise UsageError("the key is being loaded already")
            self._sinks[loading.job.id] = loading
        self._post(e.JobAdded(loading.job))
        return loading

    def put_away(self, key: str) -> bool:
        """Have the workers give back the memory of a key; whether they do, because no job uses the key and no worker
        loads it. Raises ClusterError."""
        self._post(e.KeyPutAway(key))

        def gone(state: State) -> bool:
            found = state.keys.get(key)
            return found is None or found.stage is KeyStage.CLOSING

        return self.ask(gone)

    # -- questions --------------------------------------------------------------------------------------------------

    def ask(self, call: Callable[[State], Answer]) -> Answer:
        """What `call` returns, on the loop's thread. Raises ClusterError where the loop ended."""
        query = _Query(call, Future())
        if threading.current_thread() is self._thread:
            return call(self._machine.state)
        self._post(query)
        while True:
            with suppress(TimeoutError):
                found: Answer = query.answer.result(1.0)
                return found
            if not self._thread.is_alive():
                raise ClusterError("the scheduler was closed")

    def keys(self) -> list[KeyView]:
        """The resident keys; none once it is closed."""
        with suppress(ClusterError):
            return self.ask(key_views) if self._fleet is not None else []
        return []

    def workers(self) -> list[WorkerView]:
        """The workers, those that were given up included; none once it is closed."""
        with suppress(ClusterError):
            return self.ask(worker_views) if self._fleet is not None else []
        return []

    def settle(self, timeout: float) -> None:
        """Wait until every worker that loads a key has, or has failed: a short job ends before they all have."""
        late = time.monotonic() + timeout
        while time.monotonic() < late and self.ask(lambda state: any(w.loading for w in state.workers.values())):
            time.sleep(0.01)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """Reports of the nodes' governors; times in seconds after `began` (since the epoch)."""
        return [] if self._fleet is None else self._fleet.governor_report(began)

    def devices(self, key: str) -> list[str]:
        """Workers with a device and a key, those with the fewest orders first."""

        def found(state: State) -> list[str]:
            workers = [w for w in state.workers.values() if w.health.lost is None and w.slot(key).ready]
            return [w.id for w in sorted(workers, key=lambda w: w.load()) if w.facts.get("kind", "cpu") != "cpu"]

        return self.ask(found)

    def run(self, key: str, worker: str, task: DeviceTask) -> Any:
        """What a task comes to on the device of a worker that has the key. Waits for it. Raises what the task raises,
        or WorkerDied."""
        slot = self._slot(worker, key)
        if slot is None:
            raise ClusterError("the worker was given up")
        try:
            return within(self.settings.start_timeout, partial(slot.call, WorkerVerbs.run, task))
        except Hangs:
            raise ClusterError("it did not answer in time") from None

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _post(self, event: e.Event | _Query) -> None:
        self._inbox.put(event)

    def _run(self) -> None:
        while (found := self._gathered()) is not None:
            events, queries = found
            try:
                self._carry_out(self._machine.handle([*events, *self._look()], time.monotonic(), time.time()))
            except BaseException as error:  # a fault of ours: no job waits for an end that does not come
                self._begin_anew(error)
            for query in queries:
                _answer(query, self._machine.state)

    def _carry_out(self, effects: Sequence[e.Effect]) -> None:
        """Do what the machine says. Each sink gets all that is its own at once, so that a driver wakes once for it."""
        told: dict[Sink, list[ForJob]] = {}
        try:
            for effect in effects:
                if not isinstance(effect, ForJob):
                    DO[type(effect)](self, effect)
                elif (sink := self._sinks.get(effect.job)) is not None:
                    told.setdefault(sink, []).append(effect)
        finally:
            for sink, each in told.items():
                sink.take(each)

    def _gathered(self) -> tuple[list[e.Event], list[_Query]] | None:
        """What came since, at least one thing or a look that is due; None at the end."""
        found: list[e.Event | _Query | None] = []
        with suppress(Empty):
            found.append(self._inbox.get(timeout=max(0.0, self._look_due - time.monotonic())))
            workers = len(self._machine.state.workers)
            if workers >= MANY:
                time.sleep(patience.GATHER * workers)
            while True:
                found.append(self._inbox.get_nowait())
        queries = [each for each in found if isinstance(each, _Query)]
        events = [each for each in found if each is not None and not isinstance(each, _Query)]
        if None in found:
            self._inbox.put(None)
            if not events:
                for query in queries:
                    _answer(query, self._machine.state)
                return None
        return events, queries

    def _look(self) -> Iterator[e.Event]:
        """What a look at the fleet finds, some times a second."""
        now = time.monotonic()
        fleet = self._fleet
        if now < self._look_due or fleet is None:
            return
        self._look_due = now + min(patience.SCHEDULER_LOOK, self.settings.hang_timeout / 8)
        with suppress(Exception):  # nobody's job fails for it; there is another look
            fleet.grow()
        known = self._machine.state.workers
        new = [site.worker for name, site in list(fleet.sites.items()) if name not in known]
        if new:
            yield e.Joined(new)
        for worker in fleet.left():
            yield e.Left(worker)
        loading = [worker.id for worker in known.values() if worker.loading is not None]
        queued = frozenset(name for name in loading if fleet.queued(name))
        yield e.Looked(queued, tuple(fleet.remarks), fleet.grows)

    def _begin_anew(self, error: BaseException) -> None:
        """Fail all jobs, and forget everything: what was not foreseen, such as that no thread can be started, happened
        between two effects."""
        told = typed(error)
        if not isinstance(told, DistproveError):
            told = ClusterError(f"the scheduler failed: {public_message(error)}")
            told.__cause__ = error
        with self._lock:
            sinks = list(self._sinks.items())
        for job, sink in sinks:
            sink.take([e.Ended(job, told)])
        former = self._machine.state
        self._machine = Machine(self.settings, standing=self.standing)
        self._machine.state.evicted = former.evicted
        self._machine.state.epochs = former.epochs  # what comes late of a former load is of none to come
        if self.standing:  # else its only job is over, and whoever closes it closes the fleet
            fleet, self._fleet = self._fleet, None
            self._abandon(fleet)

    def _lost(self, fleet: Fleet, reason: str) -> None:
        """What the workers run on is gone: the next job of a standing scheduler has others started."""
        with self._lock:
            if self._fleet is not fleet:
                return
            self.lost = ClusterError(f"Ray is lost: {reason}")
            self._post(e.FleetLost(self.lost))
            if self.standing:
                self._fleet = None
        if self.standing:
            self._abandon(fleet)

    def _post_of(self, fleet: Fleet | None, event: e.KeyOpened | e.KeyRefused | e.KeyClosed) -> None:
        """Report what became of a key in a fleet, unless that was lost: the next one may have the key by now."""
        with self._lock:
            if self._fleet is fleet:
                self._post(event)

    def _abandon(self, fleet: Fleet | None) -> None:
        residents, self._residents = list(self._residents.values()), {}
        for resident in residents:
            resident.stop(wait=False)
        if fleet is not None:
            # On another thread: it waits for the one that looks whether all is there, which may be this one.
            with suppress(RuntimeError):  # none can be started: the processes end with this one
                in_background(partial(fleet.close, now=True), "distprove-lost")

    # -- effects ----------------------------------------------------------------------------------------------------

    def _do_open(self, effect: e.OpenKey) -> None:
        fleet = self._fleet
        if fleet is None:
            self._post(e.KeyRefused(effect.key, self.lost or ClusterError("the workers were lost")))
            return
        resident = self._residents[effect.key] = Resident(effect.key, effect.system, fleet, self._post, self.quiet)

        def opens() -> None:
            outcome: e.KeyOpened | e.KeyRefused = e.KeyOpened(effect.key)
            try:
                fleet.unless_lost(resident.open)
            except BaseException as error:  # whatever it is, the jobs must know
                outcome = e.KeyRefused(effect.key, error)
            self._post_of(fleet, outcome)

        in_background(opens, "distprove-open")

    def _do_close(self, effect: e.CloseKey) -> None:
        resident, fleet = self._residents.pop(effect.key, None), self._fleet

        def closes() -> None:
            try:
                if resident is not None:
                    resident.close(self.settings.start_timeout)
            finally:
                self._post_of(fleet, e.KeyClosed(effect.key))

        in_background(closes, "distprove-close")

    def _do_load(self, effect: e.Load) -> None:
        site, resident = self._site(effect.worker), self._residents.get(effect.key)
        if site is not None and resident is not None:
            resident.load(site, effect.epoch, effect.permitted)

    def _do_check(self, effect: e.Check) -> None:
        if (resident := self._residents.get(effect.key)) is not None:
            resident.check(effect.worker, effect.epoch)

    def _site(self, worker: str) -> Site | None:
        return None if self._fleet is None else self._fleet.sites.get(worker)

    def _slot(self, worker: str, key: str) -> Transport | None:
        resident = self._residents.get(key)
        return None if resident is None else resident.transports.get(worker)

    def _do_permit(self, effect: e.Permit) -> None:
        if (slot := self._slot(effect.worker, effect.key)) is not None:
            slot.tell(WorkerVerbs.permit)

    def _do_hand(self, effect: e.Hand) -> None:
        if (slot := self._slot(effect.worker, effect.key)) is not None:
            slot.tell(WorkerVerbs.take, effect.epoch, effect.orders, effect.parallel)

    def _do_ask_back(self, effect: e.AskBack) -> None:
        if (slot := self._slot(effect.worker, effect.key)) is not None:
            slot.tell(WorkerVerbs.give_back, effect.most, effect.committed)

    def _do_forget(self, effect: e.Forget) -> None:
        if (slot := self._slot(effect.worker, effect.key)) is not None:
            slot.tell(WorkerVerbs.forget, effect.job, effect.number)

    def _do_dismiss(self, effect: e.Dismiss) -> None:
        if (slot := self._slot(effect.worker, effect.key)) is not None:
            slot.tell(WorkerVerbs.dismiss, effect.synthesiser)

    def _do_interrupt(self, effect: e.Interrupt) -> None:
        site, slot = self._site(effect.worker), self._slot(effect.worker, effect.key)
        if effect.who != effect.worker:
            if slot is not None:
                slot.tell(WorkerVerbs.interrupt, effect.who)
        elif site is not None:
            in_background(site.host.kill, "distprove-kill")  # over a network that takes its time

    def _do_retire(self, effect: e.Retire) -> None:
        for resident in self._residents.values():
            resident.transports.pop(effect.worker, None)
        fleet = self._fleet
        if fleet is not None:
            fleet.retire(effect.worker)

    def _do_remember(self, effect: e.Remember) -> None:
        worker = self._machine.state.workers.get(effect.worker)
        if self._fleet is not None and worker is not None:
            self._fleet.remember(worker.handle, effect.device, effect.reason)

    def _do_verify(self, effect: e.Verify) -> None:
        worker, resident = self._machine.state.workers.get(effect.worker), self._residents.get(effect.key)
        node = None if worker is None else worker.handle.node_id
        if resident is not None:  # or else the fleet was lost just now, by another thread
            resident.verify(effect.proofs, node, last=effect.last)

    def _do_keep(self, effect: e.Keep) -> None:
        jobs, sinks = self._machine.state.jobs, self._sinks
        items = [
            (sink, job, id, proof)
            for id, proof in effect.proofs
            if (job := jobs.get(id.job)) is not None and (sink := sinks.get(id.job)) is not None
        ]
        if items:
            self._keeping.submit(items, last=effect.last)

    def _keep(self, items: list[_ToKeep]) -> None:
        """Have verified proofs written, by sink."""
        found: dict[Sink, list[_ToKeep]] = {}
        for item in items:
            found.setdefault(item[0], []).append(item)
        for sink, group in found.items():
            kept = [(partition, proof) for _, _, partition, proof in group]
            try:
                sink.keep([(job, proof) for _, job, _, proof in group])
            except BaseException as error:  # whatever it is, the job must know
                self._post(e.KeepFailed(kept, error))
            else:
                self._post(e.Kept(kept))


class Client:
    """What the driver of one job uses: its sink, and its way to the scheduler. Close it when the job is over."""

    def __init__(self, scheduler: Scheduler, job: str, rank: int, known_as: str | None = None) -> None:
        self.scheduler = scheduler
        self.job = job
        self.rank = rank
        self.known_as = known_as
        self.ended: BaseException | None = None
        """Why this job must not go on, if it must not."""
        self._state: Job | None = None
        self._effects: SimpleQueue[Sequence[ForJob]] = SimpleQueue()
        self._taken: deque[ForJob] = deque()
        """Effects that were taken out of the queue together, and that the driver has not seen."""
        self._store: Callable[[Sequence[PartitionProof]], None] = lambda proofs: None
        self._over = False
        self.lost = False
        """Whether what the workers ran on was lost: begun again, the job has others."""

    @property
    def kind(self) -> str:
        return self.scheduler.kind

    @property
    def chosen(self) -> str:
        return self.scheduler.chosen

    @property
    def cold(self) -> bool | None:
        """Whether the key had to be loaded for this job; None before that is known."""
        return None if self._state is None else self._state.cold

    @property
    def crowded(self) -> bool:
        """Whether a partition found too little memory beside other keys: alone the job has more."""
        return self._state is not None and self._state.crowded

    @property
    def replaceable(self) -> bool:
        """Whether what the workers ran on is lost, and another scheduler of these settings would start its own."""
        fleet = self.scheduler._fleet
        return fleet is not None and fleet.lost and fleet.started

    def begin(
        self,
        job: Job,
        store: Callable[[Sequence[PartitionProof]], None],
        waits_for: Callable[[str], None],
    ) -> None:
        """Begin the job. Verified proofs go to `store`, on another thread. Raises ClusterError."""
        self.check_ended()
        self.scheduler.start(None if self.scheduler.standing else job.system, waits_for)
        self._state, self._store = job, store
        job.holds_key = True
        self.scheduler.add(job, self)
        if self.ended is not None:
            self.scheduler.stop(self.job, self.ended)

    def effects(self) -> Iterator[ForJob | None]:
        """What comes of the job, to its end; now and then None. Raises why it could not go on."""
        while True:
            if not self._taken:
                with suppress(Empty):
                    self._taken.extend(self._effects.get(timeout=patience.JOB_LOOK))
            effect = self._taken.popleft() if self._taken else None
            if isinstance(effect, e.Ended):
                self._over = True
                if effect.error is not None:
                    self.lost = effect.error is self.scheduler.lost
                    raise effect.error
                return
            yield effect

    def barrier_stored(self) -> None:
        self.scheduler._post(e.BarrierStored(self.job))

    def view(self) -> dict[str, Any]:
        """Content of status.json while the job is under way."""
        job = self._state
        assert job is not None, "begin first"
        return self.scheduler.ask(lambda state: job.view(state.workers, time.time()))

    def devices(self) -> list[str]:
        """As of the scheduler; none where nothing was left to prove."""
        return self.scheduler.devices(self._key) if self._state is not None else []

    def run(self, worker: str, task: DeviceTask) -> Any:
        return self.scheduler.run(self._key, worker, task)

    @property
    def _key(self) -> str:
        assert self._state is not None, "begin first"
        return self._state.key

    def stop(self, reason: BaseException) -> None:
        """End the job: its driver gets `reason`. Any thread may call."""
        self.ended = reason
        self.scheduler.stop(self.job, reason)

    def check_ended(self) -> None:
        """Raise why this job must not go on."""
        if self.ended is not None:
            raise self.ended

    def finish(self) -> None:
        """See that nothing changes the job's reports any more, however its driver ends."""
        if self._state is None or self._over:
            return
        self.scheduler.stop(self.job, ClusterError("its driver ended"))
        late = time.monotonic() + patience.FINISH
        while not self._over and time.monotonic() < late and self.scheduler._thread.is_alive():
            with suppress(BaseException):
                for _ in self.effects():
                    if time.monotonic() > late:
                        break

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return self.scheduler.governor_report(began)

    def close(self) -> None:
        """The job is over."""
        self.finish()
        self.scheduler.leave(self.job)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # -- as a sink --------------------------------------------------------------------------------------------------

    def take(self, effects: Sequence[ForJob]) -> None:
        self._effects.put(effects)

    def keep(self, proofs: Sequence[tuple[Job, PartitionProof]]) -> None:
        self._store([proof for _, proof in proofs])


def _answer(query: _Query, state: State) -> None:
    try:
        query.answer.set_result(query.call(state))
    except BaseException as error:  # whoever asked has to know
        query.answer.set_exception(error)


DO: dict[type, Callable[[Scheduler, Any], None]] = {
    e.OpenKey: Scheduler._do_open,
    e.CloseKey: Scheduler._do_close,
    e.Load: Scheduler._do_load,
    e.Check: Scheduler._do_check,
    e.Permit: Scheduler._do_permit,
    e.Hand: Scheduler._do_hand,
    e.AskBack: Scheduler._do_ask_back,
    e.Forget: Scheduler._do_forget,
    e.Dismiss: Scheduler._do_dismiss,
    e.Interrupt: Scheduler._do_interrupt,
    e.Retire: Scheduler._do_retire,
    e.Remember: Scheduler._do_remember,
    e.Verify: Scheduler._do_verify,
    e.Keep: Scheduler._do_keep,
}
