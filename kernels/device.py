"""What the CUDA backend asks of a device: memory, copies, streams and kernels by name.

`kernels.launch.CudaDevice` is the real one, on CuPy. The tests have another that runs the same kernels on the host, so
everything above this interface (launch arithmetic, pass plans, buffer use) is exercised without a GPU.

Arrays are of the device's own kind and are only sliced, reshaped and asked for shape, dtype and nbytes here; every byte
of work is done by a kernel or by a method of `Device`.

Ordering: all methods work on `Device.stream` unless another stream is given. Memory comes back to the arena when the
last reference goes, and is reused at once by work later in `Device.stream`; whoever uses an array on another stream
makes `Device.stream` wait for that work before dropping it. Between `Device.fork` and `Device.join` no memory is taken,
so that all of it is of one pool (`parallel`). Staged arrays alone have memory of another stream, so that
their copies need not wait for work that is queued on `Device.stream`; it comes back once their last reader is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from kernels.backend import Array, DeviceInfo, HostArray, SizeError, Staged, Traffic
from kernels.busy import EventMeter
from kernels.compiler import KernelResources, KernelSource

MAX_GRID = 2**31 - 1
"""Blocks along a grid's first dimension."""

MAX_STREAMS = 8
"""That `parallel` spreads jobs over: enough to fill a device with small ones; each costs two events."""


class ByValue:
    """A kernel argument passed by value: the bytes of `words`, as they are now, are the struct."""

    def __init__(self, words: HostArray) -> None:
        self.packed = words.tobytes()
        self.format = f"{len(self.packed)}s"
        """Of `struct`."""


Argument = Any
"""A device array (its address), a NumPy scalar of the parameter's width, a `ByValue`, or None (a null pointer).
A plain Python int is refused: its width would be a guess."""

Shape = int | tuple[int, ...]
"""A launch dimension: x, or (x, y[, z])."""


class Event(Protocol):
    """A point in a stream's work."""

    def synchronize(self) -> None:
        """Wait until the work before it is done."""


class Stream(Protocol):
    """A queue of device work, in order."""

    def record(self) -> Event: ...

    def wait(self, event: Event) -> None:
        """Later work in this stream waits for `event`; the host does not."""

    def synchronize(self) -> None: ...


class Fetch(Protocol):
    """A copy to the host that may still be under way."""

    def result(self) -> HostArray:
        """The array; waits for this copy and what it copies, and for nothing else."""


class Kernel(Protocol):
    """One kernel of a loaded module."""

    resources: KernelResources

    def block(self, *, limit: int = 1024, shared_per_block: int = 0) -> int:
        """Threads per block for the highest occupancy, a multiple of 32, at most `limit`."""

    def blocks_per_sm(self, block: int, shared: int = 0) -> int:
        """How many blocks of this shape one multiprocessor holds at a time."""

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        """Queue the kernel. `shared` is dynamic shared memory in bytes per block."""

    def launch_items(self, items: int, args: tuple[Argument, ...], *, stream: Stream | None = None) -> None:
        """Queue the kernel with one thread per item, in blocks of `block()`; no items, no launch."""


class Device(Protocol):
    """One device with its arena, streams and compiled kernels."""

    sm_count: int
    shared_limit: int
    """Dynamic shared memory one block may have, in bytes."""
    traffic: Traffic
    meter: EventMeter
    """When `stream` works. `launch` and every wait for results tell it."""

    @property
    def stream(self) -> Stream:
        """The stream that everything works on unless told otherwise."""

    def info(self) -> DeviceInfo: ...

    def fork(self, count: int) -> Sequence[Stream]:
        """`count` streams beside `stream`, the same ones each time, whose work waits for what `stream` has queued."""

    def join(self, streams: Sequence[Stream]) -> None:
        """Later work in `stream` waits for that of `streams`, which `fork` gave."""

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        """Uninitialised memory from the arena. Raises OutOfMemory."""

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64, stream: Stream | None = None) -> Array: ...

    def clear(self, array: Array, stream: Stream | None = None) -> None:
        """Set a contiguous array to zero bytes."""

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        """Copy between contiguous arrays of equal size."""

    def upload(self, host: HostArray) -> Array:
        """A copy of `host` on the device. `host` may be changed as soon as this returns."""

    def stage(self, host: HostArray) -> Staged:
        """Begin to copy `host` on a stream of its own; may be called while another thread uses the device.

        Raises OutOfMemory.
        """

    def download(self, array: Array) -> HostArray: ...

    def fetch(self, array: Array, stream: Stream | None = None) -> Fetch:
        """Start copying a small array to the host."""

    def address(self, array: Array) -> int:
        """Where a contiguous array begins, for a `ByValue` that tells a kernel of many arrays. Holds no reference."""

    def prepare(self, source: KernelSource) -> None:
        """Begin to compile `source` in the background."""

    def kernel(self, source: KernelSource, name: str) -> Kernel:
        """A kernel of `source`, compiled and loaded on first use. Raises BackendError."""

    def memory_free(self) -> int:
        """Bytes the arena can still give."""

    def watch_memory(self) -> None:
        """Begin `memory_peak` anew."""

    def memory_peak(self) -> int:
        """The most bytes in use at once since `watch_memory`, or since the start."""

    def synchronize(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def parallel(device: Device, jobs: int) -> Iterator[list[Stream]]:
    """A stream for each of `jobs` pieces of work that are independent; a single one stays on `device.stream`.

    Whatever the work needs (memory, constants that are uploaded) is taken before, on `device.stream`, and kept until
    the end, when `device.stream` waits for all of it.
    """
    if jobs < 2:
        yield [device.stream] * jobs
        return
    streams = device.fork(min(jobs, MAX_STREAMS))
    try:
        yield [streams[i % len(streams)] for i in range(jobs)]
    finally:
        device.join(streams)


def grid_for(items: int, per_block: int) -> int:
    """Blocks that cover `items`. Raises SizeError when one grid cannot."""
    blocks = -(-items // per_block)
    if blocks > MAX_GRID:
        raise SizeError(f"{items} items in blocks of {per_block} need {blocks} blocks; a grid has at most {MAX_GRID}")
    return blocks


def check_index32(what: str, count: int) -> None:
    """Raise SizeError unless indices below `count` fit the kernels' 32-bit unsigned index."""
    if not 0 <= count <= 2**32 - 1:
        raise SizeError(f"{what}: {count} does not fit a 32-bit index (at most {2**32 - 1})")
