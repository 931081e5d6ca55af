"""Merkle trees on the CPU, as `GoldilocksKernels.commit` defines them.

A level of m nodes is a (4, m) uint64 array: word w of the node at position p is [w, p]. A tree's levels lie in one
array, that of m nodes from word 4 m on. The node with natural index i = j B + k has position k (m / B) + j while
m >= B, and position i below that. So the children of p lie at the same place in equal parts of its coset, or of the
whole level once cosets have one node, and hashing reads in sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels.interface.arrays import Empty
from kernels.interface.goldilocks import TreeOpening, Words
from kernels.interface.tree_hash import INJECT_TAG, LEAF_TAG, NODE_TAG, TreeHash
from kernels.maths.query_paths import Indices, QueryPaths


@dataclass(frozen=True)
class Hasher:
    """The native hash functions for tree levels, with the pool and the instruction set that they run on, and what makes
    the levels."""

    native: Any
    pool: Any
    instruction_set: str
    empty: Empty
    tree_hash: TreeHash = TreeHash.KECCAK

    def using(self, tree_hash: TreeHash) -> Hasher:
        """Return a hasher for trees under another hash."""
        return self if tree_hash is self.tree_hash else replace(self, tree_hash=tree_hash)

    def leaves(self, matrices: Sequence[Words], arity: int, out: Words) -> None:
        """Write the level of leaves of matrices (w, B, n) of one B and n; a leaf has `arity` rows, a divisor of n."""
        _, blowup, n = matrices[0].shape
        header = [LEAF_TAG + 256 * len(matrices), *(arity * m.shape[0] for m in matrices)]
        header += [0] * (len(header) % 2)
        words = np.array(header, dtype="<u4").view("<u8").astype(np.uint64)
        flat = [m.reshape(-1) for m in matrices]
        self.native.gl_leaves(
            self.pool, self.instruction_set, self.tree_hash.function, flat, words, blowup, n, arity, out
        )

    def parents(self, level: Words, blowup: int, out: Words) -> None:
        """Write `out`, the level above `level`."""
        cosets = blowup if len(level) > 4 * blowup else 1
        arity = len(level) // len(out)
        self.native.gl_parents(
            self.pool, self.instruction_set, self.tree_hash.function, NODE_TAG, level, cosets, arity, out
        )

    def inject(self, nodes: Words, leaves: Words) -> None:
        """Hash the level `leaves` into the level `nodes`, node by node."""
        name = self.tree_hash.function
        self.native.gl_inject(self.pool, self.instruction_set, name, INJECT_TAG, nodes, leaves, nodes)


class CpuMerkleTree:
    """A Merkle tree whose levels lie in memory; it keeps the matrices."""

    def __init__(self, hasher: Hasher, matrices: Sequence[Words], log_arity: int) -> None:
        self.blowup, self._arity = int(matrices[0].shape[1]), 1 << log_arity
        self._matrices = tuple(matrices)
        by_size: dict[int, list[Words]] = {}
        for m in matrices:
            by_size.setdefault(self._leaf_count(m), []).append(m)
        sizes = sorted((size.bit_length() - 1 for size in by_size), reverse=True)
        self.log_leaves = sizes[0]
        self.levels = hasher.tree_hash.levels(self.log_leaves, self.blowup.bit_length() - 1, sizes)
        """log2 of the nodes of each level, from the leaves to the root."""
        self._words = hasher.empty((8 << self.log_leaves,), np.uint64)
        hasher.leaves(by_size[1 << self.log_leaves], self._arity, self._level(1 << self.log_leaves))
        for below, log_size in pairwise(self.levels):
            size = 1 << log_size
            hasher.parents(self._level(1 << below), self.blowup, self._level(size))
            if size in by_size:
                leaves = hasher.empty((4 * size,), np.uint64)
                hasher.leaves(by_size[size], self._arity, leaves)
                hasher.inject(self._level(size), leaves)

    @property
    def root(self) -> bytes:
        """The root digest, 32 bytes."""
        return self._level(1).astype("<u8").tobytes()

    @property
    def nodes(self) -> Words:
        """The array of all levels."""
        return self._words

    def over(self, matrices: Sequence[Words], nodes: Words) -> CpuMerkleTree:
        """As of `kernels.interface.goldilocks.StoredTree`."""
        other = copy(self)
        other._matrices, other._words = tuple(matrices), nodes
        return other

    def open_along(self, paths: QueryPaths, places: Indices) -> TreeOpening:
        """Return rows and path along `paths`; `places` are the `node_places` of its path."""
        rows = tuple(self._rows(m, paths.known(self._leaf_count(m).bit_length() - 1)) for m in self._matrices)
        nodes: Words = self._words.take(places)
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


def root_of_cosets(hasher: Hasher, cosets: Iterable[Words], log_blowup: int) -> bytes:
    """The root of the tree over one matrix (w, B, n), of which the cosets (w, 1, n) are given one after the other, in
    order. Nothing else is kept: below the level of B nodes a coset has a tree of its own."""
    count = 1 << log_blowup
    level = np.empty((4, count), dtype=np.uint64)
    for number, coset in enumerate(cosets):
        level[:, number] = CpuMerkleTree(hasher, [coset], 0).nodes[4:8]
    for _, log_size in pairwise(hasher.tree_hash.levels(log_blowup, log_blowup)):
        above = np.empty((4, 1 << log_size), dtype=np.uint64)
        hasher.parents(level.reshape(-1), 1, above.reshape(-1))
        level = above
    return level.astype("<u8").tobytes()


def open_trees(trees: Sequence[CpuMerkleTree], indices: NDArray[np.int64]) -> list[TreeOpening]:
    """Open each tree at `indices` >= 0, where index i is its leaf i mod 2^log_leaves, by paths found once for all."""
    if not trees:
        return []
    log_leaves = max(tree.log_leaves for tree in trees)
    paths = QueryPaths(indices, log_leaves)
    shapes = {(tree.levels, tree.blowup) for tree in trees}
    places = {(levels, blowup): node_places(paths.path_of(levels), blowup) for levels, blowup in shapes}
    return [tree.open_along(paths, places[tree.levels, tree.blowup]) for tree in trees]


def node_places(numbers: Indices, blowup: int) -> Indices:
    """Return the places (k, 4) of nodes' words in the array of a tree's levels, by the nodes' numbers as in
    `kernels.maths.query_paths`."""
    sizes = np.left_shift(1, np.frexp(numbers)[1].astype(np.int64) - 1)  # exact: a number has fewer than 53 bits
    index = numbers - sizes
    each = np.maximum(sizes // blowup, 1)  # nodes of a coset; a level of fewer nodes than cosets is one run
    positions = np.where(sizes < blowup, index, index % blowup * each + index // blowup)
    places: Indices = (4 * sizes + positions)[:, None] + sizes[:, None] * np.arange(4)
    return places
