"""A job under way: its partitions by stage, what each of them waits for, its barrier, and what its sink is told."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_not
from typing import Any, NamedTuple

from actors import patience
from actors.protocol import Place
from cluster.record.report import PartitionReport, Report, WorkerReport
from cluster.record.status import status_view
from cluster.record.timeline import Session
from cluster.scheduler.rules import SAFE, Stage
from cluster.scheduler.workers import Worker
from distprove.system import Partition, PartitionId, PartitionProof, ProofSystem, StepTimes

Barrier = tuple[dict[str, bytes], bytes]
"""Commitments by name, and the challenge that was drawn from them."""


class Progress(NamedTuple):
    """An event for the live display. `done`, `failed` and `total` count partitions of the job."""

    event: str
    """A journal event; "stage", ten times a second at most, when partitions moved; "waiting" before there is work, with
    the reason in `detail`; or "chosen", once, with the executor and the reason in `detail`."""
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


@dataclass
class PartitionState:
    """State of a partition."""

    id: PartitionId
    planned: Partition
    report: PartitionReport
    stage: Stage = Stage.WAITING
    missing: int = 0
    """Number of partitions that it needs and of which no proof is there."""
    made_of: tuple[PartitionProof, ...] = ()
    """Proofs of these that its last order has."""
    patient: bool = False
    """Whether it waits until these are on disk: it failed with proofs that were not verified."""
    holds: bool = False
    """Whether its proof is verified, but one of its children's proofs is not on disk yet."""
    place: Place | None = None
    """The place of its last order."""
    commitment: bytes | None = None
    worker: str | None = None
    """The worker that has it, or that made its proof or commitment."""
    avoid: set[str] = field(default_factory=set)
    """Provers whose proof of it was bad, or that failed at it."""
    failed_on: list[str] = field(default_factory=list)
    """Workers that died of it, failed at it or gave a bad proof, once for each time: it or they may be to blame."""
    refused: dict[str, str] = field(default_factory=dict)
    """Kind of error with which each node refused its input, by node."""
    too_large: list[str] = field(default_factory=list)
    """Kinds of devices that had too little memory for it, once for each time."""
    suspicion: str = ""
    """Reason why its last proof is bad, while the witness is diagnosed."""
    proof: PartitionProof | None = None
    times: StepTimes = field(default_factory=StepTimes)
    attempts: dict[str, int] = field(default_factory=dict)
    """Number of attempts at each stage, for the timeline."""
    charged: int = 0
    """Failures that count against `max_retries`."""

    def credit(self) -> None:
        """Put the proof that holds, and its cost, into the report."""
        report, times = self.report, self.times
        report.worker, report.steps = self.worker, dict(times.seconds)
        report.to_device, report.to_host = times.to_device, times.to_host
        report.memory, report.device_peak = times.memory, times.device_peak


