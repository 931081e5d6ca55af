"""The workers of a job and their synthesisers, as the dispatcher sees them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from cluster.executor.base import Role, WorkerHandle
from cluster.record.report import WorkerReport


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
    def device(self) -> tuple[str, ...]:
        """What it proves on; workers that share a device name the same."""
        return (self.handle.node_id or self.handle.node, *self.report.facts.get("gpus", ()))

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

        def state(name: str, role: Role) -> WorkerState:
            return WorkerState(handle, WorkerReport(name, role.value, handle.node), deadline)

        self.by_id[handle.id] = state(handle.id, Role.PROVER)
        self.synthesisers |= {name: state(name, Role.SYNTHESISER) for name in handle.synthesisers}

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
