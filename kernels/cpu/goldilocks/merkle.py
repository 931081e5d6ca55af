"""Keccak-256 Merkle trees on the CPU, as `GoldilocksKernels.commit` defines them.

A level of m nodes is a (4, m) uint64 array: word w of the node at position p is [w, p]. A tree's levels lie in one
array, that of m nodes from word 4 m on. The node with natural index i = j B + k has position k (m / B) + j while
m >= B, and position i below that. So the children of p lie at the same place in the two halves of its coset, or of the
whole level once cosets have one node, and hashing reads in sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.interface.arrays import Empty
from kernels.interface.goldilocks import INJECT_TAG, LEAF_TAG, NODE_TAG, TreeOpening, Words
from kernels.maths.query_paths import Indices, QueryPaths


@dataclass(frozen=True)
class Hasher:
    """The native hash functions for tree levels, with the pool and the instruction set that they run on, and what makes
    the levels."""

    native: Any
    pool: Any
    instruction_set: str
    empty: Empty

    def leaves(self, matrices: Sequence[Words], arity: int, out: Words) -> None:
        """Write the level of leaves of matrices (w, B, n) of one B and n; a leaf has `arity` rows, a divisor of n."""
        _, blowup, n = matrices[0].shape
        header = [LEAF_TAG + 256 * len(matrices), *(arity * m.shape[0] for m in matrices)]
        header += [0] * (len(header) % 2)
        words = np.array(header, dtype="<u4").view("<u8").astype(np.uint64)
        flat = [m.reshape(-1) for m in matrices]
        self.native.gl_leaves(self.pool, self.instruction_set, flat, words, blowup, n, arity, out)

    def parents(self, level: Words, blowup: int, out: Words) -> None:
        """Write the level above `level`: 4 m / 2 words from 4 m."""
        cosets = blowup if len(level) > 4 * blowup else 1
        self.native.gl_parents(self.pool, self.instruction_set, NODE_TAG, level, cosets, out)

    def inject(self, nodes: Words, leaves: Words) -> None:
        """Hash the level `leaves` into the level `nodes`, node by node."""
        self.native.gl_inject(self.pool, self.instruction_set, INJECT_TAG, nodes, leaves, nodes)


class CpuMerkleTree:
    """A Merkle tree whose levels lie in memory; it keeps the matrices."""

    def __init__(self, hasher: Hasher, matrices: Sequence[Words], log_arity: int) -> None:
        self.blowup, self._arity = int(matrices[0].shape[1]), 1 << log_arity
        self._matrices = tuple(matrices)
        by_size: dict[int, list[Words]] = {}
        for m in matrices:
            by_size.setdefault(self._leaf_count(m), []).append(m)
        size = max(by_size)
        self.log_leaves = size.bit_length() - 1
        self._words = hasher.empty((8 * size,), np.uint64)
        hasher.leaves(by_size[size], self._arity, self._level(size))
        while size > 1:
            size //= 2
            hasher.parents(self._level(2 * size), self.blowup, self._level(size))
            if size in by_size:
                leaves = hasher.empty((4 * size,), np.uint64)
                hasher.leaves(by_size[size], self._arity, leaves)
                hasher.inject(self._level(size), leaves)

    @property
    def root(self) -> bytes:
        """The root digest, 32 bytes."""
        return self._level(1).astype("<u8").tobytes()

    def open_along(self, paths: QueryPaths, places: Indices) -> TreeOpening:
        """Return rows and path along `paths`, of which `places` are this tree's or a taller one's `node_places`."""
        rows = tuple(self._rows(m, paths.known(self._leaf_count(m).bit_length() - 1)) for m in self._matrices)
        count = paths.path_span(self.log_leaves)[1]
        nodes: Words = self._words.take(places[len(places) - count :])
        return TreeOpening(rows, nodes.astype("<u8", copy=False).view(np.uint8))

    def _level(self, size: int) -> Words:
        return self._words[4 * size : 8 * size]

    def _leaf_count(self, matrix: Words) -> int:
        return int(matrix.shape[1] * matrix.shape[2]) // self._arity

    def _rows(self, matrix: Words, leaves: Indices) -> Words:
        """Return the elements of `leaves` in the order in which they are hashed, (k, arity * width)."""
        rows = leaves[:, None] + np.arange(self._arity) * self._leaf_count(matrix)
        elements = matrix[:, rows % self.blowup, rows // self.blowup]  # (w, k, arity)
        return np.ascontiguousarray(elements.transpose(1, 2, 0)).reshape(len(leaves), self._arity * matrix.shape[0])


def open_trees(trees: Sequence[CpuMerkleTree], indices: Sequence[int]) -> list[TreeOpening]:
    """Open each tree at `indices` >= 0, where index i is its leaf i mod 2^log_leaves, by paths found once for all."""
    if not trees:
        return []
    log_leaves = max(tree.log_leaves for tree in trees)
    paths = QueryPaths(indices, log_leaves)
    places = {blowup: node_places(paths.path(log_leaves), blowup) for blowup in {tree.blowup for tree in trees}}
    return [tree.open_along(paths, places[tree.blowup]) for tree in trees]


def node_places(numbers: Indices, blowup: int) -> Indices:
    """Return the places (k, 4) of nodes' words in the array of a tree's levels, by the nodes' numbers as in
    `kernels.maths.query_paths`."""
    sizes = np.left_shift(1, np.frexp(numbers)[1].astype(np.int64) - 1)  # exact: a number has fewer than 53 bits
    index = numbers - sizes
    each = np.maximum(sizes // blowup, 1)  # nodes of a coset; a level of fewer nodes than cosets is one run
    positions = np.where(sizes < blowup, index, index % blowup * each + index // blowup)
    places: Indices = (4 * sizes + positions)[:, None] + sizes[:, None] * np.arange(4)
    return places
