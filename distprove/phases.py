"""The kinds of host work that a node's governor tells apart: each has leases, limits and times of its own."""

from __future__ import annotations

from enum import Enum


class Phase(str, Enum):
    """A phase of a partition that runs on the host."""

    SYNTHESIS = "synthesis"
    CPU_MSM = "cpu_msm"
    """Group sums on the host. What memory bandwidth they have decides how long they take: others yield to them."""
    SPMV = "spmv"
    PROVING = "proving"
    """What a prover without a GPU computes beside sums and products: transforms, vectors, checks of points."""
    VERIFICATION = "verification"
    STAGING = "staging"


CRITICAL = frozenset({Phase.CPU_MSM})
"""Phases that others yield to."""

SHARING = frozenset({Phase.SYNTHESIS, Phase.STAGING})
"""Phases whose threads are counted together. The others are one pool per node, sized when it is made, or short: holding
synthesis back while they work would leave cores idle in a pool's serial parts. Not so a prover without a GPU, which has
all the node's threads for one operation after the other: its threads are counted with these, whatever the phase, and it
makes do with fewer of them (`cluster.governor.Request.least`)."""
