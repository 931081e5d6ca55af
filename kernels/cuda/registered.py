"""Memory of other processes that a CUDA device reads where it lies.

A witness of a synthesiser lies in shared memory, which another core has just written. To copy it to page-locked memory
first would cost the prover more than all else that it does for a short proof on the host. Synthesisers use the same
blocks again and again, so each is page-locked where it is mapped, once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from kernels.host.shared_arrays import MappedBlock
from kernels.interface.arrays import HostArray

LARGEST = 8 << 20
"""Bytes of the largest block that is page-locked: the copy of a larger array overlaps its transfer, piece by piece."""
MOST = 512 << 20
"""Most bytes of all of them."""


class RegisteredBlocks:
    """The blocks that are page-locked, each until it is unmapped. One thread at a time asks."""

    def __init__(self, register: Callable[[int, int], bool], unregister: Callable[[int], None]) -> None:
        """`register` page-locks so many bytes at an address for reading, if that can be done; `unregister` ends that,
        on whatever thread unmaps the block."""
        self._register = register
        self._unregister = unregister
        self._blocks: dict[int, int] = {}
        """Bytes of each block by its address."""
        self._refused = False
        """Whether it is not tried again."""

    def has(self, host: HostArray) -> bool:
        """Whether the device may read `host` where it lies; a block that is new is page-locked, if there is room."""
        block = MappedBlock.of(host)
        if block is None:
            return False
        address: int = block.__array_interface__["data"][0]
        if address in self._blocks:
            return True
        if self._refused or block.nbytes > LARGEST or sum(self._blocks.values()) + block.nbytes > MOST:
            return False
        if not self._register(address, block.nbytes):
            self._refused = True
            return False
        self._blocks[address] = block.nbytes
        # The block's memory is unmapped after this, with the last view of it.
        weakref.finalize(block, self._end, address).atexit = False
        return True

    def _end(self, address: int) -> None:
        self._unregister(address)
        del self._blocks[address]
