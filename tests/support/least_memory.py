"""The least device memory that a Groth16 key takes, for tests that look for the boundary."""

from __future__ import annotations

from distprove.groth16.memory import MARGIN, KeyShape, _plans
from kernels.interface.backend import Backend


def least_memory(shape: KeyShape, backend: Backend) -> int:
    """Bytes of the device's memory without which no proof is made."""
    return min(plan.peak for plan in _plans(shape, backend, 1)) * MARGIN // (MARGIN - 1)
