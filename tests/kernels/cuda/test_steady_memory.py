"""Large proofs soon take no more memory from the driver: at an eighth of an H200's size, on a device that computes
nothing."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.cuda.msm import CudaPointTable, plan_windows
from kernels.maths.curves import BLS12_381, Group
from tests.support.idle_device import IdleDevice

LOG_DOMAIN = 24
WIRES = int(0.97 * (1 << LOG_DOMAIN))
WIRES_OF_B = WIRES // 4
BUDGET = 139 << (LOG_DOMAIN + 3)
"""An eighth of an H200's memory, half of which is an eighth of a key of 2^27."""


class Proofs:
    """Sums and vectors of a large Groth16 proof in the order of `distprove.groth16.prover`; most wires are 0 or 1."""

    def __init__(self) -> None:
        self.device = IdleDevice(budget=BUDGET, count=lambda: int(self._digits))
        self.groups = CudaBackend(device=self.device).groups
        self._digits = 0.0
        self.a, self.l = self._table(Group.G1, WIRES, 1), self._table(Group.G1, WIRES, 1)
        self.b = [self._table(group, WIRES_OF_B, 1) for group in (Group.G1, Group.G2)]
        self.h = self._table(Group.G1, (1 << LOG_DOMAIN) - 1, 2)

    def _table(self, group: Group, n: int, multiples: int) -> CudaPointTable:
        point_bytes = 8 * BLS12_381.point_limbs(group)
        plan = plan_windows(BLS12_381, group, n, multiples * n * point_bytes, self.groups.profile)
        points = self.device.empty((plan.multiples * n, BLS12_381.point_limbs(group)))
        return CudaPointTable(BLS12_381, group, n, points.nbytes, plan, points)

    def prove(self) -> None:
        wires, domain, device = (WIRES, 4), (1 << LOG_DOMAIN, 4), self.device
        w, w_b = device.empty(wires), device.empty((WIRES_OF_B, 4))
        for table in (self.a, *self.b, self.l):
            self._digits = 0.1 * table.n * table.plan.windows
            self.groups.msm(table, (w_b if table in self.b else w)[: table.n]).result()
        products = [device.empty(domain) for _ in range(2)]
        del w, w_b
        more = [device.empty(domain) for _ in range(3)]
        h = more.pop()
        del products, more
        self._digits = float(self.h.n * self.h.plan.windows)
        self.groups.msm(self.h, h[: self.h.n]).result()


def test_a_third_large_proof_takes_nothing_from_the_driver() -> None:
    proofs = Proofs()
    proofs.prove()
    proofs.prove()
    blocks = len(proofs.device.made)
    assert blocks > 10, "nothing large was taken"
    proofs.device.watch_memory()
    proofs.prove()
    assert proofs.device.made[blocks:] == []
    assert proofs.device.memory_peak() <= BUDGET


def test_blocks_of_the_exact_size_alone_are_made_anew_for_each_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above would not see if it could not fail."""
    monkeypatch.setattr("kernels.cuda.large_blocks.SLACK_SHARE", 1 << 60)
    proofs = Proofs()
    proofs.prove()
    proofs.prove()
    blocks = len(proofs.device.made)
    proofs.prove()
    assert len(proofs.device.made) > blocks
