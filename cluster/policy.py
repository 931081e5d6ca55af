"""Policies say what may run at once on a node: `off` limits nothing, `static` holds the limits of the configuration.

No policy has a say about memory: what was predicted never exceeds the budget under either of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distprove.host.lease_class import LeaseClass
from distprove.settings import ExecutorSettings


@dataclass(frozen=True)
class Limits:
    """Limits of what may run at once on a node."""

    lease_classes: Mapping[LeaseClass, int] = field(default_factory=dict)
    """Threads that the leases of a lease class may hold together; a lease class that is not named has no limit of its
    own."""
    threads: int | None = None
    """Threads of the lease classes that share them (`distprove.host.lease_class.SHARING`) together; None: no limit."""
    lane: int | None = 1
    """Number of threads that may give back large memory at once; None: no limit."""


@dataclass(frozen=True)
class Policy:
    """Limits under the name by which jobs choose them."""

    name: str
    limits: Limits


def off() -> Policy:
    """Everything is admitted that memory allows."""
    return Policy("off", Limits(lane=None))


def static(threads: int, lease_classes: Mapping[LeaseClass, int] | None = None) -> Policy:
    """The limits of the configuration, and `threads` for the lease classes that share them; frees one at a time."""
    return Policy("static", Limits(dict(lease_classes or {}), threads))


def policy_for(settings: ExecutorSettings, threads: int) -> Policy:
    """The policy that the settings ask for, for a node of `threads` threads."""
    if settings.policy == "off":
        return off()
    return static(threads, {LeaseClass(name): limit for name, limit in settings.limits.items()})
