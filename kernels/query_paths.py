"""Which rows and nodes open Merkle trees at many indices at once: what several queries lead through is given once.

The nodes of a tree are numbered as in a heap: node i of the level of s nodes is s + i, the root 1. Its children, which
lie half a level apart, are 2s + i and 3s + i. A tree of fewer leaves takes every index modulo their number, so that at
a level of s nodes the queries meet the same nodes of every tree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class QueryPaths:
    """The leaves at which trees are opened, and the nodes that lead from there to the roots."""

    def __init__(self, indices: Sequence[int] | Indices, log_leaves: int) -> None:
        """For trees of at most 2^log_leaves leaves. `indices` are at least 0; they may repeat, and may exceed those."""
        at = np.array(indices, dtype=np.int64)
        sizes = np.left_shift(1, np.arange(log_leaves + 2))
        levels = sizes[:-1, None]
        # The nodes of all levels at once, by number: the siblings differ from them in the second bit.
        met = np.sort(levels + (at & (levels - 1)), axis=None)
        known: Indices = met[np.diff(met, prepend=0) != 0]
        self._known_ends = np.searchsorted(known, sizes)
        siblings = known ^ np.repeat(sizes[:-1] >> 1, np.diff(self._known_ends))
        nearest = known.take(np.searchsorted(known, siblings), mode="clip")
        missing = np.sort(siblings[nearest != siblings])
        ends = np.searchsorted(missing, sizes)
        self._known = known
        self._path = np.concatenate([missing[a:b] for a, b in zip(ends[-2::-1], ends[:0:-1], strict=True)])
        self._path_lengths = ends[1:]

    def known(self, log_size: int) -> Indices:
        """The distinct indices modulo 2^log_size, ascending: leaves that are opened, nodes that follow from below."""
        begin, end = self._known_ends[log_size : log_size + 2]
        return self._known[begin:end] - (1 << log_size)

    def missing(self, log_size: int) -> Indices:
        """The nodes at the level of 2^log_size > 1 that the parents of the known ones need as well, ascending."""
        path = self.path(log_size)
        return path[: len(path) - len(self.path(log_size - 1))] - (1 << log_size)

    def path(self, log_leaves: int) -> Indices:
        """The numbers of the nodes that open a tree of 2^log_leaves leaves: level by level from the lowest up.

        It ends with the path of a tree of fewer leaves.
        """
        return self._path[len(self._path) - self._path_lengths[log_leaves] :]
