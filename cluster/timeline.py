"""When what happened where: the spans of a run, for timeline.json."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Span:
    """One phase of one partition on one worker. Seconds since the epoch, by the clock of the worker's machine."""

    worker: str
    partition: str | None
    phase: str
    start: float
    end: float
    inner: dict[str, float] = field(default_factory=dict)
    """Seconds of the named steps inside the phase, in order."""
    outcome: str = "ok"


@dataclass
class Timeline:
    """Spans in the order in which they were reported."""

    began: float = field(default_factory=time.time)
    spans: list[Span] = field(default_factory=list)

    def add(self, span: Span) -> None:
        self.spans.append(span)

    def busy(self, worker: str) -> float:
        """Seconds a worker spent on partitions."""
        return sum(s.end - s.start for s in self.spans if s.worker == worker and s.partition is not None)

    def to_record(self) -> dict[str, Any]:
        """Plain data for timeline.json; times relative to the beginning of the session, in seconds."""
        spans = [
            {
                "worker": s.worker,
                "partition": s.partition,
                "phase": s.phase,
                "start": round(s.start - self.began, 6),
                "end": round(s.end - self.began, 6),
                "inner": {name: round(seconds, 6) for name, seconds in s.inner.items()},
                "outcome": s.outcome,
            }
            for s in self.spans
        ]
        return {"format": "distprove.timeline", "version": 1, "began": self.began, "spans": spans}
