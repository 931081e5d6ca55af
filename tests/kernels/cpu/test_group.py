"""Single points: kernels.cpu.group against py_ecc's curves, and the group's laws."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from py_ecc import optimized_bls12_381, optimized_bn128

from kernels.cpu import group
from kernels.cpu.backend import CpuBackend
from kernels.cuda.joining import Joining, LeftSums
from kernels.errors import BackendError, SizeError
from kernels.host.native import native
from kernels.maths import encoding
from kernels.maths.curves import BN254, CURVES, Curve, Group
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
    assert np.array_equal(group.sum_points(curve, which, list(points)), group.mul(curve, which, base, total))
    assert not group.sum_points(curve, which, [np.zeros_like(base)] * n).any()


@pytest.mark.parametrize(("curve", "which"), GROUPS, ids=lambda v: getattr(v, "name", None))
def test_multiples_of_a_point(curve: Curve, which: Group) -> None:
    rng = random.Random(8)
    r, base = curve.fr.modulus, encoding.generator(curve, which)
    point, other = (group.mul(curve, which, base, k) for k in (rng.randrange(r), 77))
    multiples = group.Multiples(curve, which, point)
    factors = [0, 1, 15, 16, r - 1, rng.randrange(r)]
    for k in factors:
        assert np.array_equal(
            multiples.add_to(other, k), group.add(curve, which, other, group.mul(curve, which, point, k))
        )
    opposite = group.mul(curve, which, point, -(15 << 8))
    assert not multiples.add_to(opposite, 15 << 8).any()
    infinite = group.Multiples(curve, which, np.zeros_like(point))
    assert np.array_equal(infinite.add_to(other, r - 1), other)
    with pytest.raises(OverflowError):
        multiples.add_to(other, 1 << 256)


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_sums_of_a_device_become_points(curve: Curve) -> None:
    """Two MSMs, one in each group, are joined; columns are picked out of more, and weights start above one."""
    one = encoding.field_from_ints(curve.fq, [1])[0]
    left, words, expected = [], [], []
    for which, exponents in ((Group.G2, (1, 4, 5)), (Group.G1, (0, 1))):
        base, limbs = encoding.generator(curve, which), 2 * curve.point_limbs(which)
        rows = np.zeros((7, limbs), dtype=np.uint64)
        for k in range(6):  # the last row is infinity
            point = group.mul(curve, which, base, k + 3)
            rows[k, : limbs // 2] = point
            rows[k, limbs // 2 : limbs // 2 + len(one)] = rows[k, 3 * limbs // 4 : 3 * limbs // 4 + len(one)] = one
        columns = [6, 2, 5][-len(exponents) :]
        terms = tuple((column * limbs, exponent) for column, exponent in zip(columns, exponents, strict=True))
        left.append(LeftSums(curve, which, rows.size, terms))
        total = sum((column + 3 if column < 6 else 0) << e for column, e in zip(columns, exponents, strict=True))
        words.append(rows.reshape(-1))
        expected.append(group.mul(curve, which, base, total))
    joining = Joining(left)
    for got, want in zip(joining.points(np.concatenate(words)), expected, strict=True):
        assert np.array_equal(got, want)
    with pytest.raises(ValueError, match="words"):
        joining.points(np.concatenate(words)[:-60])
    with pytest.raises(BackendError, match="one curve"):
        Joining([left[0], replace(left[0], curve=next(other for other in CURVES if other is not curve))])


@pytest.mark.parametrize(
    ("program", "what"),
    [
        ([0], "point"),
        ([2, 0], "point"),
        ([0, 2, 0, 0], "short"),
        ([0, 1 << 31], "short"),
        ([0, 1, 1, 0], "words"),
        ([1, 1, 0, 0], "words"),
        ([0, 2, 0, 3, 0, 2], "ascending"),
        ([], "out"),
        ([0, 1, 0, 0, 0, 0], "out"),
    ],
)
def test_bad_programs_of_sums_are_refused(program: list[int], what: str) -> None:
    words, out = np.zeros(16, dtype=np.uint64), np.zeros(8, dtype=np.uint64)
    with pytest.raises(ValueError, match=what):
        native.join_sums(BN254.name, words, np.array(program, dtype=np.uint32), out)


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
