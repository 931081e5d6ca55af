"""The interface of a device under the CUDA backend: memory, copies, streams and kernels by name.

`kernels.cuda.launch.CudaDevice` implements it with CuPy. The tests have another device that runs the same kernels on
the host, so everything above this interface (launch arithmetic, pass plans, buffer use) is exercised without a GPU.

Arrays are of the device's own type. Code above this interface only slices and reshapes them and asks for shape, dtype
and nbytes; all other work is done by a kernel or by a method of `Device`.

Ordering: all methods work on `Device.stream` unless another stream is given. Memory comes back to the arena with the
last reference, and later work in `Device.stream` may reuse it at once; code that uses an array on another stream makes
`Device.stream` wait for that work before dropping the array. Between `Device.fork` and `Device.join` no memory is
taken, so that all of it belongs to one pool (`parallel`). Only staged arrays have memory of another stream, so that
their copies need not wait for work queued on `Device.stream`; it comes back once their last reader is done.
Recordings (`Device.record`) have memory and a stream of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from kernels.cuda.compiler import KernelResources
from kernels.errors import SizeError
from kernels.interface.arrays import Array, HostArray, Pending
from kernels.interface.backend import DeviceInfo, Traffic
from kernels.interface.busy import EventMeter
from kernels.interface.staged import Staged
from kernels.source import KernelSource

T = TypeVar("T")

MAX_GRID = 2**31 - 1
"""Most blocks along the first dimension of a grid."""

MAX_STREAMS = 8
"""Most streams over which `parallel` spreads jobs: enough to fill a device with small ones; each costs two events."""


class ByValue:
    """A kernel argument passed by value: a struct whose bytes are those of `words` when this is made."""

    def __init__(self, words: HostArray) -> None:
        self.packed = words.tobytes()
        self.format = f"{len(self.packed)}s"
        """Format of the bytes for the module `struct`."""


def layout(*parts: tuple[Any, str]) -> np.dtype[Any]:
    """Return the layout of a kernel's struct: the dtype and the names of its fields, part by part, in order."""
    return np.dtype([(name, kind) for kind, names in parts for name in names.split()])


Argument = Any
"""A kernel argument: a device array (its address), a NumPy scalar of the parameter's width, a `ByValue`, or None (a
null pointer). A plain Python int is refused: its width would be a guess."""

Shape = int | tuple[int, ...]
"""A launch dimension: x, or (x, y[, z])."""


class Event(Protocol):
    """A point in a stream's work."""

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""


class Stream(Protocol):
    """A queue of device work that runs in order."""

    def record(self) -> Event: ...

    def wait(self, event: Event) -> None:
        """Make later work in this stream wait for `event`; the host does not wait."""


class Recording(Protocol):
    """Work that the device knows as a whole, so that queueing it again is one call. It keeps the memory it uses."""

    def replay(self, sources: Sequence[Array]) -> Stream:
        """Queue the work on a stream of its own, with the contents of `sources` in its inputs, in order.

        Returns that stream, on which results are fetched. `Device.stream` waits until the sources have been read, and
        for nothing else; a replay waits for the one before it.
        """


class Kernel(Protocol):
    """One kernel of a loaded module."""

    resources: KernelResources

    def block(self, *, limit: int = 1024) -> int:
        """Return the threads per block with the highest occupancy: a multiple of 32, at most `limit`."""

    def blocks_per_sm(self, block: int) -> int:
        """Return how many blocks of so many threads one multiprocessor holds at a time."""

    def launch(
        self, grid: Shape, block: Shape, args: tuple[Argument, ...], *, shared: int = 0, stream: Stream | None = None
    ) -> None:
        """Queue the kernel. `shared` is dynamic shared memory in bytes per block."""

    def launch_items(
        self, items: int, args: tuple[Argument, ...], *, spread: bool = False, stream: Stream | None = None
    ) -> None:
        """Queue the kernel with one thread per item, in blocks of `block()`; launches nothing for no items.

        With `spread` blocks are so small that few items are on all multiprocessors, for kernels whose threads work
        long and wait for their local memory."""


