"""How fast proofs come, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import fmean


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
        """From at least two proofs.

        Proofs come in bunches and in waves. Both show in how far their count strays from a straight line: were they
        independent, it would be a Brownian bridge, whose mean square is a sixth of the variance of the whole.
        """
        first, span, count = self._times[0], max(self._times[-1] - self._times[0], 1e-9), len(self)
        strays = fmean(((time - first) / span - number / count) ** 2 for number, time in enumerate(self._times))
        return Rate(count / span, sqrt(6.0 * strays), count)

    def against(self, rate: float, now: float) -> tuple[int, float]:
        """How many proofs came, and how many would have come at `rate` proofs per second."""
        if not self._times:
            return 0, rate * (now - self._since)
        last = self._times[-1]
        return len(self), rate * ((last if now - last < 2.0 / rate else now) - self._times[0])
