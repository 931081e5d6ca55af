"""The multilinear kernels of every instruction set against their definition in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from distprove.stark.multilinear import plain
from kernels.cpu.backend import CpuBackend
from kernels.cpu.goldilocks.multilinear import CpuMultilinear
from kernels.errors import SizeError
from kernels.maths.goldilocks import P, root_of_unity

EDGES = [0, 1, P - 1, P - 2, 0xFFFFFFFF, 1 << 32, (1 << 63) + 1]


def random(*shape: int) -> np.ndarray:
    values = np.random.default_rng(sum(shape)).integers(0, P, shape, dtype=np.uint64)
    flat = values.reshape(-1)
    flat[: len(EDGES)] = np.array(EDGES, dtype=np.uint64)[: len(flat)]
    return values


def sets() -> list[str]:
    with CpuBackend(threads=1) as backend:
        return list(backend.pool.native.gl_instruction_sets())


@pytest.mark.parametrize("instruction_set", sets())
@pytest.mark.parametrize(
    ("log_n", "log_blowup"), [(0, 0), (0, 1), (1, 1), (3, 0), (4, 2), (6, 1), (7, 0), (9, 3), (13, 1)]
)
def test_codewords_are_the_polynomials_values(instruction_set: str, log_n: int, log_blowup: int) -> None:
    coefficients = random(3, 1 << log_n)
    with CpuBackend(threads=2) as backend:
        kernels = CpuMultilinear(backend.pool.native, backend.pool.threads, np.empty, instruction_set=instruction_set)
        found = kernels.encode(coefficients, log_blowup)
    assert found.shape == (3, 1 << log_blowup, 1 << log_n)
    places = np.random.default_rng(1).integers(0, 1 << log_n + log_blowup, 12).tolist()
    for c, row in enumerate(coefficients.tolist()):
        for i in places:
            x, value = pow(root_of_unity(log_n + log_blowup), i, P), 0
            for a in reversed(row):
                value = (value * x + a) % P
            assert int(found[c, i % (1 << log_blowup), i >> log_blowup]) == value


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("size", "rows", "runs"), [(1, 1, 8), (16, 16, 4), (16, 3, 512), (64, 64, 2), (2, 5, 4096)])
def test_a_matrix_is_applied_to_every_run(threads: int, size: int, rows: int, runs: int) -> None:
    columns, matrix = random(2, size * runs), random(rows, size)
    with CpuBackend(threads=threads) as backend:
        found = backend.multilinear.apply_runs(columns, matrix)
    expected = [
        sum(a * b for a, b in zip(row, run, strict=True)) % P
        for run in columns.reshape(-1, size).tolist()
        for row in matrix.tolist()
    ]
    assert found.reshape(-1).tolist() == expected
    assert np.array_equal(plain.apply_runs(columns, matrix), found)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("size", "sets_", "runs"), [(1, 3, 8), (16, 12, 4), (16, 3, 4096), (64, 6, 2)])
def test_weighted_sums_of_runs(threads: int, size: int, sets_: int, runs: int) -> None:
    columns, weights = random(2, size * runs), random(sets_, 2 * runs)
    with CpuBackend(threads=threads) as backend:
        found = backend.multilinear.sum_runs(columns, weights, size)
    of_runs = columns.reshape(-1, size).tolist()
    for own, row in zip(weights.tolist(), found.tolist(), strict=True):
        expected = [sum(w * run[a] for w, run in zip(own, of_runs, strict=True)) % P for a in range(size)]
        assert row == expected
    assert np.array_equal(plain.sum_runs(columns, weights, size), found)


def test_transform_without_the_family() -> None:
    columns = random(2, 64)
    with CpuBackend(threads=1) as backend:
        expected = backend.multilinear.encode(columns, 0).reshape(2, 64)
        assert np.array_equal(plain.transform(backend.goldilocks, backend, columns), expected)


def test_what_does_not_fit_is_refused() -> None:
    with CpuBackend(threads=1) as backend:
        kernels = backend.multilinear
        with pytest.raises(SizeError):
            kernels.encode(random(1, 3), 1)
        with pytest.raises(SizeError):
            kernels.encode(random(1, 4), 31)
        with pytest.raises(SizeError):
            kernels.apply_runs(random(1, 4), random(2, 3))
        with pytest.raises(SizeError):
            kernels.sum_runs(random(1, 4), random(3, 4), 2)
