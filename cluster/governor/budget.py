"""The budget of a node, unless the settings of a job say otherwise."""

from __future__ import annotations

from cluster.governor.state import Budget, Limits
from distprove.host.cgroup import memory_available, memory_total
from distprove.host.lease_class import LeaseClass
from distprove.host.machine import usable_threads
from distprove.settings import ExecutorSettings


def node_budget(settings: ExecutorSettings, keys: int = 0) -> Budget:
    """The budget of the node this runs on: what the settings say, else every usable thread and the default memory."""
    return budget_of(settings.threads or usable_threads(), settings.memory, keys)


def budget_of(threads: int, memory: int | None = None, keys: int = 0) -> Budget:
    """A budget of `memory` bytes (None: `default_memory`). `keys`: bytes that the job's keys take, which the default
    leaves room for."""
    return Budget(threads, memory or default_memory(keys))


def limits_of(settings: ExecutorSettings) -> Limits:
    """The limits of the lease classes that the settings name."""
    return {LeaseClass(name): limit for name, limit in settings.limits.items()}


def memory_for_keys() -> int:
    """Bytes that a budget leaves room for where it is not known which keys there will be."""
    return memory_total() // 4


def default_memory(keys: int = 0) -> int:
    """Half of the memory that is free, in bytes, and `keys` more, within what there is in all.

    Half, because the object store's copies of witnesses and what nobody predicts want room too. Beside it, because the
    files of a key that was used before are in the page cache, and need not be free in a control group's eyes.
    """
    return max(1 << 20, min(memory_total(), memory_available() // 2 + keys))
