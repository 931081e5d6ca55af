"""Timing: medians of wall time after warm-up, over inputs that are rotated past the caches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.backend import Backend

CACHE_BYTES = 64 << 20
"""Inputs are rotated until a round of them is larger than this, which is beyond the last-level caches we know."""
MAX_ROTATION = 8
SAMPLE_SECONDS = 2e-3
"""A sample lasts at least this long, so that neither the clock nor one launch decides it."""


@dataclass(frozen=True)
class Timing:
    """Seconds per run of what was measured."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def to_dict(self) -> dict[str, float | int]:
        return {
            "median": self.median,
            "min": min(self.samples),
            "max": max(self.samples),
            "samples": len(self.samples),
        }


def measure(run: Callable[[int], Any], backend: Backend, *, repeats: int, warmup: int = 1) -> Timing:
    """Time `run(i)`, called with 0, 1, 2, ... so that it can rotate its inputs; the device is idle at both ends.

    Runs too short for the clock are timed several at a time.
    """
    count = 0

    def sample(runs: int) -> float:
        nonlocal count
        backend.synchronize()
        begin = time.perf_counter()
        for _ in range(runs):
            run(count)
            count += 1
        backend.synchronize()
        return (time.perf_counter() - begin) / runs

    for _ in range(max(1, warmup)):
        once = sample(1)
    runs = max(1, min(1000, round(SAMPLE_SECONDS / max(once, 1e-7))))
    return Timing(tuple(sample(runs) for _ in range(repeats)))


def rotation(nbytes: int) -> int:
    """How many different inputs of `nbytes` to rotate through."""
    return max(2, min(MAX_ROTATION, -(-CACHE_BYTES // max(nbytes, 1))))
