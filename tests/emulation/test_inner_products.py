"""Inner products on the CUDA backend over emulated kernels, held to the CPU backend."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import BN254, CURVES, Curve, Group
from tests.support import inner_product_cases as cases
from tests.support.emulated_device import EmulatedDevice, compiler

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)


@each_curve
def test_products_of_pairings(emulated: CudaBackend, curve: Curve) -> None:
    cases.check_products(emulated, curve, 11)


@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_more_pairs_than_a_thread_takes() -> None:
    """Chunks of several pairs, and products of more values than one thread multiplies."""
    backend = CudaBackend(EmulatedDevice(sm_count=1))
    cases.check_repeated_pairs(backend, BN254, 256 * 3 + 5)  # of one multiprocessor: three pairs for a thread


@each_curve
@pytest.mark.parametrize("group", list(Group), ids=lambda g: g.name)
def test_scaled_and_folded(emulated: CudaBackend, curve: Curve, group: Group) -> None:
    cases.check_scaled_and_folded(emulated, curve, group, 10)


@each_curve
def test_an_aggregate_is_that_of_the_cpu(emulated: CudaBackend, curve: Curve) -> None:
    cases.check_aggregate(emulated, curve, count=4)  # two rounds, of which the last is the host's where it is to be
