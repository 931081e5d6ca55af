"""Leases of CPU threads, which a computation asks for before it begins, in the name of a lease class.

The caller decides who grants a lease and what it means (in distprove that is a node's governor).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

SPMV = "spmv"
CPU_MSM = "cpu_msm"
PROVING = "proving"
"""The lease classes of the computations here: matrix products, group sums, everything else."""

Lease = Callable[[str], "AbstractContextManager[int]"]
"""A function from a lease class to a lease, held during a computation. It yields how many threads may be used."""
