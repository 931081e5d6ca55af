"""What the arithmetic of numbers computes in another way than that of symbols is the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from distprove.stark.arithmetic import NUMBERS, Arithmetic
from distprove.stark.field import Ext, P, ext_mul


def drawn(rng: random.Random, count: int) -> list[Ext]:
    return [(rng.randrange(P), rng.randrange(P), rng.randrange(P)) for _ in range(count)]


@pytest.mark.parametrize("size", [0, 1, 5, 11])
def test_products_at_places(size: int) -> None:
    rng = random.Random(size)
    point = drawn(rng, size)
    places = [(rng.randrange(size + 1), rng.randrange(1 << size + 2)) for _ in range(60)]
    assert [*NUMBERS.eqs(point, places)] == [*Arithmetic.eqs(NUMBERS, point, places)]


@pytest.mark.parametrize("size", [0, 1, 5, 11])
def test_products_at_offsets(size: int) -> None:
    rng = random.Random(size)
    folds = drawn(rng, size)
    own, plain = NUMBERS.at_offsets(folds), Arithmetic.at_offsets(NUMBERS, folds)
    for _ in range(60):
        first, offset = rng.randrange(size + 1), rng.randrange(1 << size + 2)
        assert own(first, offset) == plain(first, offset)


@pytest.mark.parametrize("base", [[], [1, 2, 3], [0, 1, 2, 3], [2]])
@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_factors_at_points_of_which_some_are_base_elements(base: list[int], rounds: int) -> None:
    rng = random.Random(rounds)
    factors, points = (NUMBERS.array(drawn(rng, 4)) for _ in range(2))
    points[base, 1:] = 0
    alphas = drawn(rng, rounds)
    for own, plain in zip(
        NUMBERS.paired(factors, points, alphas), Arithmetic.paired(NUMBERS, factors, points, alphas), strict=True
    ):
        assert np.array_equal(own, plain)


def test_products_by_base_elements() -> None:
    rng = random.Random(5)
    a, b = (NUMBERS.array(drawn(rng, 6)) for _ in range(2))
    b[:, 1:] = 0
    product = [(x * c[0] % P, y * c[0] % P, z * c[0] % P) for (x, y, z), c in zip(a.tolist(), b.tolist(), strict=True)]
    assert NUMBERS.elements(NUMBERS.muls(a, b)) == product
    b[3, 2] = 1
    assert np.array_equal(NUMBERS.muls(a, b), ext_mul(a, b))
    assert np.array_equal(NUMBERS.muls(a.reshape(2, 3, 3), b[:3]), ext_mul(a.reshape(2, 3, 3), b[:3]))
