"""What a computation on the processors asks for before it begins: threads, in the name of a phase.

Who answers, and what a lease is there, is the caller's business (distprove's is a node's governor).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

SPMV = "spmv"
CPU_MSM = "cpu_msm"
PROVING = "proving"
"""The phases that computations here belong to: matrix products, group sums, everything else."""

Lease = Callable[[str], "AbstractContextManager[int]"]
"""Asked for by a phase's name before a computation, and held meanwhile. It says how many threads may be used."""
