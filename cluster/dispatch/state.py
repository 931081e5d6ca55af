"""The state of a job under way, and the records that are kept of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cluster.dispatch.members import Member, Members
from cluster.dispatch.partitions import Item, Items, Stage
from cluster.dispatch.progress import Progress, Teller
from cluster.executor.base import Executor
from cluster.hangs import Watch
from cluster.record.report import Report
from cluster.record.run import Barrier, Run
from cluster.record.timeline import Session
from distprove.settings import ExecutorSettings
from distprove.system import ChecksKey, Partition, PartitionProof, ProofSystem


@dataclass
class State:
    """Shared by all that the dispatcher consists of."""

    system: ProofSystem
    plan: list[Partition]
    proofs: dict[str, PartitionProof]
    """Proofs that are verified and on disk, by name."""
    barrier: Barrier | None
    executor: Executor
    run: Run
    settings: ExecutorSettings
    report: Report
    session: Session
    progress: Callable[[Progress], None] | None
    checker: str | None = None
    """The prover that is checking the key."""

    def __post_init__(self) -> None:
        self.items = Items(self.plan, self.report.partitions, self.proofs)
        self.members = Members()
        self.tell = Teller(self.items, self.members, self.report, self.progress)
        self.key_checked = not isinstance(self.system, ChecksKey)
        self.refusals: Counter[str] = Counter()
        """Inputs that a node refused in a row and another one took, by node."""
        self.watch = Watch(self.settings.hang_timeout, self.settings.in_flight)

    def deadline(self) -> float:
        """Time by which a worker that starts now must be ready, on the monotonic clock."""
        return time.monotonic() + self.settings.start_timeout

    def note(self, event: str, member: Member, reason: str) -> None:
        """Something befell a prover or synthesiser."""
        self.run.note(event, worker=member.report.id, reason=reason)
        self.tell(event, None, member, reason)

    def fail(self, item: Item, reason: str, kind: str | None = None) -> None:
        """Give up a partition."""
        self.items.move(item, Stage.FAILED)
        item.report.status, item.report.error, item.report.error_kind = "failed", reason, kind
        self.run.note("failed", partition=item.partition.name, reason=reason)
        self.tell("failed", item, None, reason)
