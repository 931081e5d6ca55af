"""Trees of fractions on the GPU's kernels against those of the CPU, whose proofs stark-backend judges.

The kernels of the GPU run on the host, where a C++ compiler is installed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from distprove.stark.openvm.transcript import Transcript
from kernels.cpu.backend import CpuBackend
from kernels.cpu.openvm.fractions import CpuFractions
from kernels.cuda.babybear import CudaBabyBear
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


def drawn(log_size: int) -> Elements:
    """Random fractions with the ends of the range among them."""
    found = np.random.default_rng(log_size).integers(0, P, (2, 1 << log_size, 4)).astype(np.uint32)
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


@pytest.mark.parametrize(
    ("log_size", "log_alone"), [(0, 10), (1, 10), (2, 10), (3, 0), (5, 0), (7, 1), (8, 10), (11, 4)]
)
def test_the_same_reduction_as_on_the_cpu(log_size: int, log_alone: int, cpu: CpuFractions) -> None:
    device, fractions = EmulatedDevice(), drawn(log_size)
    loaded = CudaOpenVm(device, CudaBabyBear(device)).load(fractions)
    expected, found = cpu.tree(fractions), CudaFractions(device, log_alone).tree(loaded)
    assert np.array_equal(found.root, expected.root)
    sponges = transcript(log_size + 1), transcript(log_size + 1)
    assert same(found.reduce(sponges[0]), expected.reduce(sponges[1]))
    assert sponges[0].state == sponges[1].state
