"""The pairing, its subgroup tests and the small sums beside it, held to py_ecc and to Python's integers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from math import gcd, isqrt
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from py_ecc import optimized_bls12_381, optimized_bn128

from kernels.cpu.group import mul
from kernels.cpu.pairing import (
    combine_g1,
    combine_members_g1,
    first_invalid_point,
    pairing_product,
    pairing_product_is_one,
    scale_g1,
)
from kernels.errors import SizeError
from kernels.maths import encoding
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group

Words = NDArray[np.uint64]

PY_ECC: dict[str, ModuleType] = {"bn128": optimized_bn128, "bls12381": optimized_bls12_381}
X = {"bn128": 4965661367192848881, "bls12381": -0xD201000000010000}
XI = {"bn128": 9, "bls12381": 1}  # xi = XI + u

each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)
both_groups = pytest.mark.parametrize("group", list(Group), ids=lambda g: g.name)


# -- py_ecc's points as ours -----------------------------------------------------------------------------------------


def multiple(curve: Curve, group: Group, k: int) -> Words:
    """k times the generator, computed by py_ecc."""
    lib = PY_ECC[curve.name]
    if k % curve.fr.modulus == 0:
        return encoding.point_from_ints(curve, group, None)
    x, y = lib.normalize(lib.multiply(lib.G1 if group is Group.G1 else lib.G2, k % curve.fr.modulus))
    flat = [x.n, y.n] if group is Group.G1 else [*map(int, x.coeffs), *map(int, y.coeffs)]
    return encoding.point_from_ints(curve, group, flat)


def stack(curve: Curve, group: Group, scalars: list[int]) -> Words:
    return np.stack([multiple(curve, group, k) for k in scalars])


def to_py_ecc(curve: Curve, value: Words) -> object:
    """An element of Fq12 in py_ecc's basis 1, w, ..., w^11, with u = w^6 - XI."""
    flat = encoding.field_to_ints(curve.fq, value.reshape(12, -1))
    coefficients = [0] * 12
    for j in range(2):
        for i in range(3):
            c0, c1 = flat[6 * j + 2 * i : 6 * j + 2 * i + 2]
            power = 2 * i + j  # v = w^2
            coefficients[power] = (c0 - XI[curve.name] * c1) % curve.fq.modulus
            coefficients[power + 6] = c1
    return PY_ECC[curve.name].FQ12(coefficients)


# -- the pairing -----------------------------------------------------------------------------------------------------


@each_curve
def test_the_value_is_py_eccs_to_a_fixed_exponent(curve: Curve) -> None:
    lib, rng = PY_ECC[curve.name], random.Random(1)
    x = X[curve.name]
    # The hard part of our final exponentiation raises to a multiple of (p^4 - p^2 + 1) / r; py_ecc's to exactly that.
    # py_ecc leaves out the inversion for the negative x of BLS12-381.
    exponent = 2 * x * (6 * x * x + 3 * x + 1) if curve is BN254 else -3
    for _ in range(2):
        a, b = rng.randrange(1, curve.fr.modulus), rng.randrange(1, curve.fr.modulus)
        ours = pairing_product(curve, stack(curve, Group.G1, [a]), stack(curve, Group.G2, [b]))
        theirs = lib.pairing(lib.multiply(lib.G2, b), lib.multiply(lib.G1, a))
        assert to_py_ecc(curve, ours) == theirs ** (exponent % curve.fr.modulus)


@each_curve
def test_bilinear_and_not_degenerate(curve: Curve) -> None:
    rng, r = random.Random(2), curve.fr.modulus
    a, b = rng.randrange(1, r), rng.randrange(1, r)
    g1, g2 = [a, -a * b], [b, 1]
    assert pairing_product_is_one(curve, stack(curve, Group.G1, g1), stack(curve, Group.G2, g2))
    assert not pairing_product_is_one(curve, stack(curve, Group.G1, [a, 1 - a * b]), stack(curve, Group.G2, g2))
    assert not pairing_product_is_one(curve, stack(curve, Group.G1, [1]), stack(curve, Group.G2, [1]))


@each_curve
def test_products_of_many_pairs(curve: Curve) -> None:
    rng, r = random.Random(3), curve.fr.modulus
    a = [rng.randrange(r) for _ in range(9)]
    b = [rng.randrange(r) for _ in range(9)]
    a.append(-sum(x * y for x, y in zip(a, b, strict=True)) * pow(7, -1, r) % r)
    b.append(7)
    g1, g2 = stack(curve, Group.G1, a), stack(curve, Group.G2, b)
    assert pairing_product_is_one(curve, g1, g2)
    order = rng.sample(range(10), 10)
    assert pairing_product_is_one(curve, g1[order], g2[order])
    assert not pairing_product_is_one(curve, g1, g2[order])
    assert not pairing_product_is_one(curve, g1[:-1], g2[:-1])


