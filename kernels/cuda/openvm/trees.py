"""Merkle trees over codewords on CUDA: `openvm_trees.cu`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.babybear import poseidon2_argument
from kernels.cuda.device import Device
from kernels.errors import BackendError
from kernels.host.babybear import canonical
from kernels.interface.arrays import Array
from kernels.interface.openvm_codes import CodeTree, Opened
from kernels.maths.babybear import Elements
from kernels.maths.babybear_ntt import log2_of
from kernels.maths.poseidon2_babybear import DIGEST
from kernels.source import KernelSource

HASH_THREADS = 256
"""Threads of a block."""
SOURCE = KernelSource("openvm_trees", (("HASH_THREADS", str(HASH_THREADS)),))


class CudaCodeTree(CodeTree):
    """A tree over codewords (width, rows), whose layers of digests lie one behind another."""

    def __init__(self, device: Device, codewords: Array, digests: Array, log_fold: int) -> None:
        self._device = device
        self._root: Elements | None = None
        self.codewords = codewords
        self.digests = digests
        self.log_fold = log_fold

    @classmethod
    def over(cls, device: Device, codewords: Array, log_fold: int) -> CudaCodeTree:
        """Hash the rows of codewords (width, rows)."""
        width, rows = map(int, codewords.shape)
        log_leaves, constants = log2_of(rows) - log_fold, poseidon2_argument()
        digests = device.empty(((2 << log_leaves) - 1, DIGEST), np.uint32)
        threads = min(HASH_THREADS, rows)
        sizes = np.uint64(rows), np.uint32(width), np.uint32(log_fold), np.uint32(log_leaves)
        kernel = device.kernel(SOURCE, "trees_leaves")
        kernel.launch(rows // threads, threads, (constants, codewords, digests, *sizes))
        climb, start, log_size = device.kernel(SOURCE, "trees_climb"), 0, log_leaves
        while log_size:
            levels = min(log_size, log2_of(HASH_THREADS) + 1)
            arguments = (constants, digests[start:], np.uint32(log_size), np.uint32(levels))
            climb.launch(1 << (log_size - levels), 1 << (levels - 1), arguments)
            start += (2 << log_size) - (2 << (log_size - levels))
            log_size -= levels
        return cls(device, codewords, digests, log_fold)

    @property
    def root(self) -> Elements:
        if self._root is None:
            self._root = canonical(self._device.download(self.digests[-1]))
        return self._root

    @property
    def log_leaves(self) -> int:
        """log2 of the number of leaves."""
        return log2_of(int(self.codewords.shape[1])) - self.log_fold


def open_trees(device: Device, trees: Sequence[CodeTree], leaves: NDArray[np.int64]) -> list[Opened]:
    """Open the same leaves of trees; waits once. Raises BackendError for a tree of another backend."""
    ours = [tree for tree in trees if isinstance(tree, CudaCodeTree)]
    if len(ours) != len(trees):
        raise BackendError("a tree was not made by this backend")
    shapes = [
        ((len(leaves), 1 << tree.log_fold, int(tree.codewords.shape[0])), (len(leaves), tree.log_leaves, DIGEST))
        for tree in ours
    ]
    sizes = [int(np.prod(rows)) + int(np.prod(paths)) for rows, paths in shapes]
    ends = np.cumsum(sizes).tolist()
    out, queries = device.empty((ends[-1],), np.uint32), device.upload(leaves.astype(np.uint32))
    kernel = device.kernel(SOURCE, "trees_open")
    for tree, size, end in zip(ours, sizes, ends, strict=True):
        width, rows = tree.codewords.shape
        counts = map(np.uint64, (len(leaves), rows, width))
        logs = np.uint32(tree.log_fold), np.uint32(tree.log_leaves)
        arguments = (tree.codewords, tree.digests, queries, out[end - size : end], *counts, *logs)
        kernel.launch_items(size, arguments)
    found = device.download(out)
    opened = []
    for (rows, paths), end, size in zip(shapes, ends, sizes, strict=True):
        cells = found[end - size : end]
        split = int(np.prod(rows))
        opened.append(Opened(cells[:split].reshape(rows), cells[split:].reshape(paths)))
    return opened
