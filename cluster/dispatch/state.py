"""The state of a job under way: its partitions, each at one stage, its workers with their synthesisers, and what the
live display and status.json are told of them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from cluster.executor.base import Executor, WorkerHandle
from cluster.hangs import Watch
from cluster.record.report import PartitionReport, Report, WorkerReport
from cluster.record.run import Barrier
from cluster.record.status import status_view
from cluster.record.timeline import Session
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, Partition, PartitionProof, ProofSystem, StepTimes

TELL = 0.1
"""Seconds between two events "stage", at least."""

RECENT = 60.0
"""Seconds over which the rate in status.json is taken."""


# -- partitions -------------------------------------------------------------------------------------------------


class Stage(str, Enum):
    WAITING = "waiting"
    HANDED = "handed"
    SYNTHESISING = "synthesising"
    READY = "ready"
    COMMITTING = "committing"
    COMMITTED = "committed"
    PROVING = "proving"
    VERIFYING = "verifying"
    KEEPING = "keeping"
    DIAGNOSING = "diagnosing"
    DONE = "done"
    FAILED = "failed"


PREPARING = (Stage.HANDED, Stage.SYNTHESISING, Stage.READY, Stage.DIAGNOSING)
SAFE = (Stage.VERIFYING, Stage.KEEPING, Stage.DONE, Stage.FAILED)
"""Stages that need no worker."""
OVER = (Stage.DONE, Stage.FAILED)


@dataclass
class PartitionState:
    """What the dispatcher knows of a partition."""

    planned: Partition
    report: PartitionReport
    stage: Stage = Stage.WAITING
    commitment: bytes | None = None
    home: str | None = None
    """The worker it is with, or whose proof or commitment of it we have."""
    avoid: set[str] = field(default_factory=set)
    """Provers whose proof of it was bad, or that came to nothing with it."""
    failed_on: list[str] = field(default_factory=list)
    """Workers that died of it, came to a fault or gave a bad proof, once for each time: it or they may be to blame."""
    refused: dict[str, str] = field(default_factory=dict)
    """The kind of error with which each node refused its input, by node."""
    too_large: list[str] = field(default_factory=list)
    """Devices, by what they are, that had too little memory for it, once for each time."""
    suspicion: str = ""
    """Reason why its last proof is held to be bad, while that is diagnosed."""
    proof: PartitionProof | None = None
    times: StepTimes = field(default_factory=StepTimes)
    attempts: dict[str, int] = field(default_factory=dict)
    """Number of attempts at each stage, for the timeline."""
    charged: int = 0
    """Attempts that failed and count against `max_retries`."""

    def credit(self) -> None:
        """Tell in its report whose proof it is that holds, and what that took."""
        report, times = self.report, self.times
        report.worker, report.steps = self.home, dict(times.seconds)
        report.to_device, report.to_host = times.to_device, times.to_host
        report.memory, report.device_peak = times.memory, times.device_peak


class Partitions(dict[str, PartitionState]):
    """All partitions by name, and by stage."""

    def __init__(self, plan: list[Partition], reports: list[PartitionReport], done: dict[str, PartitionProof]) -> None:
        super().__init__({p.name: PartitionState(p, r) for p, r in zip(plan, reports, strict=True)})
        self.at: dict[Stage, dict[str, PartitionState]] = {stage: {} for stage in Stage}
        """The partitions at each stage, in order of arrival: no event costs a walk over the whole job."""
        for name, partition in self.items():
            partition.stage = Stage.DONE if name in done else Stage.WAITING
            self.at[partition.stage][name] = partition

    def add(self, planned: Partition, report: PartitionReport) -> None:
        """Add a partition, which waits."""
        partition = PartitionState(planned, report)
        self[planned.name] = self.at[Stage.WAITING][planned.name] = partition

    def move(self, partition: PartitionState, stage: Stage, *, first: bool = False) -> None:
        """Move a partition to another stage, behind all that are there, or as the `first`."""
        name = partition.planned.name
        del self.at[partition.stage][name]
        partition.stage = stage
        self.at[stage] = {name: partition, **self.at[stage]} if first else self.at[stage]
        self.at[stage][name] = partition

    def count(self, *stages: Stage) -> int:
        """Partitions at any of these stages."""
        return sum(len(self.at[stage]) for stage in stages)

    @property
    def open(self) -> bool:
        """Whether some partition is neither done nor failed."""
        return self.count(*OVER) < len(self)

    def ends(self, stage: Stage) -> bool:
        """Whether no more partitions are to come to `stage`, one of `SAFE`, than are there: near the end of a job it
        does not pay to wait for more of them."""
        return len(self) - self.count(*SAFE[SAFE.index(stage) :]) <= len(self.at[stage])

    def stages(self) -> dict[str, int]:
        """Number of partitions at each stage."""
        return {stage.value: len(partitions) for stage, partitions in self.at.items() if partitions}


# -- workers ----------------------------------------------------------------------------------------------------


@dataclass
class WorkerState:
    """What the dispatcher knows of a worker, or of one of its synthesisers."""

    handle: WorkerHandle
    """The executor's name for the worker."""
    report: WorkerReport
    deadline: float
    """Time by which it must be ready, on the monotonic clock."""
    ready: bool = False
    retired: bool = False
    strikes: int = 0
    """Failures in a row, of which it is not known whether it is to blame."""
    blame: float = 0.0
    """Failures at partitions that another worker then proved, less what its good proofs make up for."""
    hangs: int = 0
    """Number of times that it was ended because it hung."""
    failed_at: set[str] = field(default_factory=set)
    """Partitions at which it hung, came to a fault or gave a bad proof. A death alone says nothing of its device."""
    handed: dict[str, None] = field(default_factory=dict)
    """Partitions it was handed, oldest first."""
    under_way: list[tuple[str, str, str]] = field(default_factory=list)
    """The partitions among `handed` that it has begun: name, stage, and the worker or synthesiser at work."""
    rate: float = 0.0
    """Orders a second that it took to their end, lately."""
    counted: float = 0.0
    """Time at which its last batch came, on the monotonic clock."""
    asked_back: bool = False
    """Whether it was asked to return what it has not begun, and has not answered."""

    @property
    def usable(self) -> bool:
        return self.ready and not self.retired

    @property
    def doubtful(self) -> bool:
        """Whether it failed of late. It has one partition at a time then, and one behind: others go with the next."""
        return bool(self.strikes or self.blame > 1)

    @property
    def node(self) -> str:
        """The name of its node that no other has."""
        return self.handle.node_id or self.handle.node

    @property
    def device(self) -> tuple[str, ...]:
        """What it proves on; workers that share a device name the same."""
        return (self.node, *self.report.facts.get("gpus", ()))

    @property
    def proves(self) -> bool:
        return self.report.role == "prover"

    def answered_for(self, count: int) -> None:
        """Note that it told, just now, the results of so many orders."""
        now = time.monotonic()
        if count:
            rate = count / max(1e-3, now - self.counted)
            self.rate = (self.rate + rate) / 2 if self.rate else rate
        self.counted = now

    def at_work_on(self) -> str | None:
        """The partition that its process was at, as far as we know."""
        begun = [name for name, stage, _ in self.under_way if name in self.handed and stage in _AT_PROVER]
        return begun[0] if begun else next(iter(self.handed), None)


