"""A run's timeline in the Trace Event Format, which Perfetto and Chrome's tracing page open.

Google, "Trace Event Format" (2016): complete events (X), counters (C), instants (i) and metadata (M), in microseconds.
A node is a process. A worker is a thread with its spans; the steps of a prover have threads of their own beside it, one
for each partition in flight, because they begin before their span does while another partition computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cluster.record.analysis import devices, witnesses_in_flight
from cluster.record.nodestory import NodeStory
from cluster.record.story import Story
from cluster.record.timeline import Session, Span

Event = dict[str, Any]


class _Tracks:
    """Numbers for processes and threads, and the metadata that names them."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self.events: list[Event] = []

    def process(self, name: str) -> int:
        if name not in self._processes:
            self._processes[name] = number = len(self._processes) + 1
            self.events.append({"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": name}})
        return self._processes[name]

    def thread(self, process: str, name: str) -> dict[str, int]:
        pid = self.process(process)
        if (pid, name) not in self._threads:
            self._threads[pid, name] = number = len(self._threads) + 1
            self.events.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": number, "args": {"name": name}})
        return {"pid": pid, "tid": self._threads[pid, name]}


class _Lines:
    """Keeps apart what overlaps on one worker: a task that failed may count from when it was handed over."""

    def __init__(self) -> None:
        self._free: dict[str, list[float]] = {}

    def take(self, worker: str, start: float, end: float) -> int:
        """The first line on which nothing is left at `start`. Spans come in the order of their starts."""
        free = self._free.setdefault(worker, [])
        line = next((line for line, since in enumerate(free) if since <= start), len(free))
        free[line : line + 1] = [end]
        return line


def chrome_trace(story: Story) -> dict[str, Any]:
    """The whole run; its first session begins at 0."""
    tracks = _Tracks()
    origin = min((session.began for session in story.sessions), default=0.0)
    events = [event for session in story.sessions for event in _session(session, origin, tracks)]
    if story.sessions:
        last = story.sessions[-1]
        sizes = story.witness_bytes
        for level in witnesses_in_flight(last, sizes):
            values = {"witnesses": level.count}
            events.append(_counter("witnesses in flight", level.time - origin, tracks.process("driver"), values))
        for record in story.report.get("governors", ()):
            events += _governor(NodeStory.of(record), last.began - origin, tracks)
        for event in story.trouble:
            where = tracks.thread("driver", "events")
            args = {key: str(event[key]) for key in ("partition", "worker", "reason") if event.get(key)}
            events.append(_instant(str(event["event"]), event["time"] - origin, where, args))
    timed = sorted(events, key=lambda e: (e["ts"], -e.get("dur", 0)))
    return {"displayTimeUnit": "ms", "traceEvents": [*tracks.events, *timed], "otherData": {"run": story.name}}


def _session(session: Session, origin: float, tracks: _Tracks) -> Iterator[Event]:
    nodes = {place.id: place.node or "local" for place in session.workers}
    lines, flights = _Lines(), _Lines()
    for span in sorted(session.spans, key=lambda s: s.start):
        node = nodes.get(span.worker, "driver")
        name = f"{span.partition} {span.stage}" if span.partition is not None else span.stage
        args: dict[str, Any] = {"outcome": span.outcome, "attempt": span.attempt}
        line = lines.take(span.worker, span.start, span.end)
        where = tracks.thread(node, f"{span.worker} ({line + 1})" if line else span.worker)
        yield _complete(name, span.stage, span.start - origin, span.end - origin, where, args)
    for span in sorted((s for s in session.spans if s.steps), key=_first):
        line = flights.take(span.worker, _first(span), _last(span))
        where = tracks.thread(nodes.get(span.worker, "driver"), f"{span.worker} in flight {line + 1}")
        yield _complete(f"{span.partition}", "in flight", _first(span) - origin, _last(span) - origin, where, {})
        for step, start, end in span.steps:
            yield _complete(step, "step", start - origin, end - origin, where, {})
    for use in devices(session):
        where = tracks.thread("devices", use.name)
        for start, end in use.busy:
            seen = {"seen by": "events" if use.by_events else "queue"}
            yield _complete("busy", "device", start - origin, end - origin, where, seen)


def _first(span: Span) -> float:
    return min([span.start, *(start for _, start, _ in span.steps)])


def _last(span: Span) -> float:
    return max([span.end, *(end for _, _, end in span.steps)])


def _governor(node: NodeStory, offset: float, tracks: _Tracks) -> Iterator[Event]:
    for sample in node.samples:
        pid, at = tracks.process(node.node), sample.time + offset
        measured = ("memory used", sample.memory_used), ("memory leased", sample.memory_leased)
        for name, value in (*measured, ("processors busy", sample.cpu)):
            if value is not None:
                yield _counter(name, at, pid, {"value": value})
        if sample.leases:
            yield _counter("leases", at, pid, sample.leases)
        if sample.queue:
            yield _counter("queue", at, pid, sample.queue)


def _complete(name: str, category: str, start: float, end: float, where: dict[str, int], args: Event) -> Event:
    begun, ended = _micro(start), _micro(max(start, end))
    return {"name": name, "cat": category, "ph": "X", "ts": begun, "dur": ended - begun, **where, "args": args}


def _instant(name: str, at: float, where: dict[str, int], args: Event) -> Event:
    return {"name": name, "cat": "event", "ph": "i", "s": "p", "ts": _micro(at), **where, "args": args}


def _counter(name: str, at: float, pid: int, values: Mapping[str, float]) -> Event:
    return {"name": name, "ph": "C", "ts": _micro(at), "pid": pid, "tid": 0, "args": dict(values)}


def _micro(seconds: float) -> int:
    """Whole microseconds, as both ends of a span are rounded, keep what was nested nested."""
    return round(seconds * 1e6)
