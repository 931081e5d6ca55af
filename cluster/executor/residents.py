"""Predicts what a job's workers keep in a node's memory from their loading to their end, as predicted before they are
loaded."""

from __future__ import annotations

from actors.backends import BackendChoice, device_backend
from distprove.system import PredictsKey, ProofSystem


def kept_by(system: ProofSystem, choice: BackendChoice) -> int:
    """Bytes of host memory that a prover keeps beside the system's files, which workers share: the page-locked buffers
    of its transfers on a GPU, on the CPU what it makes of the key."""
    on_device = device_backend(choice.name)
    if on_device is not None:
        return on_device[1].pinned
    return system.key_bytes() if isinstance(system, PredictsKey) else 0
