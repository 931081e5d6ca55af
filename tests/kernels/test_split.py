"""A backend in two parts computes what either part alone would, wherever its operations are placed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from kernels.cpu import backend as cpu
from kernels.cpu.backend import CpuBackend
from kernels.errors import BackendError
from kernels.interface.arrays import HostArray
from kernels.interface.backend import CsrMatrix
from kernels.interface.leases import SPMV, Lease
from kernels.interface.placement import MSM, OPERATIONS, Placement
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import field_from_ints
from kernels.split import PlacedBackend

PLACEMENTS = [Placement(frozenset(some)) for count in range(4) for some in combinations(OPERATIONS, count)]
ROWS, COLS = 37, 21


class DeviceBackend(CpuBackend):
    """Plays a device with memory of its own: what crosses is copied and counted, and it computes on its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def to_device(self, host: HostArray) -> HostArray:
        self.traffic.to_device += host.nbytes
        return host.copy()

    def to_host(self, array: HostArray) -> HostArray:
        self.traffic.to_host += array.nbytes
        return array.copy()

    def spmv(self, *arguments: Any, **options: Any) -> Any:
        assert threading.get_ident() == self.thread
        return super().spmv(*arguments, **options)

    def msm(self, *arguments: Any, **options: Any) -> Any:
        assert threading.get_ident() == self.thread
        return super().msm(*arguments, **options)


class HostBackend(CpuBackend):
    """Notes what it was asked for."""

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__(lease=lease)
        self.asked: list[str] = []

    def spmv(self, *arguments: Any, **options: Any) -> Any:
        self.asked.append(SPMV)
        return super().spmv(*arguments, **options)

    def msm(self, table: Any, *arguments: Any, **options: Any) -> Any:
        self.asked.append(MSM[table.group])
        return super().msm(table, *arguments, **options)


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
    return np.asarray(CpuBackend().fixed_base(curve, group, base, scalars(rng)))


def scalars(rng: np.random.Generator) -> HostArray:
    values = rng.integers(0, 1 << 60, (COLS, 4), dtype=np.uint64)
    values[::3, 1:] = 0
    return values


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_every_placement_gives_the_same(curve: Curve, placement: Placement) -> None:
    rng = np.random.default_rng(5)
    csr, witness = matrix(curve, rng), scalars(rng)
    bases = {group: points(curve, group, rng) for group in Group}
    alone, host = CpuBackend(), HostBackend()
    device = DeviceBackend()
    with PlacedBackend(device, host, placement) as backend:
        product = alone.spmv(alone.load_matrix(curve.fr, csr), witness, standard_form=True)
        loaded = backend.load_matrix(curve.fr, csr)
        staged = backend.stage(witness)
        coming = backend.stage_spmv(loaded, staged, standard_form=True)
        w = staged.array()
        tables = {group: backend.load_points(curve, group, bases[group]) for group in Group}
        for group, table in tables.items():
            reference = alone.load_points(curve, group, bases[group])
            for start in (0, 4):
                expected = alone.msm(reference, witness[start:], start=start).result()
                for values in (w[start:], backend.to_device(witness[start:])):  # staged rows, and others on the device
                    assert np.array_equal(backend.msm(table, values, start=start).result(), expected)
        assert np.array_equal(backend.to_host(coming.array()), product)
        assert np.array_equal(backend.to_host(backend.spmv(loaded, w, standard_form=True)), product)
        out = backend.empty(product.shape)
        assert backend.spmv(loaded, w, out, standard_form=True) is out
        assert np.array_equal(backend.to_host(out), product)
        assert set(host.asked) == placement.host
        assert backend.info().details["placement"] == str(placement)


def test_arrays_of_both_sides_meet_in_any_operation() -> None:
    rng = np.random.default_rng(6)
    field, a = BN254.fr, scalars(rng)
    alone = CpuBackend()
    with PlacedBackend(DeviceBackend(), HostBackend(), Placement(frozenset({SPMV}))) as backend:
        w = backend.stage(a).array()
        b = backend.to_device(a)
        for name in ("add", "sub", "mul"):
            assert np.array_equal(getattr(backend, name)(field, w, b), getattr(alone, name)(field, a, a))
        for name in ("to_montgomery", "from_montgomery", "batch_inverse"):
            assert np.array_equal(getattr(backend, name)(field, w), getattr(alone, name)(field, a))
        assert np.array_equal(backend.mul_sub(field, w, b, w), alone.mul_sub(field, a, a, a))
        assert np.array_equal(backend.scale_powers(field, w, 7), alone.scale_powers(field, a, 7))
        assert backend.equal(w, b)
        assert np.array_equal(backend.to_host(w), a)


def test_a_witness_that_only_the_host_reads_is_not_copied() -> None:
    rng = np.random.default_rng(7)
    device = DeviceBackend()
    with PlacedBackend(device, HostBackend(), Placement(frozenset(OPERATIONS))) as backend:
        table = backend.load_points(BN254, Group.G1, points(BN254, Group.G1, rng))
        staged = backend.stage(scalars(rng))
        backend.msm(table, staged.array()[:5]).result()
        assert device.traffic.to_device == 0
        staged.release()


def test_the_host_computes_beside_the_device_in_order_and_under_its_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "SMALL", 0)
    rng = np.random.default_rng(8)
    phases: list[str] = []
    go = threading.Event()

    @contextmanager
    def lease(phase: str) -> Iterator[int]:
        assert go.wait(60)
        phases.append(phase)
        yield 1

    csr = matrix(BN254, rng)
    placement = Placement(frozenset({SPMV, MSM[Group.G2]}))
    with PlacedBackend(DeviceBackend(), HostBackend(lease), placement) as backend:
        loaded = backend.load_matrix(BN254.fr, csr)
        table = backend.load_points(BN254, Group.G2, points(BN254, Group.G2, rng))
        first, second = (backend.stage(scalars(rng)) for _ in range(2))
        pending = backend.msm(table, first.array())
        coming = backend.stage_spmv(loaded, second, standard_form=True)
        backend.add(BN254.fr, first.array(), first.array())  # the device is not held up by a host that waits
        assert phases == []
        go.set()
        pending.result()
        coming.array()
        assert phases == ["cpu_msm", SPMV]


def test_what_is_released_is_not_computed_and_faults_are_told_where_they_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "SMALL", 0)
    rng = np.random.default_rng(9)
    go = threading.Event()

    @contextmanager
    def lease(_: str) -> Iterator[int]:
        assert go.wait(60)
        yield 1

    host = HostBackend(lease)
    with PlacedBackend(DeviceBackend(), host, Placement(frozenset({SPMV, MSM[Group.G1]}))) as backend:
        loaded = backend.load_matrix(BN254.fr, matrix(BN254, rng))
        table = backend.load_points(BN254, Group.G1, points(BN254, Group.G1, rng))
        staged = backend.stage(scalars(rng))
        bad = backend.msm(table, staged.array(), start=COLS)
        unwanted = backend.stage_spmv(loaded, staged)
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
        Placement(frozenset({"ntt"}))
    with PlacedBackend(DeviceBackend(), HostBackend(), Placement(frozenset({SPMV}))) as backend:
        loaded = backend.load_matrix(BN254.fr, matrix(BN254, np.random.default_rng(1)))
        elsewhere = CpuBackend().stage(np.zeros((COLS, 4), np.uint64))
        with pytest.raises(BackendError, match="staged by another"):
            backend.stage_spmv(loaded, elsewhere)
