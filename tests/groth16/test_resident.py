"""Making a key resident leaves room for the witnesses that will be in flight."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.memory import WITNESSES
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups, CpuPoints
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray
from kernels.maths.curves import BN254, Curve, Group


class CountingBackend(CpuBackend):
    """Says that it is a device with this much memory, and notes how many bytes are held by arrays from `empty` whenever
    points are loaded, or an MSM may be recorded."""

    def __init__(self, budget: int = 1 << 40) -> None:
        super().__init__(budget=budget)
        self.groups = WatchedGroups(self)
        self.budget = budget
        self.held = 0
        self.held_at: dict[str, list[int]] = {"load": [], "repeat": []}

    def memory_free(self) -> int:
        return self.budget - self.held

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        array = super().empty(shape, dtype)
        self.held += array.nbytes
        weakref.finalize(array, self._gone, array.nbytes)
        return array

    def _gone(self, nbytes: int) -> None:
        self.held -= nbytes


class WatchedGroups(CpuGroups):
    """Tells its backend when points are loaded and when an MSM may be recorded."""

    def __init__(self, backend: CountingBackend) -> None:
        super().__init__(backend.pool, np.empty)
        self.backend = backend

    def _load_points(self, curve: Curve, group: Group, points: HostArray, memory: int | None) -> CpuPoints:
        self.backend.held_at["load"].append(self.backend.held)
        return super()._load_points(curve, group, points, memory)

    def _repeat(self, table: CpuPoints, count: int, start: int) -> None:
        self.backend.held_at["repeat"].append(self.backend.held)


@pytest.fixture
def zkey(tmp_path: Path) -> ZKey:
    cpu = CpuBackend()
    circuit = synthetic_circuit(BN254, 61, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "small.zkey")
    return read_zkey(tmp_path / "small.zkey")


def test_recordings_are_made_beside_the_memory_of_proofs(zkey: ZKey) -> None:
    backend = CountingBackend()
    plan = load_key(zkey, backend).plan
    assert backend.held_at["load"] == 5 * [0]
    assert backend.held_at["repeat"] == 5 * [plan.beside]
    assert plan.beside >= 32 * ((WITNESSES - 1) * zkey.n_vars + 3 * zkey.domain_size)
    assert backend.held == 0


def test_a_key_whose_proofs_would_not_fit_is_refused_before_it_is_loaded(zkey: ZKey) -> None:
    backend = CountingBackend(budget=3 * 32 * zkey.domain_size)
    with pytest.raises(OutOfMemory, match="short"):
        load_key(zkey, backend)
    assert backend.held_at["load"] == []
