"""The target group: membership, compression, products of powers, held to the pairing and to integers."""

from __future__ import annotations

import hashlib
import random
from math import gcd
from typing import Any

import numpy as np
import pytest

from kernels.cpu import target_group
from kernels.cpu.pairing import pairing_product
from kernels.cpu.target_group import Words
from kernels.errors import SizeError
from kernels.maths.curves import BLS12_381, BN254, CURVES, Curve, Group
from kernels.maths.encoding import field_from_ints, field_to_ints, generator, pack, scalars_from_ints
from tests.support.simulated_proofs import multiple

X = {"bn128": 4965661367192848881, "bls12381": -0xD201000000010000}
each_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.name)


def power(curve: Curve, k: int) -> Words:
    """e(g, h)^k."""
    value = pairing_product(curve, multiple(curve, Group.G1, k)[None], generator(curve, Group.G2)[None])
    return value.reshape(12, -1)


def test_the_generator_is_that_of_blstrs() -> None:
    """SHA-256 of `Gt::generator()` as blstrs' source has it: the words of its coordinates in Montgomery form."""
    known = "27f1510b09a43c80b7642e159e8da1d6f44ff8301906255dc4e74d5822d6b444"
    assert hashlib.sha256(power(BLS12_381, 1).tobytes()).hexdigest() == known


@each_curve
def test_the_membership_tests_are_exact(curve: Curve) -> None:
    """Each is f^N = 1 for an N whose common divisor with the order of the cyclotomic subgroup is r."""
    p, x = curve.fq.modulus, X[curve.name]
    n = (x + 1) + x * p + x * p**2 - 2 * x * p**3 if curve is BN254 else p - x
    assert gcd(n, p**4 - p**2 + 1) == curve.fr.modulus


@each_curve
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_powers(curve: Curve, threads: int) -> None:
    rng, r = random.Random(1), curve.fr.modulus
    logs = [rng.randrange(r) for _ in range(9)]
    scalars = [0, 1, 2, r - 1, 15, 16, *(rng.randrange(r) for _ in range(3))]
    elements = np.stack([power(curve, k) for k in logs])
    made = target_group.product_of_powers(curve, elements, scalars_from_ints(curve.fr, scalars), threads)
    assert np.array_equal(made, power(curve, sum(a * b for a, b in zip(logs, scalars, strict=True))))
    none = target_group.product_of_powers(curve, elements[:0], scalars_from_ints(curve.fr, []), threads)
    assert np.array_equal(none, power(curve, 0))


@each_curve
def test_powers_at_the_limits_of_signed_digits(curve: Curve) -> None:
    """Windows of six bits that are half, one less, one more or all ones, and powers of p, the digits' base."""
    r, p = curve.fr.modulus, curve.fq.modulus
    windows = [sum(v << (6 * i) for i in range(40)) for v in (31, 32, 33, 63)]
    limits = [p % r, p % r - 1, -p % r, pow(p, 2, r), pow(p, 3, r), (1 << 64) - 1, 1 << 127, (1 << 128) - 1]
    element = power(curve, 7)[None]
    for k in windows + limits:
        made = target_group.product_of_powers(curve, element, scalars_from_ints(curve.fr, [k]))
        assert np.array_equal(made, power(curve, 7 * k)), k
    ones = np.stack([power(curve, 0), power(curve, 3), power(curve, 0), power(curve, -3)])
    made = target_group.product_of_powers(curve, ones, scalars_from_ints(curve.fr, [5, 9, 1, 8]))
    assert np.array_equal(made, power(curve, 3))
    largest = pack([2**256 - 1], 4)
    if curve is BN254:
        with pytest.raises(ValueError, match="below the order"):
            target_group.product_of_powers(curve, element, largest)
    else:
        made = target_group.product_of_powers(curve, element, largest)
        assert np.array_equal(made, power(curve, 7 * (2**256 - 1)))


