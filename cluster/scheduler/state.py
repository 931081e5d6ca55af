"""The state of the scheduler, and the effects of the events that it handles now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cluster.scheduler.events import Check, Effect, Ended, Forget, Note, Tell
from cluster.scheduler.fair import FairQueue
from cluster.scheduler.jobs import Job, PartitionState
from cluster.scheduler.rules import OVER, PROVEN, RETRIES, RULES, Fact, Stage
from cluster.scheduler.workers import Watch, Worker
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, ChecksLong, PartitionId, ProofSystem
from kernels.host.units import count_of


class KeyStage(str, Enum):
    OPENING = "opening"
    OPEN = "open"
    REFUSED = "refused"
    """Its memory does not fit beside the others: it waits until one of them is closed."""
    CLOSING = "closing"


@dataclass(eq=False)
class Key:
    """A resident key, and the jobs that use it."""

    id: str
    system: ProofSystem
    watch: Watch
    number: int
    """Number of its arrival."""
    stage: KeyStage = KeyStage.OPENING
    jobs: dict[str, Job] = field(default_factory=dict)
    used: int = 0
    """Number of its last use: the key with the lowest one is evicted first."""
    last_used: float = 0.0
    """Time of its last use in seconds since the epoch."""
    checked: bool = False
    checker: str | None = None
    """The worker that checks it."""
    check_deadline: float = 0.0
    crowded_on: set[str] = field(default_factory=set)
    """Workers on whose devices it waits for another key's memory."""

    def __post_init__(self) -> None:
        self.checked = not isinstance(self.system, ChecksKey)

    def check_patience(self, settings: ExecutorSettings) -> float:
        """Seconds after which a check counts as hung."""
        own = self.system.check_seconds if isinstance(self.system, ChecksLong) else 0.0
        return max(settings.start_timeout, own)

    @property
    def rank(self) -> int:
        """The rank of its most urgent job."""
        return min((job.rank for job in self.jobs.values() if not job.over), default=1 << 30)


