"""The spans of a run's sessions (which worker did what, and when), and timeline.json.

A session is one stretch of work on a run, from start or resume to its end. timeline.json holds them all, oldest first:

    {"format": "distprove.timeline", "version": 4, "sessions": [session...]}
    session = {"began": epoch, "wall_seconds", "status", "executor", "workers": [worker...], "spans": [span...]}
    worker = {"id", "role", "node", "device", "kind", "gpus": [id...]}
    span = {"worker", "partition", "stage", "start", "end", "attempt", "outcome", "inner": {step: seconds},
            "steps": [[step, start, end]...], "on_device": use | null}
    use = {"by": "events" | "queue", "stretches": [[start, end]...]}

Times are seconds, those of spans and steps since the session began. `inner` adds up to what the partition cost; `steps`
say when each step passed, also where that was hidden behind another partition. `on_device` is when the device was at
the partition's work: by events in its stream, or by its queue as the host saw it.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from actors.spans import span_json, with_attempt
from cluster.record.report import WorkerReport
from distprove.errors import FormatError, UsageError
from distprove.formats import jsontext
from distprove.formats.folder import Folder
from distprove.formats.plain_data import read
from distprove.system import Step
from kernels.interface.busy import DeviceTime

FORMAT = "distprove.timeline"
VERSION = 4
FILE = "timeline.json"
MAX_FILE = 1 << 28


class Span(NamedTuple):
    """One stage of one partition on one worker. Seconds since the epoch, by the clock of the worker's machine."""

    worker: str
    partition: str | None
    stage: str
    start: float
    end: float
    inner: Mapping[str, float] = MappingProxyType({})
    """Seconds of the named steps inside the stage, in order; without what passed behind another partition."""
    outcome: str = "ok"
    """"ok", or the kind of error it ended with."""
    steps: tuple[Step, ...] = ()
    """Times of the steps, where they are known; they may begin before the span does."""
    on_device: DeviceTime | None = None
    """Times at which the device worked on the partition; None where it is not known."""
    attempt: int = 0
    """Number of the attempt at this stage of this partition, from 1; 0 for what has no partition."""


@dataclass(frozen=True)
class Place:
    """Place of a worker: its node and devices."""

    id: str
    role: str
    node: str
    device: str = ""
    kind: str = ""
    """"cuda", "cpu", or "" when it never got ready."""
    gpus: tuple[str, ...] = ()
    """GPUs of the worker's node that it uses."""


def place_of(worker: WorkerReport) -> Place:
    """Place of a worker, for the timeline."""
    facts = worker.facts
    return Place(
        worker.id,
        worker.role,
        str(facts.get("node", worker.node)),
        str(facts.get("device", "")),
        str(facts.get("kind", "")),
        tuple(str(gpu) for gpu in facts.get("gpus", ())),
    )


@dataclass
class Session:
    """Spans in the order in which they were reported, and where they passed."""

    began: float = field(default_factory=time.time)
    spans: list[Span] = field(default_factory=list)
    wall_seconds: float = 0.0
    status: str = "running"
    executor: str = ""
    workers: list[Place] = field(default_factory=list)
    written: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """JSON of spans that are not among `spans`: a job under way has no other use for them."""
    busy_by: defaultdict[str, float] = field(
        default_factory=lambda: defaultdict(float), init=False, repr=False, compare=False
    )
    """Seconds that each worker spent on partitions, by those spans."""

    def add(self, worker: str, seconds: float, written: str) -> None:
        """Add a span of a partition that is already JSON (`actors.spans.with_attempt`)."""
        self.written.append(written)
        self.busy_by[worker] += seconds

    def busy(self) -> dict[str, float]:
        """Seconds that each worker spent on partitions."""
        seconds = self.busy_by.copy()
        for span in self.spans:
            if span.partition is not None:
                seconds[span.worker] += span.end - span.start
        return seconds

    @property
    def seconds(self) -> float:
        """Length of the session, or until the end of its last span if that is later; above 0."""
        return max([self.wall_seconds, 1e-6, *(span.end - self.began for span in self.spans)])

    def to_json(self) -> str:
        """The session's part of timeline.json, one line for each span."""
        facts = {
            "began": self.began,
            "wall_seconds": round(self.wall_seconds, 6),
            "status": self.status,
            "executor": self.executor,
            "workers": [vars(worker) for worker in self.workers],
        }
        spans = ",\n".join([*(span_text(span, self.began) for span in self.spans), *self.written])
        return f'{json.dumps(facts)[:-1]}, "spans": [\n{spans}\n]}}'


def span_text(span: Span, began: float) -> str:
    """A span as JSON, with times since the session began."""
    written = span_json(
        *(span.worker, span.partition, span.stage, span.start, span.end, span.outcome, began),
        *(span.inner, span.steps, span.on_device),
    )
    return with_attempt(written, span.attempt)


def timeline_json(sessions: Sequence[Session]) -> str:
    """The content of timeline.json."""
    parts = ",\n".join(session.to_json() for session in sessions)
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "sessions": [\n{parts}\n]}}\n'


def read_timeline(run: Path) -> list[Session]:
    """The sessions in a run's timeline.json, oldest first. Raises InputError or FormatError."""
    path = run / FILE
    with Folder.open(run) as folder:
        record = jsontext.read_in(folder, FILE, MAX_FILE)
    try:
        if (record["format"], record["version"]) != (FORMAT, VERSION):
            raise ValueError
        return [_session(item) for item in record["sessions"]]
    except (KeyError, TypeError, ValueError, AttributeError, UsageError):
        raise FormatError(f"{path}: not a timeline that this distprove reads") from None


def _session(record: dict[str, Any]) -> Session:
    """Raises what reading wrong data raises."""
    began = _finite(record["began"])
    spans = []
    for item in record["spans"]:
        spans.append(
            Span(
                str(item["worker"]),
                None if item["partition"] is None else str(item["partition"]),
                str(item["stage"]),
                began + _finite(item["start"]),
                began + _finite(item["end"]),
                {str(name): _finite(seconds) for name, seconds in item["inner"].items()},
                str(item["outcome"]),
                tuple((str(n), began + _finite(start), began + _finite(end)) for n, start, end in item["steps"]),
                _device_time(item["on_device"], began),
                int(item["attempt"]),
            )
        )
    workers = [read(Place, worker, "a worker", strict=False) for worker in record["workers"]]
    return Session(
        began, spans, _finite(record["wall_seconds"]), str(record["status"]), str(record["executor"]), workers
    )


def _device_time(record: Any, began: float) -> DeviceTime | None:
    if record is None:
        return None
    stretches = tuple((began + _finite(start), began + _finite(end)) for start, end in record["stretches"])
    return DeviceTime(stretches, record["by"] == "events")


def _finite(value: Any) -> float:
    if not isinstance(value, (int, float)):  # float() takes strings, too, of any size
        raise ValueError("not a time")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a time")
    return number
