"""Tells of a job under way: to the live display, and in status.json."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cluster.dispatch.partitions import Partitions, PartitionState, Stage
from cluster.dispatch.workers import Workers, WorkerState
from cluster.record.report import Report
from cluster.record.status import status_view

TELL = 0.1
"""Seconds between two events "stage", at least."""

RECENT = 60.0
"""Seconds over which the rate in status.json is taken."""


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
