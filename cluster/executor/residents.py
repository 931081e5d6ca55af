"""Predicts what a job's workers keep in a node's memory from their loading to their end, as predicted before they are
loaded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from actors.backends import BackendChoice, device_backend
from distprove.system import PredictsKey, ProofSystem


@dataclass(frozen=True)
class Residents:
    """Bytes of host memory on one node, and how much of them is page-locked."""

    memory: int
    pinned: int = 0

    def without(self, other: Residents) -> Residents:
        """The residents that stay when `other` is gone."""
        return replace(self, memory=self.memory - other.memory, pinned=self.pinned - other.pinned)


def of_prover(system: ProofSystem, choice: BackendChoice) -> Residents:
    """A prover's: its transfers' buffers on a GPU, on the CPU what it makes of the key."""
    on_device = device_backend(choice.name)
    pinned = on_device[1].pinned if on_device else 0
    made = system.key_bytes() if on_device is None and isinstance(system, PredictsKey) else 0
    return Residents(made + pinned, pinned)


def of_node(files: int, provers: Iterable[Residents]) -> Residents:
    """A node's: `files` bytes of key and program, which its workers share, and what each prover has of its own."""
    listed = list(provers)
    return Residents(files + sum(one.memory for one in listed), sum(one.pinned for one in listed))
