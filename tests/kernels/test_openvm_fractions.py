"""Trees of fractions on the GPU's kernels against those of the CPU, whose proofs stark-backend judges.

The kernels of the GPU run on the host, where a C++ compiler is installed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from distprove.stark.openvm.transcript import Transcript
from kernels.cpu.backend import CpuBackend
from kernels.cpu.openvm.fractions import CpuFractions
from kernels.cuda.openvm.fractions import CudaFractions
from kernels.cuda.openvm.kernels import CudaOpenVm
from kernels.interface.openvm_fractions import ReducedFractions
from kernels.maths.babybear import Elements, P
from tests.support.emulated_device import EmulatedDevice, compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C++ compiler to build the kernels for the host")


@pytest.fixture(scope="module")
def cpu() -> Iterator[CpuFractions]:
    backend = CpuBackend(threads=2)
    yield CpuFractions(backend.babybear)
    backend.close()


def drawn(*shape: int) -> Elements:
    """Random elements with the ends of the range among them."""
    found = np.random.default_rng(sum(shape)).integers(0, P, shape).astype(np.uint32)
    found.reshape(-1)[::7], found.reshape(-1)[3::7] = P - 1, 0
    return found


def transcript(observed: int) -> Transcript:
    begun = Transcript()
    begun.observe_words(np.arange(observed, dtype=np.uint32))
    if observed % 3 == 0:
        begun.sample()
    return begun


def same(a: ReducedFractions, b: ReducedFractions) -> bool:
    lists = [(a.claims, b.claims), *zip(a.rounds, b.rounds, strict=True), *zip(a.point, b.point, strict=True)]
    return all(np.array_equal(x, y) for x, y in lists)


SIZES = (
    (0, 1, 10),
    (1, 1, 10),
    (1, 2, 10),
    (2, 3, 10),
    (3, 8, 0),
    (4, 13, 0),
    (4, 13, 10),
    (4, 12, 10),
    (5, 24, 0),
    (6, 64, 1),
    (5, 17, 0),
    (6, 33, 10),
    (7, 64, 1),
    (7, 128, 10),
    (8, 129, 10),
    (9, 257, 0),
    (10, 1023, 3),
    (11, 1300, 4),
)
"""log2 of all fractions, those that are not padding, and log2 of the pairs of rows that one block does alone."""


@pytest.mark.parametrize(("log_size", "count", "log_alone"), SIZES)
def test_the_same_reduction_as_on_the_cpu(log_size: int, count: int, log_alone: int, cpu: CpuFractions) -> None:
    device, numerators, denominators, padding = EmulatedDevice(), drawn(count), drawn(count, 4), drawn(1, 4)[0]
    gpu = CudaOpenVm(device)
    expected = cpu.tree(numerators, denominators, log_size, padding)
    loaded = gpu.load(numerators), gpu.load(denominators)
    found = CudaFractions(device, log_alone).tree(*loaded, log_size, padding)
    assert np.array_equal(found.root, expected.root)
    sponges = transcript(log_size + 1), transcript(log_size + 1)
    assert same(found.reduce(sponges[0]), expected.reduce(sponges[1]))
    assert sponges[0].state == sponges[1].state
