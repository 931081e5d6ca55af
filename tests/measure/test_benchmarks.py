"""Benchmarks run, check their results, and notice a wrong one. No test asserts a time."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.errors import JobFailed
from distprove.measure import msm, ntt
from kernels.cpu.backend import CpuBackend
from kernels.interface.arrays import Array
from kernels.maths.curves import BLS12_381, BN254, Field, Group


@pytest.fixture
def backend() -> CpuBackend:
    return CpuBackend(threads=2)


def silent(_: str) -> None:
    return


def test_msm_rows(backend: CpuBackend) -> None:
    rows = msm.bench_msm(backend, [BN254], list(Group), [5], 2, silent)
    assert [(row.what, row.variant) for row in rows] == [
        ("msm g1", "uniform"),
        ("msm g1", "witness"),
        ("msm g2", "uniform"),
        ("msm g2", "witness"),
    ]
    assert all(row.timing.median > 0 for row in rows)
    assert rows[0].fraction is not None
    assert rows[1].fraction is None


def test_known_points_notice_a_wrong_result(backend: CpuBackend) -> None:
    for curve in (BN254, BLS12_381):
        points = msm.KnownPoints.make(backend, curve, Group.G1, 40)
        table = points.load()
        scalars = msm.draw_scalars(curve.fr, 40, msm.WITNESS)
        scalars[0, 0] = 1
        right = backend.groups.msm(table, scalars).result()
        points.check(scalars, right)
        wrong = scalars.copy()
        wrong[0] = 0
        with pytest.raises(JobFailed, match="wrong"):
            points.check(wrong, right)


def test_column_sums_fold_repeated_points() -> None:
    scalars = np.array([[2**64 - 1, 1], [5, 0], [2**64 - 1, 2], [7, 0]], dtype=np.uint64)
    assert msm._column_sums(scalars, 2) == [2 * (2**64 - 1) + 3 * 2**64, 12]
    assert msm._column_sums(scalars, 8) == [2**64 - 1 + 2**64, 5, 2**64 - 1 + 2 * 2**64, 7]


def test_ntt_rows_and_a_wrong_transform(backend: CpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ntt.bench_ntt(backend, [BLS12_381], [4], 2, silent)
    assert {row.variant for row in rows} == set(ntt.VARIANTS)

    def identity(field: Field, a: Array, **options: object) -> Array:
        return a

    monkeypatch.setattr(backend.vectors, "ntt", identity)
    with pytest.raises(JobFailed, match="wrong"):
        ntt.check(backend, BN254.fr, 4)
