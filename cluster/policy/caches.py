"""A limit for group sums on nodes that are short of cache."""

from __future__ import annotations

from cluster.policy.limits import Fixed, Policy
from distprove.phases import Phase
from distprove.topology import Topology
from kernels.cpu import MSM_THREAD_BYTES


def fitted(policy: Policy, topology: Topology) -> Policy:
    """`policy` on a node of that topology. `static` without a limit for group sums gets one where the node's threads
    keep more at hand, in a sum of all of them, than its third-level caches hold."""
    room = topology.threads_in_cache(MSM_THREAD_BYTES)
    if policy.name != "static" or Phase.CPU_MSM in policy.limits.phases or room is None:
        return policy
    if policy.limits.threads is None or room >= policy.limits.threads:
        return policy
    return Fixed(policy.name, policy.limits.with_phase(Phase.CPU_MSM, room))
