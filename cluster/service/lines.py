"""Lines of short jobs, which wait for a driver: those that come together have one together."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Generic, TypeVar

Item = TypeVar("Item")

ENOUGH = 4
"""Short jobs of one line at work for each worker, below which all that wait begin: the worker would run dry."""
MANY = 64
"""Jobs that wait in a line from which on they begin in any case: with fewer, what a driver costs beside its jobs is
felt, and workers tell of a driver's jobs four times a second at most."""
LIGHT = 4
"""Short jobs that take the place of one with a driver of its own. Workers must not run dry while proofs of two
milliseconds are told, verified and kept, which takes a quarter of a second."""

Name = tuple[str, int]
"""Name of a line: the identity of the key, and the rank of the priority."""


class Lines(Generic[Item]):
    """Short jobs by line. Begun one by one each would have a driver; those that come while enough others are at work
    wait until there are fewer, or many, and begin together. Whoever calls holds a lock."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Name, list[Item]] = defaultdict(list)
        self._begun: Counter[Name] = Counter()
        self._known: Counter[int] = Counter()
        """Number of jobs by rank of their priority, those at work included."""

    def put(self, line: Name, item: Item) -> None:
        """Another job waits."""
        self._waiting[line].append(item)
        self._known[line[1]] += 1

    def count(self, rank: int) -> int:
        """Number of jobs of that rank, those at work included."""
        return self._known[rank]

    def take(self, line: Name, workers: int) -> list[Item]:
        """The jobs of a line that are to begin now, together; count them as at work."""
        waiting = self._waiting[line]
        if not waiting or (self._begun[line] >= ENOUGH * workers and len(waiting) < MANY):
            return []
        self._waiting[line] = []
        self._begun[line] += len(waiting)
        return waiting

    def over(self, line: Name, count: int) -> None:
        """So many jobs are at work no more."""
        self._begun[line] -= count
        self._known[line[1]] -= count
        if not self._begun[line] and not self._waiting[line]:
            del self._begun[line], self._waiting[line]

    def clear(self) -> list[Item]:
        """All that wait, which do so no more."""
        waiting = [item for items in self._waiting.values() for item in items]
        self._waiting.clear()
        self._known = Counter(rank for _, rank in self._begun.elements())
        return waiting
