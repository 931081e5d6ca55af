"""Making a key resident leaves room for the witnesses that will be in flight."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distprove.circuits.synthetic import synthetic_circuit
from distprove.groth16.resident import WITNESSES, load_key
from distprove.groth16.setup import setup
from distprove.groth16.zkey import ZKey, read_zkey
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray
from kernels.interface.groups import PointTable
from kernels.maths.curves import BN254, Curve, Group


class CountingBackend(CpuBackend):
    """Notes how many bytes are held by arrays from `empty` whenever points are loaded."""

    def __init__(self, budget: int = 1 << 40) -> None:
        super().__init__()
        self.groups = WatchedGroups(self)
        self.budget = budget
        self.held = 0
        self.held_at_loads: list[int] = []

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        array = super().empty(shape, dtype)
        if self.held + array.nbytes > self.budget:
            raise OutOfMemory(f"{array.nbytes} bytes needed")
        self.held += array.nbytes
        weakref.finalize(array, self._gone, array.nbytes)
        return array

    def _gone(self, nbytes: int) -> None:
        self.held -= nbytes


class WatchedGroups(CpuGroups):
    """Tells its backend when points are loaded."""

    def __init__(self, backend: CountingBackend) -> None:
        super().__init__(backend.pool, np.empty)
        self.backend = backend

    def load_points(self, curve: Curve, group: Group, points: HostArray, *, memory: int | None = None) -> PointTable:
        self.backend.held_at_loads.append(self.backend.held)
        return super().load_points(curve, group, points, memory=memory)


@pytest.fixture
def zkey(tmp_path: Path) -> ZKey:
    cpu = CpuBackend()
    circuit = synthetic_circuit(BN254, 61, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "small.zkey")
    return read_zkey(tmp_path / "small.zkey")


def test_tables_are_planned_with_the_witnesses_in_memory(zkey: ZKey) -> None:
    backend = CountingBackend()
    load_key(zkey, backend)
    assert len(backend.held_at_loads) == 5
    assert min(backend.held_at_loads) >= 32 * (WITNESSES * zkey.n_vars + 3 * zkey.domain_size)
    assert backend.held == 0


def test_a_key_whose_proofs_would_not_fit_is_refused_when_it_is_loaded(zkey: ZKey) -> None:
    with pytest.raises(OutOfMemory):
        load_key(zkey, CountingBackend(budget=32 * WITNESSES * zkey.n_vars))