@each_curve
def test_compression_and_back(curve: Curve) -> None:
    elements = np.stack([power(curve, k) for k in (1, 2, -1, 0, 12345, 0)])
    small = target_group.compress(curve, elements)
    assert small.shape == (6, 6, curve.fq.limbs)
    assert [bool(form.any()) for form in small] == [True, True, True, False, True, False]
    back, bad = target_group.decompress(curve, small, threads=2)
    assert bad is None
    assert np.array_equal(back, elements)
    assert np.array_equal(target_group.one(curve), power(curve, 0))
    minus = np.zeros_like(elements[0])
    minus[0] = field_from_ints(curve.fq, [-1])[0]
    with pytest.raises(ValueError, match="element 1 is -1"):  # its form would be that of one
        target_group.compress(curve, np.stack([power(curve, 0), minus]))


@each_curve
def test_what_is_no_member(curve: Curve) -> None:
    """Every element of Fq6 stands for one of norm 1 over it: of these one in some 2^762 or more is of order r."""
    rng, p = random.Random(2), curve.fq.modulus
    good = target_group.compress(curve, power(curve, 5)[None])
    values = [[1, 0, 0, 0, 0, 0], [rng.randrange(p) for _ in range(6)]]
    values.append([(v + 1) % p for v in field_to_ints(curve.fq, good[0])])
    for spoiled in values:
        rows = np.concatenate([good, field_from_ints(curve.fq, spoiled)[None], good])
        assert target_group.decompress(curve, rows)[1] == 1
        assert target_group.decompress(curve, np.concatenate([np.zeros_like(good), rows]))[1] == 2


@each_curve
def test_shapes(curve: Curve) -> None:
    element = power(curve, 1)
    for call in (
        lambda: target_group.compress(curve, element),
        lambda: target_group.decompress(curve, element[None]),
        lambda: target_group.product_of_powers(curve, element[None], scalars_from_ints(curve.fr, [1, 2])),
    ):
        with pytest.raises(SizeError):
            call()


@each_curve
def test_elements_of_the_cyclotomic_subgroup_of_another_order(curve: Curve) -> None:
    """Members of the cyclotomic subgroup that the final exponentiation would carry into the group are none yet."""
    from py_ecc import optimized_bls12_381, optimized_bn128

    lib = optimized_bn128 if curve is BN254 else optimized_bls12_381
    p, r = curve.fq.modulus, curve.fr.modulus
    f = lib.FQ12([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    f = (f ** (p**6 - 1)) ** (p**2 + 1)
    assert target_group.decompress(curve, compressed(curve, f))[1] == 0
    assert target_group.decompress(curve, compressed(curve, f ** ((p**4 - p**2 + 1) // r)))[1] is None


def test_members_times_an_element_of_small_order() -> None:
    """4513 divides the order of BLS12-381's cyclotomic subgroup: an element of that order spoils a member."""
    from py_ecc.optimized_bls12_381 import FQ12

    curve, q = BLS12_381, 4513
    p, r = curve.fq.modulus, curve.fr.modulus
    order = p**4 - p**2 + 1
    f = (FQ12([2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5]) ** (p**6 - 1)) ** (p**2 + 1)
    member, small = f ** (order // r), f ** (order // q)
    assert small != FQ12.one()
    assert small**q == FQ12.one()
    assert target_group.decompress(curve, compressed(curve, small))[1] == 0
    assert target_group.decompress(curve, compressed(curve, member * small))[1] == 0
    assert target_group.decompress(curve, compressed(curve, member))[1] is None


def compressed(curve: Curve, f: Any) -> Words:
    """(1 + a) / b for f = a + b w, an element of py_ecc, with a and b in Fq6."""
    flat, kind, xi = list(f.coeffs), type(f), 9 if curve is BN254 else 1
    a = kind([v if i % 2 == 0 else 0 for i, v in enumerate(flat)])
    b = kind([*(flat[i + 1] if i % 2 == 0 else 0 for i in range(11)), 0])
    powers = [int(v) for v in ((kind.one() + a) / b).coeffs]
    assert not any(powers[1::2])
    pairs = ((powers[2 * i] + xi * powers[2 * i + 6], powers[2 * i + 6]) for i in range(3))
    return field_from_ints(curve.fq, [v for pair in pairs for v in pair])[None]