@dataclass(eq=False)
class Job:
    """A job: a plan, and the reports and the session that it fills. Its sink is the loop's business."""

    id: str
    key: str
    """Identity of its key."""
    system: ProofSystem
    plan: Sequence[Partition]
    """Partitions, which name the job."""
    report: Report
    session: Session
    max_retries: int
    rank: int = 0
    """Rank of its priority; 0 is the most urgent."""
    proofs: dict[str, PartitionProof] = field(default_factory=dict)
    """Proofs that are verified and on disk, by name."""
    barrier: Barrier | None = None
    listens: bool = False
    """Whether its sink wants events for the live display."""
    holds_key: bool = False
    """Whether its driver needs the key after the job's end, until it leaves."""
    reports: Sequence[PartitionReport] = ()
    """Reports of the partitions; by default those of the report."""
    workers: dict[str, WorkerReport] = field(default_factory=dict)
    """Reports of provers and synthesisers, by id; jobs that have a report in common share them."""
    ahead: bool = False
    """Whether it proves nothing, and ends when its key is loaded (`cluster.scheduler.ahead`)."""

    def __post_init__(self) -> None:
        self.reports = self.reports or self.report.partitions
        reports = zip(self.plan, self.reports, strict=True)
        self.partitions = {p.name: PartitionState(PartitionId(self.id, p.name), p, r) for p, r in reports}
        self.at: dict[Stage, OrderedDict[str, PartitionState]] = {stage: OrderedDict() for stage in Stage}
        """Partitions at each stage, in order of arrival: no event costs a walk over the whole job."""
        self.dependents: dict[str, list[PartitionState]] = {}
        """Partitions that need each one, by its name."""
        for name, partition in self.partitions.items():
            for needed in partition.planned.needs:
                self.dependents.setdefault(needed, []).append(partition)
                partition.missing += needed not in self.proofs
            partition.stage = Stage.BLOCKED if partition.missing else Stage.WAITING
            partition.stage = Stage.DONE if name in self.proofs else partition.stage
            self.at[partition.stage][name] = partition
        self.committing = sum(partition.commits for partition in self.plan)
        """Number of partitions that take part in its barrier."""
        self.drawn: Barrier | None = None
        """Its barrier while that is written."""
        self.storing_barrier = False
        self.cold: bool | None = None
        """Whether its key had to be loaded for it; None before that is known."""
        self.crowded = False
        """Whether a partition found too little memory beside other keys."""
        self.over = False
        self.refusals: Counter[str] = Counter()
        """Inputs in a row that a node refused and another one took, by node."""
        self.suspects: list[Worker] = []
        """Workers that it gave up, and whose devices may be at fault: another one has to prove what they could not."""
        self.stranded: float | None = None
        """Time since which it has no worker left; None while it has one."""
        self.remarked = 0
        """Number of the fleet's remarks that it was told of."""
        self.told_due = 0.0
        self.waits = ""
        """What it waits for, as it was last told."""
        self.recent: deque[tuple[float, int]] = deque(maxlen=10_000)
        """Times at which partitions were done, and how many."""

    def move(self, partition: PartitionState, stage: Stage, *, front: bool = False) -> None:
        """Move a partition to another stage, behind all others there, or in front of them."""
        name = partition.id.name
        del self.at[partition.stage][name]
        partition.stage = stage
        self.at[stage][name] = partition
        if front:
            self.at[stage].move_to_end(name, last=False)

    def count(self, *stages: Stage) -> int:
        """Number of partitions at any of these stages."""
        return sum([len(self.at[stage]) for stage in stages])  # a list: a generator takes twice as long

    @property
    def open(self) -> bool:
        """Whether some partition is neither done nor failed."""
        return len(self.at[Stage.DONE]) + len(self.at[Stage.FAILED]) < len(self.partitions)

    def ends(self, stage: Stage) -> bool:
        """Whether no more partitions are to come to `stage`, one of `SAFE`, than are there before those go on: near the
        end of a job, or of a level of its tree, it does not pay to wait for more of them."""
        left = len(self.partitions) - self.count(Stage.BLOCKED, *SAFE[SAFE.index(stage) :])
        return left <= len(self.at[stage])

    def stages(self) -> dict[str, int]:
        """Number of partitions at each stage."""
        return {stage.value: len(partitions) for stage, partitions in self.at.items() if partitions}

    def children(self, partition: PartitionState) -> tuple[PartitionProof, ...]:
        """Proofs of the partitions that this one needs, in its plan's order, as far as they are there."""
        found = (self.proofs.get(name) or self.partitions[name].proof for name in partition.planned.needs)
        return tuple(proof for proof in found if proof is not None)

    def is_sure(self, partition: PartitionState) -> bool:
        """Whether the proofs of all that it needs are verified and on disk."""
        return all(self.partitions[name].stage is Stage.DONE for name in partition.planned.needs)

    def is_unsure(self, partition: PartitionState) -> bool:
        """Whether its last order has proofs that are not known to be good, so that a failure may be theirs."""
        return bool(partition.made_of) and not self.is_sure(partition)

    def may_begin(self, partition: PartitionState) -> bool:
        """Whether the proofs that it needs are there, verified if it is `patient`."""
        return not partition.missing and (not partition.patient or self.is_sure(partition))

    def is_stale(self, partition: PartitionState) -> bool:
        """Whether the proofs that its last order has are not those of the partitions that it needs any more."""
        return bool(partition.missing) or any(map(is_not, self.children(partition), partition.made_of))

    # -- reports ----------------------------------------------------------------------------------------------------

    def add_worker(self, worker: Worker) -> None:
        """Add the reports of a worker and its synthesisers, unless they are there."""
        if worker.id not in self.workers:
            handle = worker.handle
            new = [WorkerReport(worker.id, "prover", handle.node)]
            new += [WorkerReport(name, "synthesiser", handle.node) for name in handle.synthesisers]
            self.workers.update((report.id, report) for report in new)

    def progress(
        self,
        event: str,
        partition: PartitionState | None = None,
        worker: str | None = None,
        detail: str | None = None,
    ) -> Progress:
        """An event for the live display."""
        gpus: Iterable[Any] = self.workers[worker].facts.get("gpus", ()) if worker is not None else ()
        return Progress(
            event,
            partition.id.name if partition else None,
            worker,
            partition.stage.value if partition else None,
            self.count(Stage.DONE),
            self.count(Stage.FAILED),
            len(self.partitions),
            detail,
            self.stages() if event == "stage" else None,
            tuple(map(str, gpus)),
        )

    def view(self, workers: Mapping[str, Worker], now: float) -> dict[str, Any]:
        """Content of status.json while the job is under way; `now` in seconds since the epoch."""
        recent = sum(count for done, count in self.recent if done > now - patience.RATE)
        begun: dict[str, list[list[str]]] = {}
        for worker in workers.values():
            slot = worker.slots.get(self.key)
            for (job, name), stage, who in slot.under_way if slot is not None else ():
                if job == self.id:
                    begun.setdefault(who, []).append([name, stage])
        self.report.workers = list(self.workers.values())
        rate = recent / min(patience.RATE, max(1.0, now - self.report.started))
        return status_view(self.report, self.stages(), rate=rate, tasks=begun)
