"""Partitions over time, a lane for each worker; and the devices' busy stretches under the same axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cluster.record.analysis import DeviceUse, step_seconds
from cluster.record.timeline import Session, Span
from distprove.cli.console import format_seconds
from distprove.cli.pages.html import STAGES
from distprove.cli.pages.svg import AXIS, LEFT, RIGHT, WIDTH, Drawing, Scale, time_axis
from kernels.host.units import count_of

LANE_HEIGHT = {"prover": 20}
LANE, THIN = 14, 8
"""Heights of other lanes, and of each where there are many."""
GAP = 4
"""Units between two lanes: enough for their names not to touch."""
CROWDED = 60
"""Number of lanes above which all are drawn thin."""
NARROW = 1.5
"""Spans narrower than this many units are drawn together with equal neighbours, so that a page stays readable, and of
bounded size, with any number of partitions."""
NAME_LENGTH = 22


@dataclass(frozen=True)
class Mark:
    """Something worth a line across the lanes. `time` in seconds since the epoch."""

    time: float
    title: str


@dataclass
class _Block:
    """A span, or several that are too narrow to be told apart."""

    cls: str
    first: Span
    start: float
    end: float
    count: int = 1


def waterfall(session: Session, marks: Sequence[Mark]) -> str:
    """A lane for each worker in the order of the report, the driver's verification last."""
    lanes = {place.id: place.role for place in session.workers}
    lanes |= {span.worker: "driver" for span in session.spans if span.worker not in lanes}
    heights = {name: THIN if len(lanes) > CROWDED else LANE_HEIGHT.get(role, LANE) for name, role in lanes.items()}
    total = sum(height + GAP for height in heights.values())
    drawing = Drawing(WIDTH, total + 4 + AXIS, "Partitions over time, a lane for each worker")
    along = time_scale(session)
    time_axis(drawing, along, total + 2, seconds_axis)
    spans: dict[str, list[Span]] = {name: [] for name in lanes}
    for span in session.spans:
        spans[span.worker].append(span)
    top = 2.0
    for name, height in heights.items():
        drawing.text(
            LEFT - 8, top + height / 2 + 4, _short(name), "" if height > LANE else "small", anchor="end", title=name
        )
        drawing.rect(LEFT, top, WIDTH - LEFT - RIGHT, height, "lane")
        for block in _blocks(spans[name], along, session.began):
            width = block.end - block.start
            drawing.rect(
                block.start, top, max(0.7, width - (0.6 if width > 3 else 0)), height, block.cls, _title(block)
            )
        top += height + GAP
    for mark in marks:
        x = along(mark.time - session.began)
        if LEFT <= x <= WIDTH - RIGHT:
            drawing.line(x, 0, x, total + 2, "event", mark.title)
    return drawing.render()


def device_lanes(session: Session, used: Sequence[DeviceUse]) -> str:
    """Draw when each device had work, and when it was idle."""
    height = THIN if len(used) > CROWDED else 18
    total = len(used) * (height + GAP)
    drawing = Drawing(WIDTH, total + 4 + AXIS, "Busy and idle stretches of each device")
    along = time_scale(session)
    time_axis(drawing, along, total + 2, seconds_axis)
    for row, use in enumerate(used):
        top = 2.0 + row * (height + GAP)
        small = "" if height > LANE else "small"
        drawing.text(LEFT - 8, top + height / 2 + 4, _short(use.name), small, anchor="end", title=use.name)
        drawing.rect(LEFT, top, WIDTH - LEFT - RIGHT, height, "lane")
        for start, end, count in _joined((along(a - session.began), along(b - session.began)) for a, b in use.busy):
            title = (
                count_of(count, "busy stretch", "busy stretches")
                if count > 1
                else f"busy {format_seconds(_length(along, end - start))}"
            )
            drawing.rect(start, top, max(0.7, end - start), height, "p-prove", title)
    return drawing.render()


def time_scale(session: Session) -> Scale:
    """Time scale from the beginning of the session to its end."""
    return Scale(0.0, session.seconds, LEFT, WIDTH - RIGHT)


def seconds_axis(seconds: float) -> str:
    """A time on an axis, shorter than in a sentence: "0", "250 ms", "1:30"."""
    if seconds == 0:
        return "0"
    if abs(seconds) < 1:
        return f"{seconds * 1e3:g} ms"
    if seconds < 100:
        return f"{seconds:g} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def stage_class(span: Span) -> str:
    """The style of a span: that of its stage, or of trouble."""
    if span.outcome != "ok":
        return "p-bad"
    return f"p-{span.stage}" if span.stage in STAGES else "p-load"


def _blocks(spans: Sequence[Span], along: Callable[[float], float], began: float) -> Iterable[_Block]:
    current: _Block | None = None
    for span in sorted(spans, key=lambda s: s.start):
        start, end, cls = along(span.start - began), along(span.end - began), stage_class(span)
        narrow = end - start < NARROW
        if current is not None and narrow and current.cls == cls and start - current.end < NARROW / 2:
            current.end, current.count = max(current.end, end), current.count + 1
            continue
        if current is not None:
            yield current
        current = _Block(cls, span, start, end)
        if not narrow:
            yield current
            current = None
    if current is not None:
        yield current


def _joined(intervals: Iterable[tuple[float, float]]) -> Iterable[tuple[float, float, int]]:
    """(start, end, how many) with those joined whose gaps are too narrow to be seen."""
    start = end = 0.0
    count = 0
    for a, b in intervals:
        if count and a - end < NARROW / 3:
            end, count = b, count + 1
            continue
        if count:
            yield start, end, count
        start, end, count = a, b, 1
    if count:
        yield start, end, count


def _title(block: _Block) -> str:
    span = block.first
    if block.count > 1:
        return f"{span.stage}: {count_of(block.count, 'partition')} from {span.partition} on"
    parts = [span.partition or "", span.stage, format_seconds(span.end - span.start)]
    if span.outcome != "ok":
        parts.append(span.outcome)
    if span.attempt > 1:
        parts.append(f"attempt {span.attempt}")
    steps = [f"{name} {format_seconds(seconds)}" for name, seconds in step_seconds(span).items()]
    return "\n".join([", ".join(part for part in parts if part), *steps])


def _length(along: Scale, units: float) -> float:
    return units / (along.end - along.start) * (along.high - along.low)


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[:6]}…{name[-(NAME_LENGTH - 7) :]}"
