"""Samples of a node that its governor takes from time to time, for its report."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from cluster.governor.state import Governor
from distprove.host.cgroup import memory_limit

PERIOD = 0.5
"""Seconds between two samples, at first."""
KEPT = 400
"""Samples kept, at most: with more, every second one is dropped and they are taken half as often."""


@dataclass(frozen=True)
class Sample:
    """A node at one moment."""

    t: float
    """Seconds on the caller's clock."""
    cpu: float
    """Share of the CPU that was busy since the sample before, 0 to 1."""
    memory_used: int
    """Bytes, within the control group if there is one."""
    memory_leased: int
    """Bytes."""
    leases: dict[str, int]
    """Threads leased, by lease class."""
    queue: dict[str, int]
    """Requests that wait, by lease class."""


class Samples:
    """Samples of one node, spread over the life of its governor. Not thread-safe."""

    def __init__(self) -> None:
        self.taken: list[Sample] = []
        self._every = PERIOD
        self._due = float("-inf")
        psutil.cpu_percent()  # its first value means nothing: it is counted from the call before

    def take(self, now: float, state: Governor) -> None:
        """Take a sample, if one is due."""
        if now < self._due:
            return
        self._due = now + self._every
        self.taken.append(
            Sample(
                now,
                round(psutil.cpu_percent() / 100, 4),
                _memory_used(),
                state.memory,
                {lease_class.value: held for lease_class, held in state.by_class.items()},
                {lease_class.value: count for lease_class, count in state.queue.items()},
            )
        )
        if len(self.taken) > KEPT:
            self.taken = self.taken[::2]
            self._every *= 2


def _memory_used() -> int:
    virtual, group = psutil.virtual_memory(), memory_limit()
    return group.used if group is not None and group.limit < virtual.total else int(virtual.total - virtual.available)