class State:
    """Everything that the scheduler knows."""

    def __init__(self, settings: ExecutorSettings, *, standing: bool) -> None:
        """`standing`: whether it outlives its jobs, so that a worker which one job gives up still serves others."""
        self.settings = settings
        self.standing = standing
        self.jobs: dict[str, Job] = {}
        """Jobs that are not over, in order of arrival."""
        self.ended: list[Job] = []
        """Jobs that ended just now, and that workers and keys know of."""
        self.moved: dict[str, Job] = {}
        """Jobs of which partitions moved since they were looked at."""
        self.loaded: dict[str, Job] = {}
        """Jobs whose key was loaded somewhere just now."""
        self.see_all = False
        """Whether all jobs are to be looked at: workers came or were given up."""
        self.waiting: dict[str, Job] = {}
        """Jobs of which partitions may wait for a worker."""
        self.ahead: dict[str, Job] = {}
        """Jobs among `jobs` that load keys ahead."""
        self.held: dict[str, Job] = {}
        """Jobs that are over, and whose drivers still need the key."""
        self.keys: dict[str, Key] = {}
        self.workers: dict[str, Worker] = {}
        self.now = 0.0
        """Time of the events that are handled, on the monotonic clock."""
        self.time = 0.0
        """The same in seconds since the epoch."""
        self.out: list[Effect] = []
        self.queue = FairQueue()
        """Places of the orders; the jobs are its members."""
        self.hands = 0
        """How often orders were given to a worker."""
        self.uses = 0
        """Uses of keys so far."""
        self.epochs = 0
        """Loads so far."""
        self.forgets = 0
        """Words to workers so far that a job is over."""
        self.must_load = False
        """Whether some worker may have to load a key."""
        self.joined = False
        """Whether the first workers are there."""
        self.evicted = 0
        """Keys that made room for others."""
        self.grows = False
        self.remarks: list[str] = []

    # -- effects ----------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        self.out.append(effect)

    def forget(self, worker: Worker, job: Job) -> None:
        """Tell a worker that a job is over there."""
        self.forgets += 1
        worker.slot(job.key).forgotten[job.id] = self.forgets
        self.emit(Forget(worker.id, job.key, job.id, self.forgets))

    def note(self, job: Job, event: str, *, sync: bool = True, **facts: Any) -> None:
        """Write an event to a job's journal."""
        self.emit(Note(job.id, event, facts, sync))

    def tell(
        self,
        job: Job,
        event: str,
        partition: PartitionState | None = None,
        worker: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Notify a job's live display."""
        if job.listens:
            self.emit(Tell(job.id, job.progress(event, partition, worker, detail)))

    def note_worker(self, job: Job, event: str, worker: str, reason: str) -> None:
        """Write an event of a worker or synthesiser to a job's journal, and notify its display."""
        self.note(job, event, worker=worker, reason=reason)
        self.tell(job, event, None, worker, reason)

    def wait(self, job: Job, what: str) -> None:
        """Notify a job of what it waits for, once."""
        if job.waits != what:
            job.waits = what
            self.tell(job, "waiting", detail=what)

    # -- partitions -------------------------------------------------------------------------------------------------

    def find(self, id: PartitionId) -> tuple[Job, PartitionState] | None:
        """A partition of a job that is not over. Late news may name one that the present job of that id lacks."""
        job = self.jobs.get(id.job)
        partition = None if job is None else job.partitions.get(id.name)
        return None if job is None or partition is None else (job, partition)

    def apply(self, job: Job, partition: PartitionState, fact: Fact, reason: str = "", kind: str | None = None) -> None:
        """Do what the rule says for a partition. Strikes against its worker are `faults.fail`'s part."""
        rule, before = RULES[fact], partition.stage
        to = rule.to
        self.moved[job.id] = job
        if rule.counter:
            counters = job.report.counters
            setattr(counters, rule.counter, getattr(counters, rule.counter) + 1)
        if to is Stage.WAITING and rule.charge:
            partition.charged += 1
            if partition.charged > job.max_retries:
                self.fail(
                    job, partition, f"given up after {count_of(job.max_retries + 1, 'attempt')}; the last: {reason}"
                )
                return
        if fact in RETRIES:
            job.report.counters.retries += 1
        if to is Stage.WAITING:
            partition.worker, partition.proof, partition.holds = None, None, False
            to = Stage.WAITING if job.may_begin(partition) else Stage.BLOCKED
        if to in OVER:
            partition.made_of = ()
        job.move(partition, to, front=rule.front and to is Stage.WAITING)
        if to is Stage.DONE or (to in PROVEN) != (before in PROVEN):
            self._tell_dependents(job, partition, before)
        if to is Stage.FAILED:
            partition.report.status, partition.report.error, partition.report.error_kind = "failed", reason, kind
            self.note(job, rule.event, partition=partition.id.name, reason=reason)
            self.tell(job, rule.event, partition, None, reason)
            why = reason if partition.missing else f"{partition.id.name}, which it needs, failed"
            for waiting in job.dependents.get(partition.id.name, ()):
                if waiting.stage not in OVER:
                    self.fail(job, waiting, why, kind)

    def _tell_dependents(self, job: Job, partition: PartitionState, before: Stage) -> None:
        """Begin the partitions that need this one, or withdraw them, after it got a proof, lost it or had it stored."""
        was, there = before in PROVEN, partition.stage in PROVEN
        for waiting in reversed(job.dependents.get(partition.id.name, ())):  # the first goes to the front last
            waiting.missing += was - there
            if waiting.stage is Stage.BLOCKED and job.may_begin(waiting):
                self.apply(job, waiting, Fact.UNBLOCKED)
            elif not there and waiting.stage in (Stage.WAITING, Stage.VERIFYING, Stage.KEEPING):
                self.apply(job, waiting, Fact.WITHDRAWN)  # a worker that is at it is heard first

    def fail(self, job: Job, partition: PartitionState, reason: str, kind: str | None = None) -> None:
        """Give up a partition."""
        self.apply(job, partition, Fact.GIVEN_UP, reason, kind)

    def end(self, job: Job, error: BaseException | None = None) -> None:
        """End a job: nothing more is done for it. `error`: why it cannot go on."""
        if not job.over:
            job.over = True
            self.ended.append(self.jobs.pop(job.id))
            self.ahead.pop(job.id, None)
            self.emit(Ended(job.id, error))

    # -- workers ----------------------------------------------------------------------------------------------------

    def live(self, job: Job) -> list[Worker]:
        """Workers that a job may use, ready or not."""
        return [worker for worker in self.workers.values() if worker.serves(job.id)]

    def users(self, worker: Worker, key: str | None = None) -> Iterator[Job]:
        """Jobs that are not over and that did not give up a worker, of one key or of all."""
        for job in list(self.jobs.values()):
            if key in (None, job.key) and worker.serves(job.id):
                yield job

    def wanting(self, key: Key) -> list[Job]:
        """Jobs of a key that are not over."""
        return [job for job in key.jobs.values() if not job.over]

    def check_key(self, key: Key) -> None:
        """Have a key checked by a worker that is ready and that some job uses, unless that is done or under way."""
        if key.checked or key.checker is not None:
            return
        jobs = self.wanting(key)
        ready = next((w for w in self.workers.values() if any(w.usable(job.id, key.id) for job in jobs)), None)
        if ready is not None:
            key.checker, key.check_deadline = ready.id, self.now + key.check_patience(self.settings)
            self.emit(Check(ready.id, key.id, ready.slot(key.id).epoch))
            for job in jobs:
                self.wait(job, f"the key's check on {ready.id}")

    def loading(self, job: Job) -> None:
        """Notify a job how many workers have its key, until all have it."""
        workers = self.live(job) if job.listens else []
        ready = sum(worker.slot(job.key).ready for worker in workers)
        if ready < len(workers):
            self.wait(job, f"the key, loaded on {ready} of {count_of(len(workers), 'prover')}")
