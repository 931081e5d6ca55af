"""The choice of few different heights for the partitions of a job."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from distprove.stark import levels
from distprove.stark.heights import LogHeights, tallest
from distprove.stark.levels import MOST_COMPARED, levelled

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
    """The choice for six partitions is compared with all ways to put them into at most three groups."""
    numbers = np.random.default_rng(7)
    for _ in range(20):
        drawn = numbers.integers(-1, 9, (6, 3)).tolist()
        given: list[LogHeights] = [(5, *(None if height < 0 else height for height in own[1:])) for own in drawn]
        best = min(cost(grouped(given, groups), 9_000) for groups in product(range(3), repeat=6))
        assert best <= cost(levelled(given, WEIGHTS, 3, 9_000), 9_000) <= 1.25 * best


def test_a_run_of_many_different_heights_is_levelled_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose guest chooses the heights of 2^14 segments. All pairs were compared: 2 GiB, and the third power in time."""
    numbers, compared, measure = np.random.default_rng(3), list[int](), levels._cost

    def noted(kinds: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        compared.append(len(kinds))
        return measure(kinds, weight)

    monkeypatch.setattr(levels, "_cost", noted)
    given: list[LogHeights] = [tuple(own) for own in numbers.integers(4, 21, (3_000, 3)).tolist()]
    made = levelled(given, WEIGHTS, 4, 0)
    assert len({*made}) == 4
    assert all(tallest([own, got]) == got for own, got in zip(given, made, strict=True))
    assert max(compared) <= MOST_COMPARED
    assert len(compared) <= 4 * len({*given})


@pytest.mark.parametrize("compared", [3, 5])
def test_few_kinds_are_compared_at_once(monkeypatch: pytest.MonkeyPatch, compared: int) -> None:
    """The choice is as good where the kinds lie apart, and never of more kinds than are asked for."""
    monkeypatch.setattr(levels, "MOST_COMPARED", compared)
    given: list[LogHeights] = [(10, 3 + number % 2, 4 + 8 * (number % 3 > 1)) for number in range(12)]
    assert {*levelled(given, WEIGHTS, 2, 0)} == {(10, 4, 4), (10, 4, 12)}
    assert {*levelled(given, WEIGHTS, 1, 0)} == {(10, 4, 12)}
