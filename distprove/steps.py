"""Measures the times of a proof's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from distprove.system import StepTimes


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
