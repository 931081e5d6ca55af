"""A `kernels.cuda.device.Device` as large as a GPU that computes nothing: its memory and the order of work.

    device = IdleDevice(budget=139 << 30)
    backend = CudaBackend(device=device)

Arrays are pages that nothing touches, so a key of 44 GiB costs the host nothing. Large ones come from the blocks that
the arena of a real device takes them from, and `made` says how much the driver would have been asked for.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from kernels.cuda.device import Argument, Shape, Stream
from kernels.cuda.large_blocks import LargeBlocks, Loan
from kernels.errors import OutOfMemory
from kernels.interface.arrays import Array, HostArray
from kernels.interface.backend import DeviceInfo
from kernels.source import KernelSource
from tests.support.emulated_device import EmulatedDevice, EmulatedFetch, EmulatedKernel

NORESERVE = 0x4000
"""MAP_NORESERVE of Linux, which the module `mmap` has from Python 3.13 on only."""

LARGE = 32 << 20
GRANULE = 2 << 20
"""As in kernels/cuda/arena.py, which cannot be imported without CuPy."""


class Pages:
    """A block of device memory: pages that are zero and not there until somebody writes."""

    def __init__(self, nbytes: int) -> None:
        self.pages = mmap.mmap(-1, max(1, nbytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)


class IdleKernel(EmulatedKernel):
    """A kernel that does nothing, on a device with the occupancy of an H200's msm_add_pairs."""

    def __init__(self) -> None:
        self._max_block = 1024

    def blocks_per_sm(self, block: int) -> int:
        return 3

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        return


class IdleDevice(EmulatedDevice):
    """A device of a GPU's size that computes nothing. Kernels that count, as of an MSM's entries, find `count`."""

    def __init__(self, *, budget: int, sm_count: int = 132, count: Callable[[], int] = lambda: 0) -> None:
        super().__init__(sm_count=sm_count, budget=budget)
        self.made: list[int] = []
        """Bytes of each block that was taken from the driver."""
        self._blocks: LargeBlocks[Pages] = LargeBlocks(self._make)
        self._small = 0
        self.count = count

    def info(self) -> DeviceInfo:
        return DeviceInfo("an idle device", "cuda", self._budget, self._budget)

    @property
    def used(self) -> int:
        return self._blocks.lent + self._small

    def _make(self, size: int) -> Pages:
        self.made.append(size)
        return Pages(size)

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        kind = np.dtype(dtype)
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        if nbytes < LARGE:
            raw = np.frombuffer(Pages(nbytes).pages, dtype=np.uint8)
            self._count(nbytes)
            weakref.finalize(raw, self._count, -nbytes)
        else:
            loan = self._blocks.take(-(-nbytes // GRANULE) * GRANULE, 0, self._budget - self._small)
            if loan is None:
                raise OutOfMemory(f"{nbytes} bytes of device memory needed; {self._budget - self.used} are free")
            raw = np.frombuffer(loan.memory.pages, dtype=np.uint8)
            weakref.finalize(raw, _keep, loan)
        self._peak = max(self._peak, self.used)
        return raw[:nbytes].view(kind).reshape(shape)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        return self.empty(shape, dtype)

    def clear(self, array: Array) -> None:
        return

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        return

    def upload(self, host: HostArray) -> Array:
        return self.empty(host.shape, host.dtype)

    def fetch(self, array: Array, stream: Stream | None = None) -> EmulatedFetch:
        known = np.full(array.shape, self.count(), array.dtype) if array.dtype == np.uint32 else np.zeros_like(array)
        return EmulatedFetch(known, self.meter, self.traffic)

    def kernel(self, source: KernelSource, name: str) -> EmulatedKernel:
        return IdleKernel()

    def memory_free(self) -> int:
        return self._budget - self.used

    def watch_memory(self) -> None:
        self._peak = self.used

    def _count(self, nbytes: int) -> None:
        self._small += nbytes


def _keep(loan: Loan[Pages]) -> None:
    """Hold a block for as long as its array lives."""