_AT_PROVER = ("committing", "proving")


class Workers:
    """All workers of a job, `by_id`, and their `synthesisers`, by name."""

    def __init__(self) -> None:
        self.by_id: dict[str, WorkerState] = {}
        self.synthesisers: dict[str, WorkerState] = {}

    def add(self, handle: WorkerHandle, deadline: float) -> None:
        """Add a worker and its synthesisers."""

        def state(name: str, role: str) -> WorkerState:
            return WorkerState(handle, WorkerReport(name, role, handle.node), deadline)

        self.by_id[handle.id] = state(handle.id, "prover")
        self.synthesisers |= {name: state(name, "synthesiser") for name in handle.synthesisers}

    def live(self) -> list[WorkerState]:
        """Workers that were not given up."""
        return [worker for worker in self.by_id.values() if not worker.retired]

    def synthesisers_of(self, handle: WorkerHandle) -> list[WorkerState]:
        """Synthesisers of a worker that were not given up."""
        return [
            synthesiser
            for synthesiser in self.synthesisers.values()
            if synthesiser.handle is handle and not synthesiser.retired
        ]

    def reports(self) -> list[WorkerReport]:
        return [worker.report for worker in (*self.by_id.values(), *self.synthesisers.values())]


# -- what is told -----------------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """Something happened; for the live display. `done`, `failed` and `total` count partitions."""

    event: str
    """A journal event; "stage", ten times a second at most: partitions moved from one stage to another; "waiting"
    before there is work: `detail` says for what; or "chosen", once: `detail` says which executor was, and why."""
    partition: str | None
    worker: str | None
    stage: str | None
    done: int
    failed: int
    total: int
    detail: str | None = None
    stages: Mapping[str, int] | None = None
    """Number of partitions at each stage. Set for the event "stage" only."""
    gpus: tuple[str, ...] = ()
    """GPUs of the worker."""


