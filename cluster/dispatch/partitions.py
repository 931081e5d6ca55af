"""The partitions of a job, each at one stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cluster.record.report import PartitionReport
from distprove.system import Partition, PartitionProof, StepTimes


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

    def move(self, partition: PartitionState, stage: Stage) -> None:
        """Move a partition to another stage."""
        name = partition.planned.name
        del self.at[partition.stage][name]
        partition.stage = stage
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
