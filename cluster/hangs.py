"""Finds workers that hang. How long they may be silent is a setting; how long their work may take follows from the
times that such work has taken in this job.

Time is counted by looks: a driver that was stopped for a while, or was busy, holds nobody else for hung.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FACTOR = 10
"""Times the longest that a step has taken, and this for each partition in flight, that it may take."""
FIRST = 100
"""Times the least number of seconds that a step may take of which none has ended yet: well over an hour by default. A
device that hangs in it would else be waited for without end, where there is no other one."""
GRACE = 4
"""Times as long that everything may take after a worker was ended for it: perhaps it was not hung."""
LOOK = 2.0
"""Seconds between two looks that count, at most."""

STEPS = {"synthesise": "synthesising", "commit": "committing", "prove": "proving"}
"""The stage of a partition whose worker is at each step."""


@dataclass(frozen=True)
class Hung:
    """A worker, or one of its synthesisers, that gives no sign of life or does not come to an end."""

    who: str
    reason: str


@dataclass
class _Seen:
    heard: float
    """Time of its last sign of life."""
    since: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Start of each thing that it is at: partition, stage, and prover or synthesiser."""


class Watch:
    """Looks at the workers of a job. Nothing is held against one that has not been loaded."""

    def __init__(self, floor: float, in_flight: int) -> None:
        """`floor` is the least number of seconds after which a worker counts as hung."""
        self._floor = floor
        self._factor = float(FACTOR * in_flight)
        self._longest: dict[str, float] = {}
        """Longest time seen at each stage, in seconds."""
        self._first = FIRST * floor
        self._seen: dict[str, _Seen] = {}
        self._clock = 0.0
        self._looked: float | None = None

    def look(self, now: float) -> None:
        """The time is `now`."""
        if self._looked is not None:
            self._clock += min(LOOK, now - self._looked)
        self._looked = now

    def took(self, step: str, seconds: float) -> None:
        """A step came to its end."""
        stage = STEPS.get(step)
        if stage is not None:
            self._longest[stage] = max(self._longest.get(stage, 0.0), seconds)

    def heard(self, worker: str, under_way: Iterable[tuple[str, str, str]] = ()) -> None:
        """A worker said something, perhaps only what it is at."""
        before = self._seen[worker].since if worker in self._seen else {}
        self._seen[worker] = _Seen(self._clock, {step: before.get(step, self._clock) for step in under_way})

    def forget(self, worker: str) -> None:
        """Forget a worker that is not loaded."""
        self._seen.pop(worker, None)

    def hung(self, worker: str) -> Hung | None:
        """Whether a worker hangs, and what of it. A step that took too long is given more time from then on."""
        seen = self._seen.get(worker)
        if seen is None:
            return None
        silent = self._clock - seen.heard
        if silent > self._floor:
            return Hung(worker, f"it said nothing for {silent:.0f} s")
        for (_, stage, who), since in seen.since.items():
            longest, took = self._longest.get(stage), self._clock - since
            if longest is not None and took > max(self._floor, self._factor * longest):
                self._factor *= GRACE
                return Hung(who, f"{stage} for {took:.0f} s, which took {longest:.3g} s before")
            if longest is None and stage in STEPS.values() and took > self._first:
                self._first *= GRACE
                return Hung(who, f"{stage} for {took:.0f} s, which nothing has come to the end of before")
        return None