@each_curve
def test_infinity_pairs_to_one(curve: Curve) -> None:
    empty1 = np.zeros((0, curve.point_limbs(Group.G1)), dtype=np.uint64)
    empty2 = np.zeros((0, curve.point_limbs(Group.G2)), dtype=np.uint64)
    assert pairing_product_is_one(curve, empty1, empty2)
    for a, b in ((0, 5), (5, 0), (0, 0)):
        assert pairing_product_is_one(curve, stack(curve, Group.G1, [a]), stack(curve, Group.G2, [b]))
    g1, g2 = stack(curve, Group.G1, [3, 0, -6]), stack(curve, Group.G2, [2, 9, 1])
    assert pairing_product_is_one(curve, g1, g2)


# -- sums ------------------------------------------------------------------------------------------------------------


def edge_scalars(curve: Curve) -> st.SearchStrategy[int]:
    r = curve.fr.modulus
    near = st.sampled_from([0, 1, 2, 15, 16, 17, 31, 32, (1 << 64) - 1, 1 << 64, r - 1, r - 2, r - 16, r // 2])
    return near | st.integers(0, r - 1) | st.integers(0, 40)


@each_curve
@settings(max_examples=40)
@given(data=st.data())
def test_combinations(curve: Curve, data: st.DataObject) -> None:
    known = [0, 1, 1, 2, curve.fr.modulus - 1, 12345]  # infinity, duplicates, opposites
    logs = data.draw(st.lists(st.sampled_from(known), max_size=8))
    scalars = data.draw(st.lists(edge_scalars(curve), min_size=len(logs), max_size=len(logs)))
    points = np.zeros((len(logs), curve.point_limbs(Group.G1)), dtype=np.uint64)
    for i, k in enumerate(logs):
        points[i] = multiple(curve, Group.G1, k)
    total = sum(k * s for k, s in zip(logs, scalars, strict=True))
    words = encoding.scalars_from_ints(curve.fr, scalars)
    for combine in (combine_g1, combine_members_g1):
        assert np.array_equal(combine(curve, points, words), multiple(curve, Group.G1, total))


@each_curve
def test_scalars_that_are_cut_in_two(curve: Curve) -> None:
    """Where a half is zero, one, negative or as long as it gets: beside the endomorphism's eigenvalues and their
    parts."""
    r, rng = curve.fr.modulus, random.Random(12)
    root = next(w for g in range(2, 9) if (w := pow(g, (r - 1) // 3, r)) != 1)
    near = [0, 1, root, root * root % r, r // 2, *(root * pow(k, -1, r) % r for k in (2, 3, 5))]
    near += [short := isqrt(r), root * short % r, 1 << 127, 1 << 128, (1 << 128) * root % r]
    scalars = [(k + d) % r for k in near for d in (-1, 0, 1)] + [rng.randrange(r) for _ in range(200)]
    five, seven = (multiple(curve, Group.G1, k) for k in (5, 7))
    for k in scalars:
        got = combine_members_g1(curve, five[None], encoding.scalars_from_ints(curve.fr, [k]))
        assert np.array_equal(got, mul(curve, Group.G1, five, k)), k
    for k, m in itertools.pairwise(scalars):
        got = combine_members_g1(curve, np.stack([five, seven]), encoding.scalars_from_ints(curve.fr, [k, m]))
        assert np.array_equal(got, mul(curve, Group.G1, encoding.generator(curve, Group.G1), (5 * k + 7 * m) % r))


def test_points_outside_the_subgroup_are_not_cut_in_two() -> None:
    """Why a verifier, whose points may come from outside, does without the endomorphism."""
    outside = next(curve_points(BLS12_381, Group.G1, 3))
    words = encoding.scalars_from_ints(BLS12_381.fr, [BLS12_381.fr.modulus - 2])
    plain, cut = (combine(BLS12_381, outside[None], words) for combine in (combine_g1, combine_members_g1))
    assert np.array_equal(plain, mul(BLS12_381, Group.G1, outside, BLS12_381.fr.modulus - 2))
    assert not np.array_equal(plain, cut)


@each_curve
def test_combinations_longer_than_a_chunk(curve: Curve) -> None:
    rng, r = random.Random(4), curve.fr.modulus
    logs, scalars = [rng.getrandbits(128) for _ in range(600)], [rng.randrange(r) for _ in range(600)]
    generators = np.tile(encoding.generator(curve, Group.G1), (600, 1))
    points = scale_g1(curve, generators, encoding.pack(logs, 2))
    got = combine_g1(curve, points, encoding.scalars_from_ints(curve.fr, scalars))
    assert np.array_equal(got, multiple(curve, Group.G1, sum(k * s for k, s in zip(logs, scalars, strict=True))))


@each_curve
def test_scaling_by_128_bits(curve: Curve) -> None:
    scalars = [0, 1, 2, (1 << 64) - 1, 1 << 64, (1 << 128) - 1, (1 << 128) - 16, 0x55555555555555555555555555555555]
    points = stack(curve, Group.G1, [5] * len(scalars))
    points[3] = 0
    got = scale_g1(curve, points, encoding.pack(scalars, 2))
    for i, k in enumerate(scalars):
        assert np.array_equal(got[i], multiple(curve, Group.G1, 0 if i == 3 else 5 * k)), k


# -- membership ------------------------------------------------------------------------------------------------------


def sqrt_fq2(q: int, a: tuple[int, int]) -> tuple[int, int] | None:
    """A square root in Fq[u] / (u^2 + 1), q = 3 mod 4, by the norm; None if there is none or a is in Fq."""
    norm = pow((a[0] * a[0] + a[1] * a[1]) % q, (q + 1) // 4, q)
    for root in (norm, q - norm):
        half = (a[0] + root) * pow(2, -1, q) % q
        x = pow(half, (q + 1) // 4, q)
        if x and x * x % q == half:
            y = a[1] * pow(2 * x, -1, q) % q
            if (x * x - y * y - a[0]) % q == 0:
                return x, y
    return None


def curve_points(curve: Curve, group: Group, seed: int) -> Iterator[Words]:
    """Random points of the whole curve or twist, which for cofactors beyond 1 are outside the subgroup."""
    rng, q = random.Random(seed), curve.fq.modulus
    while True:
        x = (rng.randrange(q), rng.randrange(q) if group is Group.G2 else 0)
        square = ((x[0] * x[0] - x[1] * x[1]) % q, 2 * x[0] * x[1] % q)
        cube = ((square[0] * x[0] - square[1] * x[1]) % q, (square[0] * x[1] + square[1] * x[0]) % q)
        if group is Group.G1:
            rhs = (cube[0] + curve.b1) % q
            y = pow(rhs, (q + 1) // 4, q)
            if y * y % q == rhs:
                yield encoding.point_from_ints(curve, group, (x[0], y))
        else:
            root = sqrt_fq2(q, ((cube[0] + curve.b2[0]) % q, (cube[1] + curve.b2[1]) % q))
            if root is not None:
                yield encoding.point_from_ints(curve, group, (*x, *root))


def times(curve: Curve, group: Group, point: Words, k: int, plus: Words | None = None) -> Words:
    """k * point (+ plus), on the whole curve, by py_ecc."""
    lib = PY_ECC[curve.name]

    def lift(p: Words) -> tuple[object, ...]:
        flat = encoding.point_to_ints(curve, group, p)
        assert flat is not None
        if group is Group.G1:
            return lib.FQ(flat[0]), lib.FQ(flat[1]), lib.FQ.one()
        return lib.FQ2(flat[:2]), lib.FQ2(flat[2:]), lib.FQ2.one()

    result = lib.multiply(lift(point), k)
    if plus is not None:
        result = lib.add(result, lift(plus))
    if lib.is_inf(result):
        return encoding.point_from_ints(curve, group, None)
    x, y = lib.normalize(result)
    flat = [x.n, y.n] if group is Group.G1 else [*map(int, x.coeffs), *map(int, y.coeffs)]
    return encoding.point_from_ints(curve, group, flat)


@each_curve
@both_groups
def test_members_are_accepted(curve: Curve, group: Group) -> None:
    rng = random.Random(5)
    scalars = [0, 1, -1, 2, 3, *(rng.randrange(curve.fr.modulus) for _ in range(8))]
    assert first_invalid_point(curve, group, stack(curve, group, scalars)) is None


@pytest.mark.parametrize(
    ("curve", "group"), [(BLS12_381, Group.G1), (BLS12_381, Group.G2), (BN254, Group.G2)], ids=lambda v: v.name
)
def test_points_outside_the_subgroup_are_refused(curve: Curve, group: Group) -> None:
    points = curve_points(curve, group, 6)
    member = multiple(curve, group, 9)
    for _ in range(4):
        outside = next(points)
        # as found, without its part of order r, and with another member added to that
        rest = times(curve, group, outside, curve.fr.modulus)
        assert np.any(rest)
        for bad in (outside, rest, times(curve, group, rest, 1, plus=member)):
            assert first_invalid_point(curve, group, np.stack([member, bad])) == 1


def test_small_torsion_of_bls12_381_is_refused() -> None:
    # (0, 2) has order 3; adding it to a member gives a point that some checks in the wild let pass
    torsion = encoding.point_from_ints(BLS12_381, Group.G1, (0, 2))
    assert not np.any(times(BLS12_381, Group.G1, torsion, 3))
    member = multiple(BLS12_381, Group.G1, 4)
    for bad in (torsion, times(BLS12_381, Group.G1, torsion, 1, plus=member)):
        assert first_invalid_point(BLS12_381, Group.G1, bad[None]) == 0


@both_groups
def test_the_whole_of_bn254_g1_is_its_subgroup(group: Group) -> None:
    point = next(curve_points(BN254, group, 7))
    assert (first_invalid_point(BN254, group, point[None]) is None) == (group is Group.G1)


@each_curve
@both_groups
def test_points_off_the_curve_are_refused(curve: Curve, group: Group) -> None:
    limbs = curve.fq.limbs
    good = multiple(curve, group, 3)
    assert first_invalid_point(curve, group, good[None]) is None
    for word in range(0, len(good), limbs):
        bad = good.copy()
        bad[word] ^= np.uint64(1)
        assert first_invalid_point(curve, group, np.stack([good, good, bad])) == 2
    only_x = good.copy()
    only_x[len(good) // 2 :] = 0
    assert first_invalid_point(curve, group, only_x[None]) == 0


@each_curve
@both_groups
def test_coordinates_beyond_the_modulus_are_refused(curve: Curve, group: Group) -> None:
    limbs = curve.fq.limbs
    good = multiple(curve, group, 3)
    for start in range(0, len(good), limbs):
        bad = good.copy()
        (value,) = encoding.unpack(good[None, start : start + limbs])
        bad[start : start + limbs] = encoding.pack([value + curve.fq.modulus], limbs)[0]  # the same residue
        assert first_invalid_point(curve, group, bad[None]) == 0
    infinity = np.zeros_like(good)
    infinity[:limbs] = encoding.pack([curve.fq.modulus], limbs)[0]  # zero, written another way
    assert first_invalid_point(curve, group, infinity[None]) == 0


def test_the_membership_tests_are_exact() -> None:
    """The norm of each test's polynomial in the endomorphism shares no factor with the curve's order except r.

    If h(psi) Q = 0 then Q is killed by the norm of h in Z[psi] = Z[X] / (X^2 - t X + p), and by the group's order; so
    by their greatest common divisor.
    """
    # BN254 G2: h = (x + 1) + x psi + x psi^2 - 2x psi^3
    x, p, r = X["bn128"], BN254.fq.modulus, BN254.fr.modulus
    t = p + 1 - r
    assert gcd(_norm([x + 1, x, x, -2 * x], t, p), r * (2 * p - r)) == r
    # BLS12-381 G2: h = psi - x; the twist has r c2 points
    x, p, r = X["bls12381"], BLS12_381.fq.modulus, BLS12_381.fr.modulus
    t = x + 1
    c2 = (x**8 - 4 * x**7 + 5 * x**6 - 4 * x**4 + 6 * x**3 - 4 * x**2 - 4 * x + 13) // 9
    assert gcd(_norm([-x, 1], t, p), r * c2) == r
    # BLS12-381 G1: h = phi + x^2, with phi^2 + phi + 1 = 0
    assert _norm([x * x, 1], -1, 1) == r


def _norm(h: list[int], t: int, p: int) -> int:
    a, b = 0, 0  # h(X) mod X^2 - t X + p = a + b X, by Horner's rule
    for coefficient in reversed(h):
        a, b = coefficient - p * b, a + t * b
    return a * a + a * b * t + b * b * p


# -- shapes ----------------------------------------------------------------------------------------------------------


@each_curve
def test_wrong_shapes_are_refused(curve: Curve) -> None:
    g1, g2 = stack(curve, Group.G1, [1, 2]), stack(curve, Group.G2, [1, 2])
    scalars = encoding.pack([1, 2], 4)
    for call in (
        lambda: pairing_product_is_one(curve, g1, g2[:1]),
        lambda: pairing_product_is_one(curve, g2, g1),
        lambda: pairing_product(curve, g1[0], g2),
        lambda: combine_g1(curve, g1, scalars[:1]),
        lambda: combine_g1(curve, g1, scalars[:, :2]),
        lambda: combine_members_g1(curve, g1, scalars[:1]),
        lambda: combine_members_g1(curve, g1, scalars[:, :2]),
        lambda: scale_g1(curve, g1, scalars),
        lambda: scale_g1(curve, g1[:1], encoding.pack([1, 2], 2)),
        lambda: first_invalid_point(curve, Group.G2, g1),
        lambda: first_invalid_point(curve, Group.G1, g1.astype(np.int64)),
    ):
        with pytest.raises(SizeError):
            call()


@each_curve
def test_read_only_and_strided_arrays_are_taken(curve: Curve) -> None:
    g1 = np.repeat(stack(curve, Group.G1, [1, -1]), 2, axis=0)[::2]
    g2 = np.asfortranarray(stack(curve, Group.G2, [1, 1]))
    for array in (g1, g2):
        array.flags.writeable = False
    assert pairing_product_is_one(curve, g1, g2)
