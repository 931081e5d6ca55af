"""The kinds of host work that a node's governor distinguishes: each has its own leases, limits and times."""

from __future__ import annotations

from enum import Enum


class LeaseClass(str, Enum):
    """A kind of work on a partition that runs on the host."""

    SYNTHESIS = "synthesis"
    CPU_MSM = "cpu_msm"
    """Multi-scalar multiplications on the host. Memory bandwidth bounds them."""
    SPMV = "spmv"
    PROVING = "proving"
    """Other work of a prover without a GPU: transforms, vector operations, checks of points."""
    VERIFICATION = "verification"
    STAGING = "staging"


SHARING = frozenset({LeaseClass.SYNTHESIS, LeaseClass.STAGING})
"""Lease classes whose threads are counted together. The other lease classes are short or run in one pool per node of
fixed size: holding synthesis back while they work would leave cores idle in the pool's serial parts. A prover without a
GPU is different, because it uses all threads of the node for one operation after the other: its threads are counted
with these lease classes, whatever its own lease class is, and it accepts fewer of them
(`cluster.governor.Request.least`)."""
