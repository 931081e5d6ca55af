"""Figures from a run's timeline: how busy the devices were, where they stood idle, and which stages took longer."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cluster.record.timeline import Place, Session, Span
from kernels.interface.busy import BACK_TO_BACK, DeviceTime, Stretch, merged

DEVICE_STAGES = ("commit", "prove")
"""Stages that use a prover's device."""
FASTEST = 0.1
"""The share of samples that `Spread.fastest` is of."""


@dataclass(frozen=True)
class DeviceUse:
    """One device over a session: busy by events in its stream, or else from a launch to the last result of what was
    launched, as the host saw it (the queue's view).

    Idle is what lies between the first launch and the last result and is not busy.
    """

    name: str
    busy: tuple[Stretch, ...]
    """Disjoint, in order; seconds since the epoch."""
    by_events: bool = False
    """Whether all of it is by events."""

    @property
    def busy_seconds(self) -> float:
        return sum(end - start for start, end in self.busy)

    @property
    def gaps(self) -> tuple[Stretch, ...]:
        """Idle stretches between busy ones."""
        return tuple((a[1], b[0]) for a, b in zip(self.busy, self.busy[1:], strict=False))

    @property
    def share(self) -> float:
        """Busy part of the time from the first launch to the last result; 0 without any."""
        span = self.busy[-1][1] - self.busy[0][0] if self.busy else 0.0
        return self.busy_seconds / span if span > 0 else 0.0


@dataclass(frozen=True)
class Spread:
    """Summary of a list of durations, in seconds."""

    count: int
    median: float
    p95: float
    most: float
    fastest: float
    """The median of the fastest tenth."""
    mean: float

    @classmethod
    def of(cls, samples: Iterable[float]) -> Spread:
        """The spread of samples; all zero where there are none."""
        ordered = sorted(samples)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        fastest = statistics.median(ordered[: max(1, round(len(ordered) * FASTEST))])
        median, mean = statistics.median(ordered), statistics.fmean(ordered)
        return cls(len(ordered), median, quantile(ordered, 0.95), ordered[-1], fastest, mean)


@dataclass(frozen=True)
class StageTime:
    """The time that a stage took, or a step of it ("stage: step")."""

    stage: str
    spread: Spread
    total: float
    """Seconds in all. Of a step, what it cost: without what passed behind another partition."""
    share: float
    """Part of the total of all stages, 0 to 1."""


@dataclass(frozen=True)
class Level:
    """The amount of something from one moment on, until the next level begins."""

    time: float
    count: int
    nbytes: int


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile of sorted, non-empty samples, linear between neighbours."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def devices(session: Session) -> list[DeviceUse]:
    """The devices that provers used, one for each GPU however many provers share it; in the order of the workers."""
    names = {place.id: device_names(place) for place in session.workers if place.role == "prover"}
    used: dict[str, list[DeviceTime]] = {name: [] for names_of in names.values() for name in names_of}
    for span in session.spans:
        if span.stage in DEVICE_STAGES:
            for name in names.get(span.worker, ()):
                used[name].append(span.on_device or DeviceTime(((span.start, span.end),)))
    return [_device_use(name, times) for name, times in used.items()]


def _device_use(name: str, times: Sequence[DeviceTime]) -> DeviceUse:
    by_events = bool(times) and all(time.by_events for time in times)
    stretches = (stretch for time in times for stretch in time.stretches)
    return DeviceUse(name, merged(stretches, BACK_TO_BACK if by_events else 0.0), by_events)


def device_names(place: Place) -> tuple[str, ...]:
    """Names of a prover's devices: the GPUs of its node, or the prover itself where it has none."""
    return tuple(f"{place.node} GPU {gpu}" for gpu in place.gpus) or (place.id,)


def stage_samples(spans: Iterable[Span]) -> dict[str, list[float]]:
    """Seconds of every stage that ended well, and as "stage: step" of its steps, whether hidden or not."""
    samples: dict[str, list[float]] = {}
    for span in spans:
        if span.partition is None or span.outcome != "ok":
            continue
        samples.setdefault(span.stage, []).append(span.end - span.start)
        for step, seconds in step_seconds(span).items():
            samples.setdefault(f"{span.stage}: {step}", []).append(seconds)
    return samples


def step_seconds(span: Span) -> Mapping[str, float]:
    """Seconds of a span's steps, in order: in full where that is known, else what counted."""
    if not span.steps:
        return span.inner
    seconds: dict[str, float] = {}
    for name, start, end in span.steps:
        seconds[name] = seconds.get(name, 0.0) + end - start
    return seconds


def stage_times(spans: Sequence[Span]) -> list[StageTime]:
    """The time of every stage and step, those of the key first."""
    good = [span for span in spans if span.outcome == "ok"]
    samples: dict[str, list[float]] = {}
    totals: dict[str, float] = {}
    for span in good:
        if span.partition is None:  # a worker loads its key, or checks it
            samples.setdefault(span.stage, []).append(span.end - span.start)
        totals[span.stage] = totals.get(span.stage, 0.0) + span.end - span.start
        for step, seconds in span.inner.items():
            name = f"{span.stage}: {step}"
            totals[name] = totals.get(name, 0.0) + seconds
    samples |= stage_samples(good)
    everything = sum(seconds for name, seconds in totals.items() if ":" not in name)
    return [
        StageTime(name, Spread.of(taken), total, total / everything if everything else 0.0)
        for name, taken in samples.items()
        for total in [totals.get(name, 0.0)]
    ]


def witnesses_in_flight(session: Session, nbytes: Mapping[str, int]) -> list[Level]:
    """Number and size of the witnesses that existed over time, each from the end of their synthesis to the end of their
    last use by a prover.

    `nbytes`: size by partition.
    """
    made: dict[str, float] = {}
    used: dict[str, float] = {}
    for span in session.spans:
        if span.partition is None:
            continue
        if span.stage == "synthesise" and span.outcome == "ok":
            made.setdefault(span.partition, span.end)
        elif span.stage in DEVICE_STAGES:
            used[span.partition] = max(span.end, used.get(span.partition, span.end))
    last = max((span.end for span in session.spans), default=0.0)
    changes = [(time, 1, nbytes.get(name, 0)) for name, time in made.items()]
    changes += [(max(used.get(name, last), time), -1, -nbytes.get(name, 0)) for name, time in made.items()]
    levels, count, total = [], 0, 0
    for time, change, size in sorted(changes):
        count, total = count + change, total + size
        levels.append(Level(time, count, total))
    return levels
