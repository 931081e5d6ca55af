"""How much happened lately."""

from __future__ import annotations

from collections import Counter


class Recent:
    """Counts what happens, by second, and forgets what is older than so many seconds. Whoever calls holds a lock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counts: Counter[int] = Counter()

    def add(self, now: float, count: int = 1) -> None:
        """So much happened at that time, in seconds since some moment."""
        second = int(now)
        if second not in self._counts:
            self._forget(second)
        self._counts[second] += count

    def total(self, now: float) -> int:
        """How much happened in the last seconds."""
        self._forget(int(now))
        return self._counts.total()

    def _forget(self, second: int) -> None:
        for old in [each for each in self._counts if each <= second - self._seconds]:
            del self._counts[old]
