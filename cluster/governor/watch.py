"""What a governor sees of its node: load, memory, swap, and now and then how much memory bandwidth is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psutil

from distprove.host.cgroup import memory_available, memory_limit

SCARCE = 0.05
"""Share of the memory that must stay available; below it the node is short."""
SWAPPING = 16 << 20
"""Bytes swapped in or out since the last look from which the node counts as short of memory."""


@dataclass(frozen=True)
class Sight:
    """A node at one moment."""

    cpu: float
    """Share of the processors that was busy since the look before, 0 to 1."""
    memory_used: int
    """Bytes, within the control group if there is one."""
    memory_pressure: bool
    """Whether memory is nearly gone, or the node swaps."""


class CopyProbe:
    """Measures the memory bandwidth that one thread gets now, as STREAM's copy does: bytes read and written per second.

    The buffers are larger than a core's caches, allocated once; a call takes some milliseconds.
    """

    BYTES = 16 << 20
    REPEATS = 3

    def __init__(self) -> None:
        self._source = np.ones(self.BYTES, dtype=np.uint8)
        self._target = np.zeros(self.BYTES, dtype=np.uint8)

    def __call__(self) -> float:
        best = float("inf")
        for _ in range(self.REPEATS):  # the best of a few: an interrupted copy says nothing about memory
            begin = time.perf_counter()
            np.copyto(self._target, self._source)
            best = min(best, time.perf_counter() - begin)
        return 2 * self.BYTES / max(best, 1e-9)


class Watch:
    """Looks at this machine. `probe` measures memory bandwidth in bytes per second; None: it is not measured."""

    def __init__(self, probe: Callable[[], float] | None = None) -> None:
        """To be made while the node is idle: what the probe finds later is told as a share of what it finds now."""
        self._probe = probe
        self._idle = probe() if probe is not None else None
        self._swapped = self._swap()
        psutil.cpu_percent()  # its first value means nothing: it is counted from the call before

    def look(self) -> Sight:
        virtual, group = psutil.virtual_memory(), memory_limit()
        used, total = int(virtual.total - virtual.available), int(virtual.total)
        if group is not None and group.limit < total:
            used, total = group.used, group.limit
        swapped, self._swapped = self._swapped, self._swap()
        short = memory_available() < SCARCE * total or self._swapped - swapped > SWAPPING
        return Sight(psutil.cpu_percent() / 100, used, short)

    def bandwidth(self) -> float | None:
        """Bytes per second that a copy gets now, beside everything else; None when it cannot be measured."""
        if self._probe is None:
            return None
        found = self._probe()
        self._idle = max(found, self._idle or 0.0)
        return found

    def share(self, bandwidth: float | None) -> float | None:
        """`bandwidth` as a share of the most that was ever found here."""
        return None if bandwidth is None or not self._idle else bandwidth / self._idle

    @staticmethod
    def _swap() -> int:
        swap = psutil.swap_memory()
        return int(swap.sin + swap.sout)