class Device(Protocol):
    """One device with its arena, streams and compiled kernels."""

    sm_count: int
    shared_limit: int
    """Most dynamic shared memory of one block, in bytes."""
    traffic: Traffic
    meter: EventMeter
    """Measures when `stream` is busy. `launch` and every wait for results report to it."""

    @property
    def stream(self) -> Stream:
        """The stream on which all methods work unless told otherwise."""

    def info(self) -> DeviceInfo: ...

    def fork(self, count: int) -> Sequence[Stream]:
        """Return `count` side streams, the same ones each time. Their work waits for what `stream` has queued."""

    def join(self, streams: Sequence[Stream]) -> None:
        """Make later work in `stream` wait for the work of `streams`, which `fork` returned."""

    def record(self, inputs: Sequence[Array], work: Callable[[], T]) -> tuple[Recording, T]:
        """Record what `work` queues on `stream`, without running it. Returns the recording, and what `work` returned.

        `work` may take memory, launch kernels that were launched before, clear and copy; nothing else. It reads
        `inputs`, which nobody else may use from then on. The recording keeps the arrays that its kernels are given. No
        other thread may use the device meanwhile. Raises OutOfMemory.
        """

    def branch(self) -> AbstractContextManager[None]:
        """Within a recording: what the block queues runs beside what is queued after it, on a stream and in memory of
        its own, and behind what was queued before. The recording ends when all its branches have. What a branch reads
        must be kept until `record` returns, and nothing later may write it."""

    def after(self, stream: Stream) -> None:
        """Make later work in `Device.stream` wait for the work of `stream`."""

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array:
        """Return an uninitialised array from the arena. Raises OutOfMemory."""

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> Array: ...

    def clear(self, array: Array) -> None:
        """Set a contiguous array to zero bytes."""

    def copy(self, target: Array, source: Array, stream: Stream | None = None) -> None:
        """Copy between contiguous arrays of equal size."""

    def upload(self, host: HostArray) -> Array:
        """Return a copy of `host` on the device. `host` may be changed as soon as this returns."""

    def stage(self, host: HostArray) -> Staged:
        """Begin to copy `host` on a separate stream. May be called while another thread uses the device.

        Raises OutOfMemory.
        """

    def second(self) -> Device:
        """Return the same device with streams and kernels of its own, for another thread. They share the memory, and
        the work of the one that is returned comes first where both wait for the device."""

    def staged(self, array: Array, made: Event, to_device: int) -> Staged:
        """Return an array of `second`, which is there at event `made`, for this device to read. `to_device` bytes were
        copied for it. May be called while another thread uses the device."""

    def download(self, array: Array) -> HostArray: ...

    def empty_host(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> HostArray:
        """Return an uninitialised array in page-locked host memory. Raises OutOfMemory."""

    def locked(self, host: HostArray) -> HostArray:
        """Return `host`, or a copy of it, as a contiguous array in page-locked memory. Raises OutOfMemory."""

    def bring(self, target: Array, host: HostArray, after: Event) -> Event:
        """Begin to copy page-locked `host` to `target`, once the device has passed `after`, on a stream that does
        nothing else. Returns an event behind the copy, until which the caller keeps both."""

    def fetch(self, array: Array, stream: Stream | None = None) -> Pending:
        """Begin to copy a small array to the host."""

    def address(self, array: Array) -> int:
        """Return the address of a contiguous array, for a `ByValue` that names many arrays. Holds no reference."""

    def prepare(self, source: KernelSource) -> None:
        """Begin to compile `source` in the background."""

    def compiled(self, source: KernelSource) -> bool:
        """Whether `source` is compiled, so that its kernels are there at once; otherwise it is prepared."""

    def kernel(self, source: KernelSource, name: str) -> Kernel:
        """Return a kernel of `source`, compiled and loaded on first use. Raises BackendError."""

    def memory_free(self) -> int:
        """Return the bytes that the arena can still give."""

    def watch_memory(self) -> None:
        """Restart the measurement of `memory_peak`."""

    def memory_peak(self) -> int:
        """Return the most bytes in use at once since `watch_memory`, or since the start."""

    def synchronize(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def parallel(device: Device, jobs: int) -> Iterator[list[Stream]]:
    """Yield a stream for each of `jobs` independent pieces of work; a single one stays on `device.stream`.

    Whatever the work needs (memory, uploaded constants) must be taken before, on `device.stream`, and kept until the
    end, when `device.stream` waits for all of the work.
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
    """Return the number of blocks that cover `items`. Raises SizeError if one grid cannot."""
    blocks = -(-items // per_block)
    if blocks > MAX_GRID:
        raise SizeError(f"{items} items in blocks of {per_block} need {blocks} blocks; a grid has at most {MAX_GRID}")
    return blocks


def block_to_spread(items: int, sm_count: int) -> int:
    """Return the threads of a block, a multiple of 32, with which so many items are on all multiprocessors."""
    return 32 * max(1, items // (32 * sm_count))


def check_index32(what: str, count: int) -> None:
    """Raise SizeError unless indices below `count` fit the kernels' 32-bit unsigned index."""
    if not 0 <= count <= 2**32 - 1:
        raise SizeError(f"{what}: {count} does not fit a 32-bit index (at most {2**32 - 1})")
