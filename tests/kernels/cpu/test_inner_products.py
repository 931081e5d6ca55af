"""Inner products and folded vectors, held to single pairings and single points."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kernels.cpu import group as single
from kernels.cpu.backend import CpuBackend
from kernels.cpu.pairing import pairing_product
from kernels.errors import SizeError
from kernels.maths.curves import BN254, CURVES, Curve, Group
from kernels.maths.encoding import scalars_from_ints
from tests.support.simulated_proofs import multiple

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
both_groups = pytest.mark.parametrize("group", list(Group), ids=lambda g: g.name)


def vector(curve: Curve, group: Group, logs: list[int]) -> np.ndarray:
    return np.stack([multiple(curve, group, k) for k in logs])


@each_curve
@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_pairings(curve: Curve, threads: int) -> None:
    rng, r = random.Random(1), curve.fr.modulus
    n = 70  # more than two Miller loops
    a, b = ([rng.randrange(r) for _ in range(n)] for _ in range(2))
    a[3] = b[5] = 0
    g1, g2 = vector(curve, Group.G1, a), vector(curve, Group.G2, b)
    with CpuBackend(threads=threads) as cpu:
        made = cpu.inner_products.pairing_products(
            curve, [[(g1, g2)], [], [(g1[:1], g2[1:2]), (g1[7:9], g2[8:10])], [(g1[:0], g2[:0])]]
        ).result()
    one = multiple(curve, Group.G2, 1)[None]
    logs = [sum(x * y for x, y in zip(a, b, strict=True)), 0, a[0] * b[1] + a[7] * b[8] + a[8] * b[9], 0]
    for value, log in zip(made, logs, strict=True):
        expected = pairing_product(curve, multiple(curve, Group.G1, log)[None], one)
        assert np.array_equal(value, expected.reshape(value.shape))


@each_curve
@both_groups
def test_scaled_and_folded(curve: Curve, group: Group) -> None:
    rng, r = random.Random(2), curve.fr.modulus
    logs = [rng.randrange(r) for _ in range(66)]
    scalars = [0, 1, r - 1, *(rng.randrange(r) for _ in range(63))]
    logs[5] = 0
    points = vector(curve, group, logs)
    with CpuBackend(threads=2) as cpu:
        inner = cpu.inner_products
        scaled = inner.scaled(curve, group, points, scalars_from_ints(curve.fr, scalars))
        assert np.array_equal(scaled, vector(curve, group, [k * s for k, s in zip(logs, scalars, strict=True)]))
        for x in (0, 1, r - 1, scalars[7]):
            folded, none = inner.folded(curve, group, (points, points[:0]), x)
            assert none.shape == (0, curve.point_limbs(group))
            sums = [a + x * b for a, b in zip(logs[:33], logs[33:], strict=True)]
            assert np.array_equal(folded, vector(curve, group, sums))
        # equal, opposite and infinite summands
        same = np.concatenate([points[:3], points[:2], single.neg(curve, group, points[2])[None]])
        same[0] = 0
        expected = [logs[0], 2 * logs[1], 0]
        assert np.array_equal(inner.folded(curve, group, [same], 1)[0], vector(curve, group, expected))


def test_shapes() -> None:
    g1, g2 = vector(BN254, Group.G1, [1, 2, 3]), vector(BN254, Group.G2, [1, 2, 3])
    with CpuBackend() as cpu:
        inner = cpu.inner_products
        for call in (
            lambda: inner.pairing_products(BN254, [[(g1, g2[:2])]]),
            lambda: inner.pairing_products(BN254, [[(g2, g1)]]),
            lambda: inner.folded(BN254, Group.G1, [g1], 1),
            lambda: inner.folded(BN254, Group.G2, [g2[:2], g1[:2]], 1),
            lambda: inner.scaled(BN254, Group.G1, g1, scalars_from_ints(BN254.fr, [1, 2])),
        ):
            with pytest.raises(SizeError):
                call()
