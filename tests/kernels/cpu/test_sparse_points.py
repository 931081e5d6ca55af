"""Sparse matrix times points, against multiples of the generator with known integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.cpu.backend import CpuBackend
from kernels.errors import SizeError
from kernels.interface.arrays import HostArray
from kernels.interface.matrix import CsrMatrix
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import generator, scalars_from_ints

LOGS = [0, 1, 2, 3, 2, 77, 2**100 + 5]
"""Discrete logarithms of the points: infinity, and one point twice."""


def multiples(curve: Curve, group: Group, logs: list[int]) -> HostArray:
    backend = CpuBackend()
    return backend.to_host(
        backend.groups.fixed_base(curve, group, generator(curve, group), scalars_from_ints(curve.fr, logs))
    )


def matrix_of(curve: Curve, cols: int, rows: list[list[tuple[int, int]]]) -> CsrMatrix:
    """From rows of (column, coefficient)."""
    entries = [entry for row in rows for entry in row]
    return CsrMatrix(
        rows=len(rows),
        cols=cols,
        row_ptr=np.cumsum([0, *map(len, rows)]).astype(np.uint32),
        columns=np.array([c for c, _ in entries], dtype=np.uint32),
        value_index=np.arange(len(entries), dtype=np.uint32),
        values=scalars_from_ints(curve.fr, [v for _, v in entries]),
    )


def check(curve: Curve, group: Group, rows: list[list[tuple[int, int]]], threads: int = 1) -> None:
    points = multiples(curve, group, LOGS)
    got = CpuBackend(threads=threads).groups.sparse_product(curve, group, matrix_of(curve, len(LOGS), rows), points)
    expected = [sum(LOGS[c] * v for c, v in row) for row in rows]
    np.testing.assert_array_equal(got, multiples(curve, group, expected))


@pytest.mark.parametrize("group", Group)
@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.title)
def test_rows_of_every_kind(curve: Curve, group: Group) -> None:
    r = curve.fr.modulus
    rows = [
        [],
        [(1, 1)],
        [(1, -1)],
        [(0, 5), (0, 1)],
        [(2, 0)],
        [(2, 1), (4, 1)],  # the same point twice
        [(2, 1), (4, -1)],  # and opposite
        [(2, 7), (4, -7)],
        [(1, 2), (2, 3), (3, -15), (5, 16), (5, 17)],
        [(6, r - 2), (5, r // 2), (3, r // 2 + 1), (1, 2**253)],
        [(i % 7, (i * 2**190 + i) % r) for i in range(150)],  # several groups of windows
    ]
    check(curve, group, rows, threads=2)


@given(st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(-(2**255), 2**255)), max_size=5), max_size=6))
@settings(max_examples=30)
def test_random_rows(rows: list[list[tuple[int, int]]]) -> None:
    check(BN254, Group.G1, rows)


def test_rows_longer_than_a_task_are_shared() -> None:
    rows = [[(1, 1)] * 3, [(i % 7, i % 5 - 2) for i in range(10_000)], [], [(3, 1)] * 5000]
    check(BN254, Group.G1, rows, threads=2)


def test_views_at_odd_addresses() -> None:
    points = multiples(BN254, Group.G1, [5, 6])
    shifted = np.frombuffer(b"x" + points.tobytes(), dtype=np.uint8)[1:].reshape(2, 64)
    got = CpuBackend().groups.sparse_product(BN254, Group.G1, matrix_of(BN254, 2, [[(0, 2), (1, 3)]]), shifted)
    np.testing.assert_array_equal(got, multiples(BN254, Group.G1, [28]))


def test_matrices_that_do_not_fit_are_refused() -> None:
    points = multiples(BN254, Group.G1, [1, 2])
    good = matrix_of(BN254, 2, [[(0, 1)], [(1, 1)]])
    groups = CpuBackend().groups
    with pytest.raises(SizeError, match="3 columns"):
        groups.sparse_product(BN254, Group.G1, matrix_of(BN254, 3, [[(0, 1)]]), points)
    for change, message in (
        ({"columns": np.array([0, 2], dtype=np.uint32)}, "column beyond"),
        ({"value_index": np.array([0, 2], dtype=np.uint32)}, "value beyond"),
        ({"row_ptr": np.array([0, 2], dtype=np.uint32)}, "2 rows"),
        ({"row_ptr": np.array([0, 3, 2], dtype=np.uint32)}, "does not rise"),
    ):
        bad = CsrMatrix(**{**good.__dict__, **change})
        with pytest.raises(SizeError, match=message):
            groups.sparse_product(BN254, Group.G1, bad, points)
