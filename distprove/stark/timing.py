"""Times of a proof's phases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Phases:
    """Adds up the seconds of named phases: `with phases("deep"): ...`.

    A device works behind the host's back, so `settle`, when given, waits for it at the end of each phase; without it
    the times of a GPU are those of its next wait. Benchmarks settle, proofs in production do not.
    """

    settle: Callable[[], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        if self.settle is not None:
            self.settle()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