class Teller:
    """Tells `progress` what happens, and what the job is at whoever asks."""

    def __init__(
        self, partitions: Partitions, workers: Workers, report: Report, progress: Callable[[Progress], None] | None
    ) -> None:
        self._partitions = partitions
        self._workers = workers
        self._report = report
        self._progress = progress
        self._due = 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=10_000)
        """Times at which partitions were done, and how many."""

    def __call__(
        self,
        event: str,
        partition: PartitionState | None = None,
        worker: WorkerState | None = None,
        detail: str | None = None,
    ) -> None:
        if self._progress is None:
            return
        self._progress(
            Progress(
                event,
                partition.planned.name if partition else None,
                worker.report.id if worker else None,
                partition.stage.value if partition else None,
                self._partitions.count(Stage.DONE),
                self._partitions.count(Stage.FAILED),
                len(self._partitions),
                detail,
                self._partitions.stages() if event == "stage" else None,
                tuple(map(str, worker.report.facts.get("gpus", ()))) if worker else (),
            )
        )

    def wait(self, what: str) -> None:
        """Tell what the job waits for before there is work."""
        self("waiting", detail=what)

    def loading(self) -> None:
        """Tell how many workers have the key, of those that there are, until all have it."""
        workers = self._workers.by_id.values()
        ready = sum(worker.ready for worker in workers)
        if ready < len(workers):
            self.wait(f"the key, loaded on {ready} of {len(workers)} provers")

    def moved(self) -> None:
        """Report the number of partitions at each stage, ten times a second at most: moves come by the thousand."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + TELL
            self("stage")

    def done(self, count: int) -> None:
        """Note that so many partitions were proven, verified and written to disk just now."""
        self._recent.append((time.time(), count))

    def view(self) -> dict[str, Any]:
        """Content of status.json while the dispatcher runs."""
        now = time.time()
        recent = sum(count for done, count in self._recent if done > now - RECENT)
        begun: dict[str, list[list[str]]] = {}
        for worker in self._workers.by_id.values():
            for name, stage, who in worker.under_way:
                if name in worker.handed:
                    begun.setdefault(who, []).append([name, stage])
        rate = recent / min(RECENT, max(1.0, now - self._report.started))
        return status_view(self._report, self._partitions.stages(), rate=rate, tasks=begun)


# -- all together -----------------------------------------------------------------------------------------------


class Keeps(Protocol):
    """Keeps what comes of a job, as `cluster.record.run.Run` does."""

    def note(self, event: str, *, sync: bool = True, **facts: Any) -> None: ...

    def note_all(self, event: str, each: Iterable[str], *, sync: bool = True) -> None: ...

    def store(self, proofs: Sequence[PartitionProof]) -> None: ...

    def store_barrier(self, commitments: dict[str, bytes], challenge: bytes) -> None: ...


@dataclass
class State:
    """The state of a job, shared by all parts of the dispatcher."""

    system: ProofSystem
    plan: list[Partition]
    proofs: dict[str, PartitionProof]
    """Proofs that are verified and on disk, by name."""
    barrier: Barrier | None
    executor: Executor
    run: Keeps
    settings: ExecutorSettings
    report: Report
    session: Session
    progress: Callable[[Progress], None] | None
    checker: str | None = None
    """The worker that is checking the key."""
    suspects: list[WorkerState] = field(default_factory=list)
    """Workers that were given up, and whose devices may be at fault: another worker would have to prove what they could
    not."""
    remarked: int = 0
    """Number of the executor's remarks that were told."""
    stranded: float | None = None
    """Time since which no worker is left, on the monotonic clock; None while there is one."""
    look_due: float = 0.0
    """Time of the next look for workers that are late or hang, on the monotonic clock."""

    def __post_init__(self) -> None:
        self.partitions = Partitions(self.plan, self.report.partitions, self.proofs)
        self.workers = Workers()
        self.tell = Teller(self.partitions, self.workers, self.report, self.progress)
        self.key_checked = not isinstance(self.system, ChecksKey)
        self.refusals: Counter[str] = Counter()
        """Inputs that a node refused in a row and another one took, by node."""
        self.watch = Watch(self.settings.hang_timeout, self.settings.in_flight)

    def deadline(self) -> float:
        """Time by which a worker that starts now must be ready, on the monotonic clock."""
        return time.monotonic() + self.settings.start_timeout

    def note(self, event: str, worker: WorkerState, reason: str) -> None:
        """Note and tell what befell a worker or synthesiser."""
        self.run.note(event, worker=worker.report.id, reason=reason)
        self.tell(event, None, worker, reason)

    def fail(self, partition: PartitionState, reason: str, kind: str | None = None) -> None:
        """Give up a partition."""
        self.partitions.move(partition, Stage.FAILED)
        partition.report.status, partition.report.error, partition.report.error_kind = "failed", reason, kind
        self.run.note("failed", partition=partition.planned.name, reason=reason)
        self.tell("failed", partition, None, reason)
