"""The rows and nodes that open Merkle trees at many indices at once. What several queries share is given once.

The nodes of a tree are numbered as in a heap: node i of the level of s nodes is s + i, and the root is 1. The children
of s + i, which lie half a level apart, are 2s + i and 3s + i. A tree of fewer leaves takes every index modulo their
number, so the queries meet the same nodes of every tree at a level of s nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class QueryPaths:
    """The leaves at which trees are opened, and the nodes that lead from there to the roots."""

    numbers: Indices
    """Numbers of the known nodes of all levels from the root down, then of the path; see `known_span`, `path_span`."""

    def __init__(self, indices: Sequence[int] | Indices, log_leaves: int) -> None:
        """Find the nodes for trees of at most 2^log_leaves leaves. `indices` >= 0 may repeat, and may exceed these."""
        word = np.int32 if log_leaves < 30 else np.int64  # half the bytes are sorted in half the time
        sizes = np.left_shift(1, np.arange(log_leaves + 2), dtype=word)
        halves = sizes[:-2]
        half = halves[:, None]
        at = np.array(indices, dtype=np.int64).astype(word)  # more bits than those of a leaf have no effect
        # The nodes of all levels but the root's, each as twice its parent's number, plus 1 for the second child:
        # siblings are neighbours in this order.
        by_level = at & (half - 1)
        by_level |= half
        by_level <<= 1
        by_level += (at & half) != 0
        by_level.sort(axis=1)
        met = by_level.ravel()
        met = met[_starts(met)[:-1]]
        ends = met.searchsorted(sizes[1:])
        parents = met >> 1
        starts = _starts(parents)
        alone = starts[:-1] & starts[1:]
        apart = halves.repeat(ends[1:] - ends[:-1])
        first = parents + apart
        known = first + apart * (met & 1)
        missing = (first + first + apart - known)[alone]
        known.sort()
        missing.sort()
        roots = sizes[: min(len(at), 1)]
        self._known_ends: list[int] = [0, *(ends + len(roots)).tolist()]
        self._path_lengths: list[int] = missing.searchsorted(sizes[1:]).tolist()
        levels = [missing[a:b] for a, b in pairwise(self._path_lengths)]
        self.numbers = np.concatenate([roots, known, *reversed(levels)], dtype=np.int64)

    def known(self, log_size: int) -> Indices:
        """Return the distinct indices modulo 2^log_size, ascending: leaves opened, or nodes computed from below."""
        begin, count = self.known_span(log_size)
        return self.numbers[begin : begin + count] - (1 << log_size)

    def known_span(self, log_size: int) -> tuple[int, int]:
        """Return where the nodes of `known` begin in `numbers`, and how many they are."""
        begin, end = self._known_ends[log_size : log_size + 2]
        return begin, end - begin

    def path(self, log_leaves: int) -> Indices:
        """Return the numbers of the nodes that open a tree of 2^log_leaves leaves, level by level from the lowest up.

        The path of a tree of fewer leaves is the end of this one.
        """
        begin, count = self.path_span(log_leaves)
        return self.numbers[begin : begin + count]

    def path_of(self, levels: tuple[int, ...]) -> Indices:
        """Return the numbers of the nodes that open a tree, level by level from the lowest up.

        `levels`: log2 of the nodes of each of its levels, from the leaves down to 0. Where a step spans several levels,
        a node has as many children as 2 to their number, equally far apart.
        """
        if levels == tuple(range(levels[0], -1, -1)):
            return self.path(levels[0])
        return np.concatenate([np.empty(0, dtype=np.int64), *(self.missing_of(*step) for step in pairwise(levels))])

    def missing_of(self, log_size: int, log_above: int) -> Indices:
        """Return the numbers of the nodes that the known ones of the level of 2^log_above lack as children among those
        of 2^log_size, ascending."""
        size, above = 1 << log_size, 1 << log_above
        if log_size == log_above + 1:
            path = self.path(log_size)
            return path[: len(path) - self.path_span(log_above)[1]]
        parents, known = self.known(log_above), self.known(log_size)
        children = np.arange(size, 2 * size, above)[:, None] + parents
        lacking = np.ones(children.shape, dtype=np.bool_)
        lacking[known >> log_above, parents.searchsorted(known & (above - 1))] = False
        missing: Indices = children[lacking]
        return missing

    def path_span(self, log_leaves: int) -> tuple[int, int]:
        """Return where the nodes of `path` begin in `numbers`, and how many they are."""
        count = self._path_lengths[log_leaves]
        return len(self.numbers) - count, count


def _starts(ascending: NDArray[np.signedinteger[Any]]) -> NDArray[np.bool_]:
    """Return (n + 1,) flags: whether each number differs from the one before it. The first and last are true."""
    starts = np.ones(len(ascending) + 1, dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=starts[1:-1])
    return starts
