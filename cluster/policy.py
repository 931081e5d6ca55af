"""What may run at once on a node, by policy: `off` limits nothing, `static` holds the limits of the configuration.

No policy has a say about memory: what was predicted never exceeds the budget under either of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from distprove.host.phases import Phase
from distprove.host.topology import Topology
from distprove.settings import ExecutorSettings
from kernels.cpu.groups import MSM_THREAD_BYTES


@dataclass(frozen=True)
class Limits:
    """What may run at once on a node."""

    phases: Mapping[Phase, int] = field(default_factory=dict)
    """Threads that the leases of a phase may hold together; a phase that is not named has no limit of its own."""
    threads: int | None = None
    """Threads of the phases that share them (`distprove.host.phases.SHARING`) together; None: no limit."""
    lane: int | None = 1
    """How many may give back large memory at once; None: no limit."""


@dataclass(frozen=True)
class Policy:
    """Limits under the name by which jobs choose them."""

    name: str
    limits: Limits


def off() -> Policy:
    """Everything is admitted that memory allows."""
    return Policy("off", Limits(lane=None))


def static(threads: int, phases: Mapping[Phase, int] | None = None) -> Policy:
    """The limits of the configuration, and `threads` for the phases that share them; frees one at a time."""
    return Policy("static", Limits(dict(phases or {}), threads))


def policy_for(settings: ExecutorSettings, threads: int) -> Policy:
    """The policy that the settings ask for, for a node of `threads` threads."""
    if settings.policy == "off":
        return off()
    return static(threads, {Phase(name): limit for name, limit in settings.limits.items()})


def fitted(policy: Policy, topology: Topology) -> Policy:
    """`policy` on a node of that topology. `static` without a limit for group sums gets one where the node's threads
    keep more at hand, in a sum of all of them, than its third-level caches hold."""
    room = topology.threads_in_cache(MSM_THREAD_BYTES)
    threads, phases = policy.limits.threads, policy.limits.phases
    if room is None or threads is None or room >= threads or Phase.CPU_MSM in phases:
        return policy
    return replace(policy, limits=replace(policy.limits, phases={**phases, Phase.CPU_MSM: room}))
