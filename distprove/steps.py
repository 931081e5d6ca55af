"""Measures the times of a proof's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from distprove.system import StepTimes
from kernels.interface.backend import Backend


@dataclass
class Steps:
    """Adds up the seconds of named steps: `with steps("deep"): ...`.

    A device works asynchronously, so `settle`, if given, waits for it at the end of each step. Without it the time of
    a GPU's work counts for the step that next waits for it. Benchmarks settle, proofs in production do not.
    """

    settle: Callable[[], None] | None = None
    times: StepTimes = field(default_factory=StepTimes)
    began: Callable[[str], None] | None = None
    """Is told the name of each step as it begins."""

    @property
    def seconds(self) -> dict[str, float]:
        return self.times.seconds

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if self.began is not None:
            self.began(name)
        with self.times.step(name):
            yield
            if self.settle is not None:
                self.settle()


@contextmanager
def measured(backend: Backend) -> Iterator[Steps]:
    """The steps of a proof on a backend. At the end their times have what the backend computed and copied meanwhile."""
    traffic, busy, steps = backend.traffic.snapshot(), backend.watch_busy(), Steps()
    try:
        yield steps
    finally:
        busy.end()
    times, moved = steps.times, backend.traffic.since(traffic)
    times.on_device, times.to_device, times.to_host = busy.time(), moved.to_device, moved.to_host
