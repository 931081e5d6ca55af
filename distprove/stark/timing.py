"""Measures the times of a proof's phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from distprove.system import PhaseTimes


@dataclass
class Phases:
    """Adds up the seconds of named phases: `with phases("deep"): ...`.

    A device works asynchronously, so `settle`, if given, waits for it at the end of each phase. Without it the time of
    a GPU's work counts for the phase that next waits for it. Benchmarks settle, proofs in production do not.
    """

    settle: Callable[[], None] | None = None
    times: PhaseTimes = field(default_factory=PhaseTimes)

    @property
    def seconds(self) -> dict[str, float]:
        return self.times.seconds

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        with self.times.phase(name):
            yield
            if self.settle is not None:
                self.settle()
