"""What a node's governor allows at once, by policy: `off`, `static`, or `auto`, which changes it as it measures.

A policy is a state machine without clocks, threads or processes. It is fed observations and answers with decisions, so
that the simulator (`cluster.lab.simulator`) and a real node run the same code. No policy has a say about memory: what
was predicted never exceeds the budget under any of them.
"""

from __future__ import annotations

from cluster.policy.auto import Auto
from cluster.policy.caches import fitted
from cluster.policy.limits import YIELD, Decision, Fixed, Limits, Observation, Policy, off, static
from distprove.host.phases import Phase
from distprove.settings import ExecutorSettings

__all__ = [
    "YIELD",
    "Auto",
    "Decision",
    "Fixed",
    "Limits",
    "Observation",
    "Policy",
    "fitted",
    "off",
    "policy_for",
    "static",
]


def policy_for(settings: ExecutorSettings, threads: int) -> Policy:
    """The policy that the settings ask for, for a node of `threads` threads."""
    if settings.policy == "off":
        return off()
    if settings.policy == "auto":
        return Auto(threads)
    return static(threads, {Phase(name): limit for name, limit in settings.limits.items()})
