"""Single points: kernels.cpu.group against py_ecc's curves, and the group's laws."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from py_ecc import optimized_bls12_381, optimized_bn128

from kernels.cpu import group
from kernels.cpu.backend import CpuBackend
from kernels.errors import SizeError
from kernels.maths import encoding
from kernels.maths.curves import BN254, Curve, Group
from tests.support.cpu_cases import GROUPS

PEERS: dict[str, Any] = {"bn128": optimized_bn128, "bls12381": optimized_bls12_381}


def peer_multiple(curve: Curve, which: Group, k: int) -> tuple[int, ...] | None:
    """k times the generator by py_ecc."""
    peer = PEERS[curve.name]
    point = peer.multiply(peer.G1 if which is Group.G1 else peer.G2, k)
    if peer.is_inf(point):
        return None
    x, y = peer.normalize(point)
    return (x.n, y.n) if which is Group.G1 else (*map(int, x.coeffs), *map(int, y.coeffs))


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_against_py_ecc(curve: Curve, which: Group) -> None:
    rng = random.Random(6)
    base = encoding.generator(curve, which)
    r = curve.fr.modulus
    for k in [0, 1, 2, 3, r - 1, r, r + 1, rng.randrange(r), rng.randrange(r)]:
        ours = encoding.point_to_ints(curve, which, group.mul(curve, which, base, k))
        assert ours == peer_multiple(curve, which, k), k


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_laws_at_the_edges(curve: Curve, which: Group) -> None:
    base = encoding.generator(curve, which)
    infinity = np.zeros_like(base)

    def times(k: int) -> np.ndarray:
        return group.mul(curve, which, base, k)

    def plus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return group.add(curve, which, a, b)

    assert np.array_equal(plus(base, base), times(2))
    assert np.array_equal(plus(times(5), group.neg(curve, which, times(5))), infinity)
    assert np.array_equal(plus(infinity, base), base)
    assert np.array_equal(plus(base, infinity), base)
    assert np.array_equal(plus(infinity, infinity), infinity)
    assert np.array_equal(group.neg(curve, which, infinity), infinity)
    assert np.array_equal(plus(times(5), times(9)), times(14))
    assert np.array_equal(times(-3), group.neg(curve, which, times(3)))
    assert np.array_equal(group.mul(curve, which, infinity, 99), infinity)


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
@pytest.mark.parametrize("n", [0, 1, 2, 7, 600])
def test_sums(curve: Curve, which: Group, n: int) -> None:
    base = encoding.generator(curve, which)
    small = [group.mul(curve, which, base, k) for k in range(-3, 4)]
    rng = random.Random(n)
    picks = [rng.randrange(7) for _ in range(n)]
    points = np.stack([small[i] for i in picks]) if n else np.zeros((0, len(base)), dtype=np.uint64)
    total = sum(i - 3 for i in picks)
    rows = np.stack([points, points[::-1], np.zeros_like(points)])
    expected = group.mul(curve, which, base, total)
    assert np.array_equal(group.sum_points(curve, which, rows), [expected, expected, np.zeros_like(base)])


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_multiples_of_a_point(curve: Curve, which: Group) -> None:
    rng = random.Random(8)
    r, base = curve.fr.modulus, encoding.generator(curve, which)
    point, other = (group.mul(curve, which, base, k) for k in (rng.randrange(r), 77))
    multiples = group.Multiples(curve, which, point)
    factors = [0, 1, 15, 16, r - 1, rng.randrange(r)]
    expected = [group.add(curve, which, other, group.mul(curve, which, point, k)) for k in factors]
    assert np.array_equal(multiples.add_to(np.stack([other] * len(factors)), factors), expected)
    opposite = group.mul(curve, which, point, -(15 << 8))
    assert not multiples.add_to(opposite[None], [15 << 8]).any()
    infinite = group.Multiples(curve, which, np.zeros_like(point))
    assert np.array_equal(infinite.add_to(other[None], [r - 1]), other[None])


def test_wrong_shapes_are_refused() -> None:
    base = encoding.generator(BN254, Group.G1)
    with pytest.raises(SizeError, match="one point"):
        group.neg(BN254, Group.G1, np.stack([base, base]))
    with pytest.raises(SizeError, match="points have shape"):
        group.add(BN254, Group.G2, base, base)


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_points_with_an_abscissa(curve: Curve, which: Group) -> None:
    half = curve.point_limbs(which) // 2
    found = 0
    for x in range(40):
        coordinates = [x] if which is Group.G1 else [x % 7, x // 7]
        words = encoding.field_from_ints(curve.fq, coordinates).reshape(-1)
        point = group.lift(curve, which, words)
        if point is None:
            continue
        found += 1
        assert np.array_equal(point[:half], words)
        assert CpuBackend().groups.check_points(curve, which, point[None], subgroup=False) is None
    assert 10 < found < 30  # about half of them are on the curve, and the others are told
    given = encoding.generator(curve, which)
    again = group.lift(curve, which, given[:half])
    assert again is not None
    assert any(np.array_equal(again, p) for p in (given, group.neg(curve, which, given)))
    with pytest.raises(SizeError):
        group.lift(curve, which, given)
