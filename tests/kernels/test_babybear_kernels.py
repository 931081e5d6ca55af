"""The BabyBear kernels of the CPU against those in NumPy, which public numbers judge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.cpu.babybear import CpuBabyBear
from kernels.cpu.leased_pool import LeasedPool
from kernels.errors import SizeError
from kernels.host import native
from kernels.interface.babybear import BabyBearKernels
from tests.support.numpy_babybear import NumpyBabyBear, drawn

NUMPY = NumpyBabyBear()


@pytest.fixture(scope="module", params=native.variants())
def kernels(request: pytest.FixtureRequest) -> Iterator[BabyBearKernels]:
    pool = LeasedPool(native.load(request.param), 2)
    yield CpuBabyBear(pool)
    pool.close()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5,), (5,)),
        ((3, 1), (1, 7)),
        ((), (4,)),
        ((2, 3, 5), (3, 1)),
        ((2, 1, 5), (2, 3, 5)),
        ((2, 3, 1, 4), (1, 3, 5, 1)),
        ((3, 1, 2), (3, 4, 1)),
        ((1,), (9,)),
        ((0,), (0,)),
        ((1 << 13,), (1 << 13,)),
    ],
)
def test_products_broadcast(kernels: BabyBearKernels, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert np.array_equal(kernels.mul(drawn(*a), drawn(*b)), NUMPY.mul(drawn(*a), drawn(*b)))
    x, y = drawn(*a, 4), drawn(*b, 4)
    assert np.array_equal(kernels.ext_mul(x, y), NUMPY.ext_mul(x, y))


@pytest.mark.parametrize("n", [1, 3, 1 << 11])
def test_rounds_of_sumchecks(kernels: BabyBearKernels, n: int) -> None:
    halves, eq, at = drawn(4, 2 * n, 4), drawn(2 * n, 4), drawn(4)
    assert np.array_equal(kernels.fold(halves, at), NUMPY.fold(halves, at))
    assert np.array_equal(kernels.pair_round(halves[:2], halves[1:3]), NUMPY.pair_round(halves[:2], halves[1:3]))
    assert np.array_equal(kernels.layer_round(eq, halves, at), NUMPY.layer_round(eq, halves, at))


@pytest.mark.parametrize("shape", [(5,), (3, 4), (0,), (), (1 << 13,)])
def test_sums_of_scaled_elements(kernels: BabyBearKernels, shape: tuple[int, ...]) -> None:
    for a in (drawn(*shape), drawn(*shape, 4)):
        found, expected = drawn(*shape, 4), drawn(*shape, 4)
        kernels.add_scaled(found, a, drawn(4))
        NUMPY.add_scaled(expected, a, drawn(4))
        assert np.array_equal(found, expected)
    with pytest.raises(SizeError, match="cannot be added"):
        kernels.add_scaled(drawn(2, 4), drawn(1), drawn(4))


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (3, 7, 300), (4, 0, 5), (2, 600, 3), (0, 2, 2)])
def test_products_of_matrices(kernels: BabyBearKernels, rows: int, inner: int, columns: int) -> None:
    a, b = drawn(rows, inner), drawn(inner, columns)
    assert np.array_equal(kernels.matmul(a, b), NUMPY.matmul(a, b))
    with pytest.raises(SizeError, match="times one"):
        kernels.matmul(a, drawn(inner + 1, columns))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((8,), -1), ((3, 16), -1), ((1,), 0), ((2, 8, 4), -2), ((32, 4), 0), ((3, 1 << 15), -1), ((1, 1 << 13, 4), -2)],
)
def test_transforms(kernels: BabyBearKernels, shape: tuple[int, ...], axis: int) -> None:
    a = drawn(*shape)
    before = a.copy()
    values = kernels.ntt(a, axis)
    assert np.array_equal(values, NUMPY.ntt(a, axis))
    assert np.array_equal(kernels.intt(values, axis), a)
    assert np.array_equal(a, before), "the argument stays as it was"


@pytest.mark.parametrize("shape", [(5, 11), (16, 8), (3, 0), (0, 3), (1, 3), (200, 21)])
def test_hashes_of_rows(kernels: BabyBearKernels, shape: tuple[int, int]) -> None:
    assert np.array_equal(kernels.hash_rows(drawn(*shape)), NUMPY.hash_rows(drawn(*shape)))


@pytest.mark.parametrize("n", [1, 8, 77])
def test_compression(kernels: BabyBearKernels, n: int) -> None:
    left, right = drawn(2 * n, 8)[::2], drawn(2 * n, 8)[1::2]
    assert np.array_equal(kernels.compress(left, right), NUMPY.compress(left, right))


@pytest.mark.parametrize("position", [0, 3, 7])
def test_least_witness(kernels: BabyBearKernels, position: int) -> None:
    state = drawn(16).tolist()
    assert kernels.least_witness(state, position, 0) == 0
    assert kernels.least_witness(state, position, 9) == NUMPY.least_witness(state, position, 9)
    with pytest.raises(SizeError, match="16 elements, not 15"):
        kernels.least_witness(state[:15], position, 9)
