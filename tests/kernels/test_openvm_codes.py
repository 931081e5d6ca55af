"""Codewords and trees of OpenVM's commitments: the GPU's kernels on the host against those of the CPU in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kernels.cpu.openvm.kernels import CpuOpenVm
from kernels.cuda.backend import CudaBackend
from kernels.cuda.openvm.codes import pass_bits
from kernels.errors import SizeError
from kernels.interface.openvm import OpenVmKernels
from kernels.interface.openvm_codes import Place
from kernels.maths.babybear_ntt import ntt
from tests.support.emulated_device import EmulatedDevice, compiler
from tests.support.numpy_babybear import NumpyBabyBear, drawn

NUMPY = CpuOpenVm(NumpyBabyBear())


@pytest.fixture(scope="module")
def cuda() -> Iterator[OpenVmKernels]:
    if compiler() is None:
        pytest.skip("no C++ compiler to build the kernels for the host")
    with CudaBackend(EmulatedDevice()) as backend:
        yield backend.openvm


def test_matrices_are_stacked(cuda: OpenVmKernels) -> None:
    matrices = [drawn(3, 16), drawn(0, 8), drawn(5, 8), drawn(3, 2), drawn(1, 1)]
    places = [Place(0, 0), Place(48, 0), Place(48, 0), Place(88, 2), Place(112, 3)]
    expected = NUMPY.codes.stack(matrices, places, 9, 4)
    assert np.array_equal(expected.reshape(-1)[:48], matrices[0].reshape(-1))
    assert np.array_equal(expected.reshape(-1)[88:112:4], matrices[3].reshape(-1))
    assert np.count_nonzero(expected) == sum(np.count_nonzero(each) for each in matrices)
    found = cuda.codes.stack([cuda.load(each) for each in matrices], places, 9, 4)
    assert np.array_equal(cuda.download(found), expected)


@pytest.mark.parametrize("log_n", range(28))
def test_passes_take_all_bits(log_n: int) -> None:
    bits = list(pass_bits(log_n))
    assert sum(bits) == log_n
    assert max(bits) <= 8
    assert len(bits) <= 4
    assert min(bits) >= min(log_n, 1)


@pytest.mark.parametrize(
    ("width", "log_n", "log_skip", "log_blowup", "log_fold"),
    [
        (1, 0, 0, 1, 1),
        (3, 1, 1, 1, 0),
        (1, 2, 0, 2, 2),
        (7, 3, 2, 1, 2),
        (9, 4, 4, 1, 4),
        (5, 5, 4, 2, 3),
        (3, 7, 4, 1, 4),
        (17, 8, 3, 1, 4),
        (2, 8, 8, 1, 8),
        (3, 9, 4, 1, 4),
        (2, 10, 2, 3, 2),
        (2, 12, 5, 1, 4),
        (1, 11, 4, 1, 4),
        (1, 13, 4, 1, 3),
        (1, 14, 2, 1, 4),
        (1, 15, 4, 1, 2),
        (1, 16, 4, 1, 4),
    ],
)
def test_commitments_of_columns(
    cuda: OpenVmKernels, width: int, log_n: int, log_skip: int, log_blowup: int, log_fold: int
) -> None:
    columns = drawn(width, 1 << log_n)
    shape = log_skip, log_blowup, log_fold
    expected, found = NUMPY.codes.commit(columns, *shape), cuda.codes.commit(cuda.load(columns), *shape)
    assert np.array_equal(found.root, expected.root)
    leaves = 1 << (log_n + log_blowup - log_fold)
    queries = np.unique(np.concatenate(([0, leaves - 1], np.random.default_rng(1).integers(0, leaves, 5))))
    [theirs] = NUMPY.codes.open([expected], queries)
    ours, again = cuda.codes.open([found, found], queries)
    assert np.array_equal(ours.rows, theirs.rows)
    assert np.array_equal(ours.paths, theirs.paths)
    assert np.array_equal(again.rows, theirs.rows)


@pytest.mark.parametrize(("log_n", "log_blowup", "log_fold"), [(0, 2, 1), (3, 4, 4), (9, 4, 2), (11, 3, 4)])
def test_commitments_of_coefficients(cuda: OpenVmKernels, log_n: int, log_blowup: int, log_fold: int) -> None:
    coefficients = drawn(4, 1 << log_n)
    expected = NUMPY.codes.commit_coefficients(coefficients, log_blowup, log_fold)
    found = cuda.codes.commit_coefficients(cuda.load(coefficients), log_blowup, log_fold)
    assert np.array_equal(found.root, expected.root)
    [opened] = cuda.codes.open([found], np.array([0]))
    padded = np.zeros((4, 1 << (log_n + log_blowup)), dtype=np.uint32)
    padded[:, : 1 << log_n] = coefficients
    step = 1 << (log_n + log_blowup - log_fold)
    assert np.array_equal(opened.rows[0], ntt(padded)[:, ::step].T)


def test_no_columns(cuda: OpenVmKernels) -> None:
    columns = np.zeros((0, 8), dtype=np.uint32)
    expected, found = NUMPY.codes.commit(columns, 2, 1, 2), cuda.codes.commit(cuda.load(columns), 2, 1, 2)
    assert np.array_equal(found.root, expected.root)
    [ours], [theirs] = (k.open([tree], np.array([1])) for k, tree in ((cuda.codes, found), (NUMPY.codes, expected)))
    assert np.array_equal(ours.rows, theirs.rows)
    assert np.array_equal(ours.paths, theirs.paths)


@pytest.mark.parametrize("position", [0, 7])
def test_least_witnesses(cuda: OpenVmKernels, position: int) -> None:
    state = drawn(16).tolist()
    for bits in (0, 9):
        assert cuda.least_witness(state, position, bits) == NUMPY.least_witness(state, position, bits)
    with pytest.raises(SizeError, match="16 elements"):
        cuda.least_witness(state[:15], position, 9)
