"""A backend in two parts computes what either part alone would, whatever is offloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kernels.cpu import leased_pool
from kernels.cpu.backend import CpuBackend
from kernels.cpu.groups import CpuGroups
from kernels.cpu.sparse import CpuSparse
from kernels.errors import BackendError, SizeError
from kernels.interface.arrays import HostArray
from kernels.interface.leases import SPMV, Lease
from kernels.interface.matrix import CsrMatrix
from kernels.interface.offload import MSM, OPERATIONS, Offload
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import field_from_ints
from kernels.split import SplitBackend

OFFLOADS = [Offload(frozenset(some)) for count in range(4) for some in combinations(OPERATIONS, count)]
ROWS, COLS = 37, 21


class DeviceBackend(CpuBackend):
    """Plays a device with memory of its own: what crosses is copied and counted, and it computes on its own thread."""

    def __init__(self) -> None:
        super().__init__()
        thread = threading.get_ident()

        def check(operation: str) -> None:
            assert threading.get_ident() == thread, operation

        self.sparse, self.groups = NotedSparse(self, check), NotedGroups(self, check)

    def to_device(self, host: HostArray) -> HostArray:
        self.traffic.to_device += host.nbytes
        return host.copy()

    def to_host(self, array: HostArray) -> HostArray:
        self.traffic.to_host += array.nbytes
        return array.copy()


class HostBackend(CpuBackend):
    """Notes what it was asked for."""

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__(lease=lease)
        self.asked: list[str] = []
        self.sparse = NotedSparse(self, self.asked.append)
        self.groups = NotedGroups(self, self.asked.append)


class NotedSparse(CpuSparse):
    """Tells of each product."""

    def __init__(self, backend: CpuBackend, note: Callable[[str], object]) -> None:
        super().__init__(backend.pool, np.empty)
        self.note = note

    def _spmv(self, *arguments: Any) -> None:
        self.note(SPMV)
        super()._spmv(*arguments)


class NotedGroups(CpuGroups):
    """Tells of each MSM."""

    def __init__(self, backend: CpuBackend, note: Callable[[str], object]) -> None:
        super().__init__(backend.pool, np.empty)
        self.note = note

    def _msm(self, table: Any, *arguments: Any) -> Any:
        self.note(MSM[table.group])
        return super()._msm(table, *arguments)


def matrix(curve: Curve, rng: np.random.Generator) -> CsrMatrix:
    lengths = rng.integers(0, 4, ROWS)
    nnz = int(lengths.sum())
    return CsrMatrix(
        ROWS,
        COLS,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        rng.integers(0, COLS, nnz).astype(np.uint32),
        rng.integers(0, 3, nnz).astype(np.uint32),
        field_from_ints(curve.fr, [1, -1, 12345]),
    )


def points(curve: Curve, group: Group, rng: np.random.Generator) -> HostArray:
    g = curve.g1 if group is Group.G1 else (*curve.g2[0], *curve.g2[1])
    base = field_from_ints(curve.fq, g).reshape(-1)
    return np.asarray(CpuBackend().groups.fixed_base(curve, group, base, scalars(rng)))


def scalars(rng: np.random.Generator) -> HostArray:
    values = rng.integers(0, 1 << 60, (COLS, 4), dtype=np.uint64)
    values[::3, 1:] = 0
    return values


@pytest.mark.parametrize("offload", OFFLOADS, ids=str)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_every_offload_gives_the_same(curve: Curve, offload: Offload) -> None:
    rng = np.random.default_rng(5)
    csr, witness = matrix(curve, rng), scalars(rng)
    bases = {group: points(curve, group, rng) for group in Group}
    alone, host = CpuBackend(), HostBackend()
    device = DeviceBackend()
    with SplitBackend(device, host, offload) as backend:
        product = alone.sparse.spmv(alone.sparse.load_matrix(curve.fr, csr), witness, standard_form=True)
        loaded = backend.sparse.load_matrix(curve.fr, csr)
        staged = backend.stage(witness)
        coming = backend.sparse.stage_spmv(loaded, staged, standard_form=True)
        w = backend.groups.scalars(staged)
        tables = {group: backend.groups.load_points(curve, group, bases[group]) for group in Group}
        for group, table in tables.items():
            reference = alone.groups.load_points(curve, group, bases[group])
            for start in (0, 4):
                expected = alone.groups.msm(reference, witness[start:], start=start).result()
                for values in (w[start:], backend.to_device(witness[start:])):
                    assert np.array_equal(backend.groups.msm(table, values, start=start).result(), expected)
        assert np.array_equal(backend.to_host(coming.array()), product)
        x = staged.array()
        assert np.array_equal(backend.to_host(backend.sparse.spmv(loaded, x, standard_form=True)), product)
        out = backend.empty(product.shape)
        assert backend.sparse.spmv(loaded, x, out, standard_form=True) is out
        assert np.array_equal(backend.to_host(out), product)
        assert set(host.asked) == offload.host
        assert backend.info().details["placement"] == str(offload)


def test_what_is_not_offloaded_is_the_devices_own() -> None:
    device, a = DeviceBackend(), scalars(np.random.default_rng(6))
    with SplitBackend(device, HostBackend(), Offload(frozenset({SPMV, MSM[Group.G1]}))) as backend:
        assert (backend.vectors, backend.goldilocks) == (device.vectors, device.goldilocks)
        w = backend.stage(a).array()  # is an array of the device, of which any operation can be asked
        assert backend.vectors.equal(backend.vectors.add(BN254.fr, w, w), device.vectors.add(BN254.fr, a, a))
        assert np.array_equal(backend.to_host(w), a)
        base = points(BN254, Group.G2, np.random.default_rng(6))[0]
        assert backend.groups.check_points(BN254, Group.G2, backend.groups.fixed_base(BN254, Group.G2, base, w)) is None


def test_a_witness_that_only_the_host_reads_is_not_copied() -> None:
    rng = np.random.default_rng(7)
    device = DeviceBackend()
    with SplitBackend(device, HostBackend(), Offload(frozenset(OPERATIONS))) as backend:
        table = backend.groups.load_points(BN254, Group.G1, points(BN254, Group.G1, rng))
        staged = backend.stage(scalars(rng))
        backend.groups.msm(table, backend.groups.scalars(staged)[:5]).result()
        assert device.traffic.to_device == 0
        staged.release()


def test_the_host_computes_beside_the_device_in_order_and_under_its_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leased_pool, "SMALL", 0)
    rng = np.random.default_rng(8)
    classes: list[str] = []
    go = threading.Event()

    @contextmanager
    def lease(lease_class: str) -> Iterator[int]:
        assert go.wait(60)
        classes.append(lease_class)
        yield 1

    csr = matrix(BN254, rng)
    offload = Offload(frozenset({SPMV, MSM[Group.G2]}))
    with SplitBackend(DeviceBackend(), HostBackend(lease), offload) as backend:
        loaded = backend.sparse.load_matrix(BN254.fr, csr)
        table = backend.groups.load_points(BN254, Group.G2, points(BN254, Group.G2, rng))
        first, second = (backend.stage(scalars(rng)) for _ in range(2))
        pending = backend.groups.msm(table, backend.groups.scalars(first))
        coming = backend.sparse.stage_spmv(loaded, second, standard_form=True)
        backend.vectors.add(BN254.fr, first.array(), first.array())  # the device is not held up by a host that waits
        assert classes == []
        go.set()
        pending.result()
        coming.array()
        assert classes == ["cpu_msm", SPMV]


def test_what_is_released_is_not_computed_and_faults_are_told_where_they_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leased_pool, "SMALL", 0)
    rng = np.random.default_rng(9)
    go = threading.Event()

    def lease(_: str) -> Any:
        assert go.wait(60)
        raise BackendError("no threads to add points")

    host = HostBackend(lease)
    with SplitBackend(DeviceBackend(), host, Offload(frozenset({SPMV, MSM[Group.G1]}))) as backend:
        loaded = backend.sparse.load_matrix(BN254.fr, matrix(BN254, rng))
        table = backend.groups.load_points(BN254, Group.G1, points(BN254, Group.G1, rng))
        staged = backend.stage(scalars(rng))
        w = backend.groups.scalars(staged)
        bad = backend.groups.msm(table, w)
        with pytest.raises(SizeError, match="points"):
            backend.groups.msm(table, w, start=1)
        unwanted = backend.sparse.stage_spmv(loaded, staged)
        unwanted.release()
        unwanted.release()
        go.set()
        with pytest.raises(BackendError, match="points"):
            bad.result()
        backend.synchronize()
        assert SPMV not in host.asked
        with pytest.raises(BackendError, match="released"):
            unwanted.array()


def test_only_what_can_be_placed_is() -> None:
    with pytest.raises(BackendError, match="ntt"):
        Offload(frozenset({"ntt"}))
    with SplitBackend(DeviceBackend(), HostBackend(), Offload(frozenset({SPMV}))) as backend:
        loaded = backend.sparse.load_matrix(BN254.fr, matrix(BN254, np.random.default_rng(1)))
        elsewhere = CpuBackend().stage(np.zeros((COLS, 4), np.uint64))
        with pytest.raises(BackendError, match="staged by another"):
            backend.sparse.stage_spmv(loaded, elsewhere)
    offload = Offload(frozenset({MSM[Group.G1]}))
    with (
        SplitBackend(DeviceBackend(), HostBackend(), offload) as backend,
        pytest.raises(BackendError, match="staged by another"),
    ):
        backend.groups.scalars(elsewhere)
