"""Commitments of OpenVM 2's prover: stacked columns, their Reed-Solomon codewords and Merkle trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distprove.errors import UsageError
from distprove.stark.openvm.layout import Layout
from distprove.stark.openvm.params import SystemParams
from distprove.stark.openvm.tables import message
from kernels.interface.babybear import BabyBearKernels
from kernels.maths.babybear import Elements
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.poseidon2_babybear import DIGEST

ENCODED_AT_ONCE = 16
"""Columns that are encoded together: a row of them fills a cache line."""


@dataclass(frozen=True)
class MerkleTree:
    """A Merkle tree over the rows of a matrix, whose leaves are 2^log_fold rows at equal distances.

    Leaf i of m leaves has the rows i, i + m, i + 2m and so on. They fold to one element of the next codeword.
    """

    matrix: Elements = field(repr=False)
    """Base elements (rows, width); an element of the extension is 4 of them."""
    layers: tuple[Elements, ...] = field(repr=False)
    """Digests (2^k, 8) of each layer, from the leaves to the root."""

    @classmethod
    def over(cls, k: BabyBearKernels, matrix: Elements, log_fold: int) -> MerkleTree:
        """Hash a matrix whose number of rows is a power of two, at least 2^log_fold."""
        nodes = k.hash_rows(matrix)
        for _ in range(log_fold):
            pairs = nodes.reshape(-1, 2, len(matrix) >> log_fold, DIGEST)
            nodes = k.compress(pairs[:, 0].reshape(-1, DIGEST), pairs[:, 1].reshape(-1, DIGEST))
        layers = [nodes]
        while len(layers[-1]) > 1:
            layers.append(k.compress(layers[-1][::2], layers[-1][1::2]))
        return cls(matrix, tuple(layers))

    @property
    def root(self) -> Elements:
        """The root (8,)."""
        root: Elements = self.layers[-1][0]
        return root

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.layers[0])

    def rows(self, queries: NDArray[np.int64]) -> Elements:
        """Return the rows of leaves, (queries, 2^log_fold, width)."""
        return np.ascontiguousarray(
            self.matrix.reshape(-1, self.leaves, self.matrix.shape[1])[:, queries].swapaxes(0, 1)
        )

    def paths(self, queries: NDArray[np.int64]) -> Elements:
        """Return the Merkle paths of leaves, from the leaf on, (queries, depth, 8)."""
        found = [layer[(queries >> depth) ^ 1] for depth, layer in enumerate(self.layers[:-1])]
        return np.stack(found, axis=1) if found else np.zeros((len(queries), 0, DIGEST), dtype=np.uint32)


@dataclass(frozen=True)
class Stacked:
    """Matrices that one commitment holds, stacked to columns of equal height."""

    layout: Layout
    columns: Elements = field(repr=False)
    """The stacked columns (width, 2^log_height): values over the prism, D first."""
    tree: MerkleTree = field(repr=False)


def stack(params: SystemParams, matrices: Sequence[Elements]) -> tuple[Layout, Elements]:
    """Stack matrices (width, height) in descending order of their heights.

    Returns their layout and the stacked columns. A column of fewer than 2^log_skip rows fills every n-th row of
    2^log_skip. Raises UsageError for a matrix that is taller than the stack.
    """
    sizes = [(matrix.shape[0], log2_of(matrix.shape[1])) for matrix in matrices]
    if any(log_height > params.log_height for _, log_height in sizes):
        raise UsageError(f"a trace has more than 2^{params.log_height} rows, which the key's stack has no room for")
    layout = Layout.of(params.log_skip, params.log_height, sizes)
    cells = np.zeros(layout.width << params.log_height, dtype=np.uint32)
    for placed, matrix in zip(layout.traces, matrices, strict=True):
        room = cells[placed.start : placed.start + (placed.width << placed.log_rows)]
        room[:: 1 << (placed.log_rows - placed.log_height)] = matrix.reshape(-1)
    return layout, cells.reshape(layout.width, -1)


def commit(k: BabyBearKernels, params: SystemParams, matrices: Sequence[Elements]) -> Stacked:
    """Stack, encode and hash matrices (width, height) in descending order of their heights. Raises UsageError."""
    layout, columns = stack(params, matrices)
    return Stacked(layout, columns, MerkleTree.over(k, encode(k, params, columns), params.whir.log_fold))


def encode(k: BabyBearKernels, params: SystemParams, columns: Elements) -> Elements:
    """Return the codewords (2^(log_height + log_blowup), width) of stacked columns (width, 2^log_height)."""
    width, height = columns.shape
    codewords = np.empty((height << params.log_blowup, width), dtype=np.uint32)
    # Some columns at a time: their messages and transforms are beside the codewords in memory.
    for first in range(0, width, ENCODED_AT_ONCE):
        some = columns[first : first + ENCODED_AT_ONCE]
        messages = np.zeros((len(some), height << params.log_blowup), dtype=np.uint32)
        messages[:, :height] = message(k, some, params.log_skip)
        codewords[:, first : first + len(some)] = k.ntt(messages).T
    return codewords
