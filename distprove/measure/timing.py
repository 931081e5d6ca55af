"""Timing of benchmarks: medians of wall time after warm-up, over more inputs than the caches hold."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.interface.backend import Backend

CACHE_BYTES = 64 << 20
"""Minimum size of one round of rotated inputs in bytes. It exceeds the last-level caches that we know."""
MAX_ROTATION = 8
SAMPLE_SECONDS = 2e-3
"""Minimum duration of a sample in seconds, so that neither the clock's resolution nor one launch dominates it."""


@dataclass(frozen=True)
class Timing:
    """The samples of one measurement, in seconds per run."""

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


def measure(run: Callable[[int], Any], backend: Backend, *, repeats: int) -> Timing:
    """Time `run(i)`, called with 0, 1, 2, ... so that it can rotate its inputs. The device is idle at both ends of a
    sample. Runs that are too short for the clock are timed several at a time.
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

    once = sample(1)  # also warms up
    runs = max(1, min(1000, round(SAMPLE_SECONDS / max(once, 1e-7))))
    return Timing(tuple(sample(runs) for _ in range(repeats)))


def rotation(nbytes: int) -> int:
    """Number of different inputs of `nbytes` each to rotate through."""
    return max(2, min(MAX_ROTATION, -(-CACHE_BYTES // max(nbytes, 1))))


def steady_rate(ends: Sequence[float]) -> float:
    """Rate per second between a tenth and nine tenths of these ends, in order; of fewer than ten, of all."""
    low, high = len(ends) // 10, len(ends) - 1 - len(ends) // 10
    return (high - low) / max(1e-9, ends[high] - ends[low])
