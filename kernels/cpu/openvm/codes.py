"""The CPU implementation of `kernels.interface.openvm_codes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernels.cpu.openvm.tables import message
from kernels.errors import BackendError
from kernels.interface.arrays import Array
from kernels.interface.babybear import BabyBearKernels
from kernels.interface.openvm_codes import CodeKernels, CodeTree, Opened, Place
from kernels.maths.babybear import Elements
from kernels.maths.poseidon2_babybear import DIGEST

ENCODED_AT_ONCE = 16
"""Columns that are encoded together: a row of them fills a cache line."""


@dataclass(frozen=True)
class CpuCodeTree(CodeTree):
    """A tree over a matrix whose columns are codewords."""

    matrix: Elements = field(repr=False)
    """Base elements (rows, width)."""
    layers: tuple[Elements, ...] = field(repr=False)
    """Digests (2^k, 8) of each layer, from the leaves to the root."""

    @classmethod
    def over(cls, k: BabyBearKernels, matrix: Elements, log_fold: int) -> CpuCodeTree:
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
        root: Elements = self.layers[-1][0]
        return root

    def open(self, leaves: NDArray[np.int64]) -> Opened:
        """Return opened leaves."""
        count, width = self.matrix.shape
        size = len(self.layers[0])
        rows = self.matrix.reshape(count // size, size, width)[:, leaves].swapaxes(0, 1)
        found = [layer[(leaves >> depth) ^ 1] for depth, layer in enumerate(self.layers[:-1])]
        none = np.zeros((len(leaves), 0, DIGEST), dtype=np.uint32)
        return Opened(np.ascontiguousarray(rows), np.stack(found, axis=1) if found else none)


class CpuCodes(CodeKernels):
    """The kernels, which compute by those of BabyBear."""

    def __init__(self, k: BabyBearKernels) -> None:
        self._k = k

    def stack(self, matrices: Sequence[Array], places: Sequence[Place], width: int, log_height: int) -> Array:
        cells = np.zeros(width << log_height, dtype=np.uint32)
        for matrix, place in zip(matrices, places, strict=True):
            end, step = place.start + (matrix.size << place.log_step), 1 << place.log_step
            cells[place.start : end : step] = matrix.reshape(-1)
        return cells.reshape(width, -1)

    def commit(self, columns: Array, log_skip: int, log_blowup: int, log_fold: int) -> CodeTree:
        width, height = columns.shape
        codewords = np.empty((height << log_blowup, width), dtype=np.uint32)
        # Some columns at a time: their messages and transforms are beside the codewords in memory.
        for first in range(0, width, ENCODED_AT_ONCE):
            some = columns[first : first + ENCODED_AT_ONCE]
            messages = np.zeros((len(some), height << log_blowup), dtype=np.uint32)
            messages[:, :height] = message(self._k, some, log_skip)
            codewords[:, first : first + len(some)] = self._k.ntt(messages).T
        return CpuCodeTree.over(self._k, codewords, log_fold)

    def commit_coefficients(self, coefficients: Array, log_blowup: int, log_fold: int) -> CodeTree:
        n = coefficients.shape[1]
        room = np.zeros((n << log_blowup, len(coefficients)), dtype=np.uint32)
        room[:n] = coefficients.T
        return CpuCodeTree.over(self._k, self._k.ntt(room, -2), log_fold)

    def open(self, trees: Sequence[CodeTree], leaves: NDArray[np.int64]) -> list[Opened]:
        ours = [tree for tree in trees if isinstance(tree, CpuCodeTree)]
        if len(ours) != len(trees):
            raise BackendError("a tree was not made by this backend")
        return [tree.open(leaves) for tree in ours]
