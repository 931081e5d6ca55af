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
