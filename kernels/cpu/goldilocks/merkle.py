"""Keccak-256 Merkle trees on the CPU, as `GoldilocksKernels.commit` defines them.

A level of m nodes is a (4, m) uint64 array: word w of the node at position p is [w, p]. The node with natural index
i = j B + k has position k (m / B) + j while m >= B, and position i below that. So the children of p lie at the same
place in the two halves of its coset, or of the whole level once cosets have one node, and hashing reads in sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.errors import SizeError
from kernels.interface.arrays import Empty
from kernels.interface.goldilocks import INJECT_TAG, LEAF_TAG, NODE_TAG, Bytes, TreeOpening, Words
from kernels.maths.query_paths import Indices, QueryPaths


@dataclass(frozen=True)
class Hasher:
    """The native hash functions for tree levels, with the pool and the instruction set that they run on, and what makes
    the levels."""

    native: Any
    pool: Any
    instruction_set: str
    empty: Empty

    def leaves(self, matrices: Sequence[Words], arity: int) -> Words:
        """Return the level of leaves of matrices (w, B, n) of one B and n; a leaf has `arity` rows, a divisor of n."""
        _, blowup, n = matrices[0].shape
        header = [LEAF_TAG + 256 * len(matrices), *(arity * m.shape[0] for m in matrices)]
        header += [0] * (len(header) % 2)
        words = np.array(header, dtype="<u4").view("<u8").astype(np.uint64)
        out = self.empty((4, blowup * n // arity), np.uint64)
        flat = [m.reshape(-1) for m in matrices]
        self.native.gl_leaves(self.pool, self.instruction_set, flat, words, blowup, n, arity, out.reshape(-1))
        return out

    def parents(self, level: Words, blowup: int) -> Words:
        """Return the level above `level`: (4, m / 2) for (4, m)."""
        out = self.empty((4, level.shape[1] // 2), np.uint64)
        cosets = blowup if level.shape[1] > blowup else 1
        self.native.gl_parents(self.pool, self.instruction_set, NODE_TAG, level.reshape(-1), cosets, out.reshape(-1))
        return out

    def inject(self, nodes: Words, leaves: Words) -> Words:
        """Return the level `nodes` with the level `leaves` hashed into it, node by node."""
        out = self.empty(nodes.shape, np.uint64)
        self.native.gl_inject(
            self.pool, self.instruction_set, INJECT_TAG, nodes.reshape(-1), leaves.reshape(-1), out.reshape(-1)
        )
        return out


class CpuMerkleTree:
    """A Merkle tree whose levels lie in memory; it keeps the matrices."""

    def __init__(self, hasher: Hasher, matrices: Sequence[Words], log_arity: int) -> None:
        self._blowup, self._arity = int(matrices[0].shape[1]), 1 << log_arity
        self._matrices = tuple(matrices)
        by_size: dict[int, list[Words]] = {}
        for m in matrices:
            by_size.setdefault(self._leaf_count(m), []).append(m)
        size = max(by_size)
        self._levels = [hasher.leaves(by_size[size], self._arity)]
        while size > 1:
            size //= 2
            level = hasher.parents(self._levels[-1], self._blowup)
            if size in by_size:
                level = hasher.inject(level, hasher.leaves(by_size[size], self._arity))
            self._levels.append(level)

    @property
    def root(self) -> bytes:
        """The root digest, 32 bytes."""
        return self._nodes(0, np.zeros(1, dtype=np.int64)).tobytes()

    @property
    def log_leaves(self) -> int:
        """log2 of the number of leaves of the tallest matrix."""
        return len(self._levels) - 1

    def open(self, indices: Sequence[int]) -> TreeOpening:
        """Return rows and path at natural leaf indices of the tallest matrix. Raises SizeError for other indices."""
        leaves = self._levels[0].shape[1]
        if any(not 0 <= i < leaves for i in indices):
            raise SizeError(f"a tree of {leaves} leaves has no other indices")
        paths = QueryPaths(indices, self.log_leaves)
        rows = tuple(self._rows(m, paths.known(self._leaf_count(m).bit_length() - 1)) for m in self._matrices)
        path = [self._nodes(log_size, paths.missing(log_size)) for log_size in range(self.log_leaves, 0, -1)]
        return TreeOpening(rows, np.concatenate([*path, np.empty((0, 32), dtype=np.uint8)]))

    def _leaf_count(self, matrix: Words) -> int:
        return int(matrix.shape[1] * matrix.shape[2]) // self._arity

    def _nodes(self, log_size: int, indices: Indices) -> Bytes:
        """Return the nodes at natural `indices` of the level of 2^log_size nodes, (k, 32) bytes."""
        level = self._levels[self.log_leaves - log_size]
        size, blowup = level.shape[1], self._blowup
        positions = indices if size < blowup else indices % blowup * (size // blowup) + indices // blowup
        nodes: Bytes = level.T[positions].astype("<u8").view(np.uint8)
        return nodes

    def _rows(self, matrix: Words, leaves: Indices) -> Words:
        """Return the elements of `leaves` in the order in which they are hashed, (k, arity * width)."""
        rows = leaves[:, None] + np.arange(self._arity) * self._leaf_count(matrix)
        elements = matrix[:, rows % self._blowup, rows // self._blowup]  # (w, k, arity)
        return np.ascontiguousarray(elements.transpose(1, 2, 0)).reshape(len(leaves), -1)
