"""Lines of short jobs: those of one key and priority, which one driver proves together as they come."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cluster.executor.base import Executor

Item = TypeVar("Item")

ENOUGH = 4
"""Short jobs of one line at work for each worker, below which one that comes by itself has a driver of its own."""
OPEN, MOST = 1.0, 1024
"""Seconds for which others may join a group that began, and jobs of a group, at most: each of its jobs tells of the
time since the group began, and a group that fails leaves all its jobs to drivers of their own."""
LIGHT = 8
"""Short jobs that take the place of one with a driver of its own. Workers must not run dry while proofs of two
milliseconds are told, verified and kept, each of which waits for up to a quarter of a second to be done together."""

Name = tuple[str, int]
"""Name of a line: the identity of the key, and the rank of the priority."""


@dataclass(eq=False)
class Group(Generic[Item]):
    """Jobs that one driver proves together. Whoever calls holds a lock."""

    items: list[Item]
    """All jobs of the group."""
    until: float
    """Time until which others may join, on the monotonic clock."""
    fresh: list[Item] = field(default_factory=list)
    """Jobs that the driver was not given yet."""
    executor: Executor | None = None
    """Executor of the group's driver; None before the driver has one."""
    closed: bool = False
    alone: bool = False
    """Whether it is of one job, which has a driver of its own."""

    def join(self, items: list[Item]) -> bool:
        """Have the driver take these too, soon; whether it will."""
        if self.closed or time.monotonic() > self.until or len(self.items) >= MOST:
            return False
        self.items += items
        self.fresh += items
        if self.executor is not None:
            self.executor.wake()
        return True

    def take(self, *, idle: bool) -> list[Item]:
        """What joined since this was asked last. A driver that is `idle` and gets nothing ends: nobody joins then."""
        fresh, self.fresh = self.fresh, []
        self.closed = self.closed or (idle and not fresh)
        return fresh


class Lines(Generic[Item]):
    """Short jobs by line. One by one each would have a driver; those that come while enough others are at work have
    one together, and join it while it is at work. Whoever calls holds a lock."""

    def __init__(self) -> None:
        self._at_work: Counter[Name] = Counter()
        self._groups: dict[Name, Group[Item]] = {}
        """The last group of each line that has jobs at work."""

    def count(self, rank: int) -> int:
        """Number of jobs at work of that rank."""
        return sum(count for (_, of), count in self._at_work.items() if of == rank)

    def put(self, line: Name, items: list[Item], workers: int) -> Group[Item] | None:
        """These are at work from now on: with others, if that is told by None, or else in this group, which needs a
        driver."""
        few = self._at_work[line] < ENOUGH * workers
        self._at_work[line] += len(items)
        group = self._groups.get(line)
        if group is not None and group.join(items):
            return None
        group = Group(list(items), time.monotonic() + OPEN, list(items), alone=few and len(items) == 1)
        if not group.alone:
            self._groups[line] = group
        return group

    def over(self, line: Name, count: int) -> None:
        """So many jobs are at work no more."""
        self._at_work[line] -= count
        if not self._at_work[line]:
            del self._at_work[line]
            self._groups.pop(line, None)
