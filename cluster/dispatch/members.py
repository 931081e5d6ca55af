"""The provers and synthesisers of a job, as the dispatcher sees them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cluster.executor.base import Role, Worker
from cluster.record.report import WorkerReport


@dataclass
class Member:
    """A prover or a synthesiser."""

    worker: Worker
    """The one it is, or is of."""
    report: WorkerReport
    deadline: float
    """Time by which it must be ready, on the monotonic clock."""
    ready: bool = False
    retired: bool = False
    strikes: int = 0
    tasks: dict[str, None] = field(default_factory=dict)
    """Partitions it was handed, oldest first."""
    under_way: list[tuple[str, str, str]] = field(default_factory=list)
    """The partitions among `tasks` that it has begun: name, stage, and the prover or synthesiser at work."""
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
    def proves(self) -> bool:
        return self.report.role == Role.PROVER.value

    def answered_for(self, count: int) -> None:
        """Note that it told, just now, the results of so many orders."""
        now = time.monotonic()
        if count:
            rate = count / max(1e-3, now - self.counted)
            self.rate = (self.rate + rate) / 2 if self.rate else rate
        self.counted = now

    def at_work_on(self) -> str | None:
        """The partition that its process was at, as far as we know."""
        begun = [name for name, stage, _ in self.under_way if name in self.tasks and stage in _AT_PROVER]
        return begun[0] if begun else next(iter(self.tasks), None)


_AT_PROVER = ("committing", "proving")


class Members:
    """All of a job: `provers`, one of each worker, and `makers`, their synthesisers."""

    def __init__(self) -> None:
        self.provers: dict[str, Member] = {}
        self.makers: dict[str, Member] = {}

    def add(self, worker: Worker, deadline: float) -> None:
        """A worker's prover and synthesisers."""

        def member(name: str, role: Role) -> Member:
            return Member(worker, WorkerReport(name, role.value, worker.node), deadline)

        self.provers[worker.id] = member(worker.id, Role.PROVER)
        self.makers |= {name: member(name, Role.SYNTHESISER) for name in worker.synthesisers}

    def live(self) -> list[Member]:
        """Provers that were not given up."""
        return [member for member in self.provers.values() if not member.retired]

    def makers_of(self, worker: Worker) -> list[Member]:
        """Synthesisers of a worker that were not given up."""
        return [maker for maker in self.makers.values() if maker.worker is worker and not maker.retired]

    def reports(self) -> list[WorkerReport]:
        return [member.report for member in (*self.provers.values(), *self.makers.values())]
