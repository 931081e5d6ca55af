"""Inner products on the CUDA backend over emulated kernels, held to the CPU backend."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from distprove.groth16.aggregate.prover import aggregate
from kernels.cpu.backend import CpuBackend
from kernels.cuda.backend import CudaBackend
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import scalars_from_ints
from tests.support.aggregates import keys_of, secret_of
from tests.support.simulated_proofs import multiple

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)


def vector(curve: Curve, group: Group, n: int, seed: int) -> NDArray[np.uint64]:
    rng = random.Random(seed)
    logs = [rng.randrange(curve.fr.modulus) for _ in range(n)]
    return np.stack([multiple(curve, group, k) for k in logs])


@each_curve
def test_products_of_pairings(emulated: CudaBackend, curve: Curve) -> None:
    g1, g2 = vector(curve, Group.G1, 11, 1), vector(curve, Group.G2, 11, 2)
    g1[4] = g2[6] = 0
    products = [[(g1, g2)], [], [(g1[:1], g2[1:2]), (g1[7:9], g2[8:10])], [(g1[4:5], g2[4:5])]]
    with CpuBackend() as cpu:
        expected = cpu.inner_products.pairing_products(curve, products).result()
        nothing = cpu.inner_products.pairing_products(curve, [[]]).result()
    made = emulated.inner_products.pairing_products(curve, products).result()
    assert np.array_equal(made, expected)
    assert np.array_equal(
        emulated.inner_products.pairing_products(curve, [[], []]).result(), np.concatenate([nothing] * 2)
    )


def test_more_pairs_than_a_thread_takes(emulated: CudaBackend) -> None:
    """Chunks of several pairs, and products of more values than one thread multiplies."""
    few = 256 * 4 * 3 + 5  # of an emulated device of four multiprocessors: three pairs for a thread
    g1, g2 = (np.tile(vector(BN254, group, 3, 3), (few // 3 + 1, 1))[:few].copy() for group in Group)
    with CpuBackend() as cpu:
        expected = cpu.inner_products.pairing_products(BN254, [[(g1, g2)]]).result()
    assert np.array_equal(emulated.inner_products.pairing_products(BN254, [[(g1, g2)]]).result(), expected)


@each_curve
@pytest.mark.parametrize("group", list(Group), ids=lambda g: g.name)
def test_scaled_and_folded(emulated: CudaBackend, curve: Curve, group: Group) -> None:
    rng, r = random.Random(4), curve.fr.modulus
    points = vector(curve, group, 10, 5)
    points[3] = 0
    points[6] = points[1]  # summands that are equal, below
    scalars = scalars_from_ints(curve.fr, [0, 1, 2, 3, r - 1, r // 2, *(rng.randrange(r) for _ in range(4))])
    with CpuBackend() as cpu:
        ours, theirs = emulated.inner_products, cpu.inner_products
        assert np.array_equal(ours.scaled(curve, group, points, scalars), theirs.scaled(curve, group, points, scalars))
        for x in (0, 1, r - 1, rng.randrange(r)):
            vectors = points, points[2:8], points[:0]
            expected = theirs.folded(curve, group, vectors, x)
            for made, known in zip(ours.folded(curve, group, vectors, x), expected, strict=True):
                assert np.array_equal(made, known)


def test_an_aggregate_is_that_of_the_cpu(emulated: CudaBackend) -> None:
    proofs = [secret_of(BN254).prove([i, 2], seed=i) for i in range(4)]
    with CpuBackend() as cpu:
        expected = aggregate(keys_of(BN254), proofs, b"", cpu).to_bytes()
    assert aggregate(keys_of(BN254), proofs, b"", emulated).to_bytes() == expected
