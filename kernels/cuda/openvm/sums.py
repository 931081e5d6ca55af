"""Launches of kernels whose blocks add up sums by `grid_sums` of cuda/src/openvm_sums.h."""

from __future__ import annotations

import numpy as np

from kernels.cuda.device import Argument, Device, grid_for
from kernels.maths.babybear import DEGREE
from kernels.source import KernelSource

THREADS = 256
"""Threads of a block."""
MAX_BLOCKS_PER_SM = 4
"""Most blocks for each multiprocessor: the last one to end adds up the sums of all."""


class GridSums:
    """A kernel of `count` sums, with memory for those of each block, and for the number of blocks that have ended."""

    def __init__(self, device: Device, source: KernelSource, name: str, count: int) -> None:
        self._kernel = device.kernel(source, name)
        self._most = max(1, min(MAX_BLOCKS_PER_SM, self._kernel.blocks_per_sm(THREADS)) * device.sm_count)
        self._partial = device.empty((self._most, count, DEGREE), np.uint32)
        self._ended = device.zeros((1,), np.uint32)

    def launch(self, items: int, args: tuple[Argument, ...]) -> None:
        """Queue the kernel with blocks that walk over `items`; its last arguments are the two arrays."""
        blocks = max(1, min(grid_for(items, THREADS), self._most))
        self._kernel.launch(blocks, THREADS, (*args, self._partial, self._ended))
