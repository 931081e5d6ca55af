"""A limit for group sums on nodes that are short of cache."""

from __future__ import annotations

from cluster.policy.auto import Auto
from cluster.policy.limits import Fixed, Policy
from distprove.host.phases import Phase
from distprove.host.topology import Topology
from kernels.cpu.groups import MSM_THREAD_BYTES


def fitted(policy: Policy, topology: Topology) -> Policy:
    """`policy` on a node of that topology. `static` without a limit for group sums, and `auto` to begin with, get one
    where the node's threads keep more at hand, in a sum of all of them, than its third-level caches hold."""
    room = topology.threads_in_cache(MSM_THREAD_BYTES)
    threads = policy.limits.threads
    if room is None or threads is None or room >= threads or Phase.CPU_MSM in policy.limits.phases:
        return policy
    limits = policy.limits.with_phase(Phase.CPU_MSM, room)
    return Auto(threads, limits) if policy.name == Auto.name else Fixed(policy.name, limits)
