"""The tables of OpenVM's opening argument: the GPU's kernels on the host against those of the CPU in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.cpu.openvm.kernels import CpuOpenVm
from kernels.cpu.openvm.opening import CpuOpenings
from kernels.cpu.openvm.tables import eq_table, message
from kernels.cuda.backend import CudaBackend
from kernels.interface.openvm import OpenVmKernels
from kernels.maths.babybear import P, add, ext, ext_dot, ext_mul, ext_powers, mul
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.numpy_babybear import NumpyBabyBear, drawn

NUMPY = CpuOpenVm(NumpyBabyBear())


@pytest.fixture(scope="module")
def cuda() -> Iterator[OpenVmKernels]:
    if compiler() is None:
        pytest.skip("no C++ compiler to build the kernels for the host")
    with CudaBackend(EmulatedDevice()) as backend:
        yield backend.openvm


@pytest.mark.parametrize(
    ("widths", "log_n", "log_skip", "folds"),
    [
        ([1], 1, 0, [1]),
        ([3, 2], 2, 1, [1, 1]),
        ([2, 0, 5], 5, 4, [2, 3]),
        ([8], 9, 3, [4, 4]),
        ([3, 1], 11, 4, [4, 4, 2]),
        ([1], 14, 4, [4, 4]),
        ([], 3, 1, [2]),
    ],
)
def test_openings(cuda: OpenVmKernels, widths: list[int], log_n: int, log_skip: int, folds: list[int]) -> None:
    columns = [drawn(width, 1 << log_n) for width in widths]
    powers, point = drawn(sum(widths), 4), list(drawn(log_n, 4))
    theirs = NUMPY.opening.begin(columns, powers, log_skip, point)
    ours = cuda.opening.begin([cuda.load(each) for each in columns], powers, log_skip, point)
    rng, left = np.random.default_rng(3), log_n
    for folded in folds:
        for _ in range(folded):
            assert np.array_equal(ours.sums(), theirs.sums())
            challenge = rng.integers(0, P, 4).astype(np.uint32)
            ours.bind(challenge)
            theirs.bind(challenge)
        left -= folded
        expected = theirs.coefficients
        assert np.array_equal(cuda.download(ours.coefficients), expected)
        at = rng.integers(0, P, 4).astype(np.uint32)
        assert np.array_equal(ours.evaluate(at), theirs.evaluate(at))
        assert np.array_equal(theirs.evaluate(at), ext_dot(np.ascontiguousarray(expected.T), ext_powers(at, 1 << left)))
        if left:
            points, factors = drawn(2 * left + 1), drawn(2 * left + 2, 4)
            ours.add_points(at, points, factors)
            theirs.add_points(at, points, factors)
    if left:
        assert np.array_equal(ours.sums(), theirs.sums())


def test_the_claim_is_the_message_at_the_point() -> None:
    k, columns, powers, point = NumpyBabyBear(), drawn(2, 64), drawn(2, 4), list(drawn(6, 4))
    opening = CpuOpenings(k).begin([columns], powers, 2, point)
    own = message(k, columns, 2)
    combined = add(mul(own[0][:, None], powers[0]), mul(own[1][:, None], powers[1]))
    assert np.array_equal(opening.coefficients, combined.T)
    # The message has the coefficients of the values, and has values on the cube itself: those at the point.
    assert np.array_equal(ext_dot(opening.values, opening.weights), ext_dot(combined, eq_table(k, point)))


def test_points_are_added_with_their_factors() -> None:
    k, columns, point = NumpyBabyBear(), drawn(1, 16), list(drawn(4, 4))
    opening = CpuOpenings(k).begin([columns], ext(np.ones(1, dtype=np.uint32)), 0, point)
    expected, outside, points, factors = opening.weights, drawn(4), drawn(3), drawn(4, 4)
    opening.add_points(outside, points, factors)
    for z, factor in zip([outside, *ext(points)], factors, strict=True):
        squares = [z]
        while len(squares) < 4:
            squares.append(ext_mul(squares[-1], squares[-1]))
        expected = add(expected, eq_table(k, squares, factor))
    assert np.array_equal(opening.weights, expected)
