"""The budget of a node, unless the settings of a job say otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.governor.state import Budget
from distprove.host.cgroup import memory_available, memory_total


def budget_of(threads: int, memory: int | None, keys: int, throttle: Mapping[str, int]) -> Budget:
    """The budget of this node, of `memory` bytes; None: of half of the memory that is free, and of `keys` bytes more,
    which the job's keys take, within what there is in all. `throttle` is that of the settings.

    Half, because the object store's copies of witnesses and what nobody predicts want room too. Beside it, because the
    files of a key that was used before are in the page cache, and need not be free in a control group's eyes.
    """
    found = memory or max(1 << 20, min(memory_total(), memory_available() // 2 + keys))
    return Budget(**{"threads": threads, "memory": found, **throttle})


def memory_for_keys() -> int:
    """Bytes that a budget leaves room for where it is not known which keys there will be."""
    return memory_total() // 4
