"""The state of a job under way, and the records that are kept of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cluster.dispatch.partitions import Partitions, PartitionState, Stage
from cluster.dispatch.progress import Progress, Teller
from cluster.dispatch.workers import Workers, WorkerState
from cluster.executor.base import Executor
from cluster.hangs import Watch
from cluster.record.report import Report
from cluster.record.run import Barrier
from cluster.record.timeline import Session
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, Partition, PartitionProof, ProofSystem


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
