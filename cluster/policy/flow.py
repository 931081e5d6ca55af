"""How fast proofs come, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, sqrt
from statistics import fmean, stdev

BLOCK = 8
"""Proofs of a block, at least: an error is told from how much blocks differ, as proofs come in bunches."""


@dataclass(frozen=True)
class Rate:
    """A throughput in proofs per second, its standard error as a share of it, and from how many proofs it was told."""

    value: float
    error: float
    proofs: int

    def noise(self, expected: float) -> float:
        """By what share a count of `expected` proofs may differ from this rate's by chance: one standard error."""
        return hypot(self.error, self.error * sqrt(self.proofs / expected))


class Flow:
    """The times at which proofs came, since a moment."""

    def __init__(self, since: float) -> None:
        self._since = since
        self._times: list[float] = []

    def add(self, times: Iterable[float]) -> None:
        self._times.extend(times)

    def __len__(self) -> int:
        """Proofs after the first one, from which the time is counted."""
        return max(0, len(self._times) - 1)

    def rate(self) -> Rate:
        """From at least two proofs."""
        times, count = self._times, len(self)
        value = count / max(times[-1] - times[0], 1e-9)
        block = max(1, count // max(2, min(8, count // BLOCK)))
        pieces = [later - earlier for earlier, later in pairwise(times[::block])]
        certain = len(pieces) > 1 and fmean(pieces) > 0.0
        return Rate(value, stdev(pieces) / fmean(pieces) / sqrt(len(pieces)) if certain else 1.0, count)

    def against(self, rate: float, now: float) -> tuple[int, float]:
        """How many proofs came, and how many would have come at `rate` proofs per second."""
        if not self._times:
            return 0, rate * (now - self._since)
        last = self._times[-1]
        return len(self), rate * ((last if now - last < 2.0 / rate else now) - self._times[0])
