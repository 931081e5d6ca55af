"""What the arithmetic of numbers computes in another way than that of symbols is the same."""

from __future__ import annotations

import random

import pytest

from distprove.stark.arithmetic import NUMBERS, Arithmetic
from distprove.stark.field import Ext, P


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
