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

    def __init__(self, indices: Sequence[int] | Indices) -> None:
        """`indices` are at least 0. They may repeat, and may exceed a tree's leaves."""
        self._indices = np.unique(np.array(indices, dtype=np.int64))
        self._known: dict[int, Indices] = {}
        self._paths: list[Indices] = [np.empty(0, dtype=np.int64)]

    def known(self, log_size: int) -> Indices:
        """The distinct indices modulo 2^log_size, ascending: leaves that are opened, nodes that follow from below."""
        if log_size not in self._known:
            self._known[log_size] = np.unique(self._indices & ((1 << log_size) - 1))
        return self._known[log_size]

    def missing(self, log_size: int) -> Indices:
        """The nodes at the level of 2^log_size > 1 that the parents of the known ones need as well, ascending."""
        path = self.path(log_size)
        return path[: len(path) - len(self.path(log_size - 1))] - (1 << log_size)

    def path(self, log_leaves: int) -> Indices:
        """The numbers of the nodes that open a tree of 2^log_leaves leaves: level by level from the lowest up.

        It ends with the path of a tree of fewer leaves.
        """
        for log_size in range(len(self._paths), log_leaves + 1):
            half = 1 << (log_size - 1)
            known, parents = self.known(log_size), self.known(log_size - 1)
            left, right = np.split(known, [np.searchsorted(known, half)])
            missing = [2 * half + _without(parents, left), 3 * half + _without(parents, right - half)]
            self._paths.append(np.concatenate([*missing, self._paths[-1]]))
        return self._paths[log_leaves]


def _without(items: Indices, some: Indices) -> Indices:
    """The `items` that are not among `some` of them; both are ascending."""
    others = np.ones(len(items), dtype=np.bool_)
    others[np.searchsorted(items, some)] = False
    return items[others]
