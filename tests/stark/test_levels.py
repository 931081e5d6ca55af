"""The choice of few different heights for the partitions of a job."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from distprove.stark.heights import LogHeights, tallest
from distprove.stark.levels import levelled

WEIGHTS = (50, 3, 600)
PLAIN, HASHES, LOOPS = (10, None, None), (10, 4, 8), (10, 9, None)


def cost(heights: list[LogHeights], another: int) -> int:
    cells = sum(weight << height for own in heights for weight, height in zip(WEIGHTS, own, strict=True) if height)
    return cells + another * len(set(heights))


def grouped(given: list[LogHeights], groups: Sequence[int]) -> list[LogHeights]:
    """Each partition at the greatest heights of its group."""
    return [tallest([own for own, other in zip(given, groups, strict=True) if other == mine]) for mine in groups]


def test_partitions_of_one_height_stay() -> None:
    assert levelled([HASHES] * 5, WEIGHTS, 4, 0) == [HASHES] * 5


@pytest.mark.parametrize(
    ("another", "kinds"), [(0, {PLAIN, HASHES, LOOPS}), (5_000, {LOOPS, HASHES}), (1 << 40, {(10, 9, 8)})]
)
def test_another_kind_must_save_what_it_costs(another: int, kinds: set[LogHeights]) -> None:
    """To raise a plain partition to one that loops costs 3 * 2^9, and to one that hashes 600 * 2^8 more."""
    given = [PLAIN, PLAIN, HASHES, LOOPS, PLAIN]
    made = levelled(given, WEIGHTS, 4, another)
    assert set(made) == kinds
    assert all(tallest([own, got]) == got for own, got in zip(given, made, strict=True))


def test_there_are_no_more_kinds_than_are_asked_for() -> None:
    given = [(10, None, height) for height in range(9)]
    for most in range(1, 10):
        made = levelled(given, WEIGHTS, most, 0)
        assert len(set(made)) == most
        assert set(made) <= set(given)


def test_the_choice_is_near_the_best() -> None:
    """Of six partitions, against all ways to put them into at most three groups."""
    numbers = np.random.default_rng(7)
    for _ in range(20):
        drawn = numbers.integers(-1, 9, (6, 3)).tolist()
        given: list[LogHeights] = [(5, *(None if height < 0 else height for height in own[1:])) for own in drawn]
        best = min(cost(grouped(given, groups), 9_000) for groups in product(range(3), repeat=6))
        assert best <= cost(levelled(given, WEIGHTS, 3, 9_000), 9_000) <= 1.25 * best
