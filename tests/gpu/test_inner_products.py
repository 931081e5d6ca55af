"""Inner products on a real GPU, held to the CPU backend: products of pairings, multiples, folds, whole aggregates."""

from __future__ import annotations

import pytest

from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import CURVES, Curve, Group
from tests.support import inner_product_cases as cases

pytestmark = pytest.mark.gpu
each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)


@each_curve
@pytest.mark.parametrize("n", [11, 3000])
def test_products_of_pairings(cuda: CudaBackend, curve: Curve, n: int) -> None:
    cases.check_products(cuda, curve, n)


@each_curve
def test_more_pairs_than_a_thread_takes(cuda: CudaBackend, curve: Curve) -> None:
    cases.check_repeated_pairs(cuda, curve, 256 * 5 * cuda.device.sm_count + 5)


@each_curve
@pytest.mark.parametrize("group", list(Group), ids=lambda g: g.name)
@pytest.mark.parametrize("n", [10, 3000])
def test_scaled_and_folded(cuda: CudaBackend, curve: Curve, group: Group, n: int) -> None:
    cases.check_scaled_and_folded(cuda, curve, group, n)


@each_curve
def test_an_aggregate_is_that_of_the_cpu(cuda: CudaBackend, curve: Curve) -> None:
    cases.check_aggregate(cuda, curve)
