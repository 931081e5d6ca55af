"""Chooses few different heights for the partitions of a job that ends in one proof.

A tree has a leaf for each of the heights, with a key of its own. Rows that fill up a table cost a prover time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distprove.stark.heights import LogHeights

_ABSENT = -1
MOST_COMPARED = 256
"""Kinds that are compared with each other, at most: the time of the search grows with their square, and a run may have
2^14 segments of different heights."""


def levelled(
    heights: Sequence[Sequence[int | None]], weights: Sequence[int], most: int, another: int
) -> list[LogHeights]:
    """Return heights for each partition, no table lower than its own, of at most `most` different kinds.

    `heights` are log2 of the rows of each table in each partition, None for an absent table. `weights` are the costs of
    a row of each table, and `another` is the cost of another kind, in the same unit. Kinds are joined two at a time,
    the cheapest pair first. Of more than MOST_COMPARED kinds two are joined before the next one is looked at. The
    result has the number of kinds that costs the least in all, or the lower of two.
    """
    rows = np.array([[_ABSENT if height is None else height for height in own] for own in heights], dtype=np.int64)
    given, number, times = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    room, weight = min(len(given), MOST_COMPARED), np.array(weights, dtype=np.float64)
    place = np.arange(len(given))
    """The joined kind that each kind has come to."""
    kinds, counts = given[:room].copy(), times[:room].copy()
    cost, alive = _cost(kinds, weight), np.ones(room, dtype=bool)
    added = np.full((room, room), np.inf)
    """What joining the kinds i and j > i adds to the cost of all partitions."""

    def compare(i: int) -> None:
        joined = _cost(np.maximum(kinds, kinds[i]), weight) * (counts + counts[i])
        extra = np.where(alive, joined - cost * counts - cost[i] * counts[i], np.inf)
        added[i, i + 1 :], added[:i, i] = extra[i + 1 :], extra[:i]

    def join_two() -> int:
        i, j = divmod(int(np.argmin(added)), room)
        kinds[i], counts[i] = np.maximum(kinds[i], kinds[j]), counts[i] + counts[j]
        cost[i], alive[j], place[place == j] = _cost(kinds[i : i + 1], weight)[0], False, i
        added[j], added[:, j] = np.inf, np.inf
        compare(i)
        return j

    for i in range(room):
        compare(i)
    for later in range(room, len(given)):
        free = join_two()
        kinds[free], counts[free], alive[free], place[later] = given[later], times[later], True, free
        cost[free] = _cost(given[later : later + 1], weight)[0]
        compare(free)
    best, found = np.inf, given
    for left in range(room, 0, -1):
        total = float((cost * counts)[alive].sum()) + another * left
        if left <= most and total <= best:
            best, found = total, kinds[place]
        if left > 1:
            join_two()
    return [
        tuple(None if height == _ABSENT else height for height in own) for own in found[number.reshape(-1)].tolist()
    ]


def _cost(kinds: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cost of a partition of each of these heights (n, tables)."""
    total: NDArray[np.float64] = np.where(kinds == _ABSENT, 0.0, np.ldexp(1.0, kinds)) @ weight
    return total
