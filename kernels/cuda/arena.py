"""Device memory from one arena with a budget, and pinned host memory that is reused.

Both are created when the backend starts. After warm-up neither calls the driver: freed memory is kept, small blocks in
CuPy's pool and large ones whole (`kernels.cuda.large_blocks`), and a partition that runs a second time takes the same
again."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import cupy
import numpy as np

from kernels.cuda.large_blocks import LargeBlocks, Loan
from kernels.cuda.pinned import RING, STAGING_SLOT, STAGING_SLOTS
from kernels.errors import OutOfMemory
from kernels.host.native import native
from kernels.host.units import format_bytes
from kernels.interface.arrays import Array, HostArray
from kernels.interface.device_blocks import LARGE, block_bytes

HEADROOM = 512 << 20
"""Bytes left to the driver and to loading modules when the budget is derived from the free memory."""

COPY_THREADS = 8
"""Most threads of one `PinnedStaging`."""

IDLE_SHARE = 32
"""Part of the budget that idle blocks may take while work is recorded."""

NO_MEMORY = 2
"""`cudaErrorMemoryAllocation` and `CUDA_ERROR_OUT_OF_MEMORY`: CUDA's number, which CuPy has no name for."""


@contextmanager
def beside_arena(what: str) -> Iterator[None]:
    """The driver takes memory within the block that no pool manages. Raises OutOfMemory where it has none, naming
    `what` is needed and what is free: `cupy.cuda.Memory`, page-locked memory, modules and graphs raise CUDA's error."""
    try:
        yield
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if error.status != NO_MEMORY:
            raise
        raise OutOfMemory(f"{what} needed; the driver has no memory for it, {_on_device()}") from None


def _on_device() -> str:
    free, total = cupy.cuda.runtime.memGetInfo()
    return f"with {format_bytes(free)} of the device's {format_bytes(total)} free"


def pinned(nbytes: int) -> Any:
    """Page-locked host memory of at least `nbytes` bytes, from CuPy's pool. Raises OutOfMemory."""
    with beside_arena(f"{format_bytes(nbytes)} of page-locked host memory"):
        return cupy.cuda.alloc_pinned_memory(nbytes)


def _block(nbytes: int) -> Any:
    with beside_arena(f"{format_bytes(nbytes)} of device memory"):
        return cupy.cuda.Memory(nbytes)


class Arena:
    """Device memory under a budget. A block belongs to the stream that is current when it is taken. Thread-safe."""

    def __init__(self, budget: int | None = None, share: int = 1) -> None:
        """`budget` is in bytes; None takes the memory that is free on the current device now, less `HEADROOM`.

        `share` is the number of arenas on the device. Above 1, each takes at most its even share of the device, because
        the free memory does not tell how much the others will take.
        """
        free, total = cupy.cuda.runtime.memGetInfo()
        room = free if share == 1 else min(free, total // share)
        self.budget = max(room - HEADROOM, room // 2) if budget is None else budget
        if self.budget > free:
            raise OutOfMemory(f"a budget of {format_bytes(self.budget)} was asked for; {format_bytes(free)} are free")
        self._pool = cupy.cuda.MemoryPool()
        self._pool.set_limit(size=self.budget)
        self._blocks: LargeBlocks[Any] = LargeBlocks(_block)
        self._recorded: SetApart | None = None
        """Memory of the recording that is being made."""
        self._apart = 0
        """Bytes of the other recordings' memory."""
        self._dropped: deque[int] = deque()
        """Sizes of recordings' memory that was given back and is not yet subtracted from `_apart`. Any thread appends,
        at any moment: a recording ends where its last reference does."""
        self._lock = threading.Lock()
        self.peak = 0
        """Most bytes in use at once so far, as they were asked for: blocks may be larger."""
        self.watched_peak = 0
        """Most bytes in use at once since `watch`."""

    @property
    def used(self) -> int:
        """Bytes in live arrays."""
        with self._lock:
            return self._used()

    @property
    def free(self) -> int:
        """Bytes of the budget that no live array uses."""
        return self.budget - self.used

    def watch(self) -> None:
        """Restart `watched_peak` from the bytes in use now."""
        with self._lock:
            self.watched_peak = self._used() - self._blocks.slack

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an uninitialised array. Raises OutOfMemory, naming the bytes needed and the bytes free."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        with self._lock:
            try:
                if self._recorded is not None:
                    memory = self._recorded.take(nbytes, room=self.budget - self._held())
                elif nbytes >= LARGE:
                    memory = self._take_large(nbytes)
                else:
                    memory = self._take_small(nbytes)
            except cupy.cuda.memory.OutOfMemoryError:
                used = self._used()
                raise OutOfMemory(
                    f"{format_bytes(nbytes)} of device memory needed; {format_bytes(self.budget - used)} of the "
                    f"arena's {format_bytes(self.budget)} are free ({format_bytes(used)} in use), {_on_device()}"
                ) from None
            asked = self._used() - self._blocks.slack
            self.peak, self.watched_peak = max(self.peak, asked), max(self.watched_peak, asked)
        return cupy.ndarray(shape, dtype=kind, memptr=memory)

    @contextmanager
    def set_apart(self) -> Iterator[SetApart]:
        """Take memory from a pool of its own within the block, and yield it. What comes back to it is used again within
        the block, and by nobody else for as long as the pool lives.

        Nothing is given back to the driver within the block, because that would wait for a device whose work is only
        being recorded. So idle blocks go before it, where they take more than `IDLE_SHARE` of the budget: those of a
        key that went may be what the next one's recordings need.
        """
        with self._lock:
            if self._held() - self._used() > self.budget // IDLE_SHARE:
                self._give_back()
        self._recorded = apart = SetApart()
        try:
            yield apart
        finally:
            with self._lock:
                self._recorded, taken = None, apart.total
                self._apart += taken
                weakref.finalize(apart, self._dropped.append, taken)
                self._limit_pool()

    def close(self) -> None:
        """Return all memory that no live array uses to the driver."""
        with self._lock:
            self._give_back()

    def _used(self) -> int:
        return int(self._pool.used_bytes()) + self._blocks.lent + self._held_apart()

    def _held_apart(self) -> int:
        while self._dropped:
            self._apart -= self._dropped.popleft()
        return self._apart + (0 if self._recorded is None else self._recorded.total)

    def _take_small(self, nbytes: int) -> Any:
        try:
            return self._pool.malloc(nbytes)
        except cupy.cuda.memory.OutOfMemoryError:
            # Blocks kept for other sizes or another stream count against the budget. Giving them back to the driver
            # waits for the device, so that no kernel still uses the memory when it is handed out again.
            self._give_back()
            return self._pool.malloc(nbytes)

    def _take_large(self, nbytes: int) -> Any:
        size, stream = block_bytes(nbytes), cupy.cuda.get_current_stream().ptr
        loan = self._take_block(size, stream)
        if loan is None:
            self._pool.free_all_blocks()
            loan = self._take_block(size, stream)
        if loan is None:
            raise cupy.cuda.memory.OutOfMemoryError(size, self._held(), self.budget)
        self._limit_pool()
        owned = cupy.cuda.UnownedMemory(loan.memory.ptr, loan.size, loan, cupy.cuda.device.get_device_id())
        return cupy.cuda.MemoryPointer(owned, 0)

    def _take_block(self, size: int, stream: int) -> Loan[Any] | None:
        room = self.budget - int(self._pool.total_bytes()) - self._held_apart()
        try:
            return self._blocks.take(size, stream, room)
        except OutOfMemory:  # other processes use the device as well, and so do modules and graphs of this one
            self._give_back()
            return self._blocks.take(size, stream, room)

    def _held(self) -> int:
        """Bytes allocated from the driver."""
        return int(self._pool.total_bytes()) + self._blocks.total + self._held_apart()

    def _give_back(self) -> None:
        self._blocks.drop_all()
        self._pool.free_all_blocks()
        self._limit_pool()

    def _limit_pool(self) -> None:
        # At least 1: a limit of 0 would mean no limit.
        self._pool.set_limit(size=max(1, self.budget - self._blocks.total - self._held_apart()))


class SetApart:
    """Memory that belongs to one recording, used by its kernels at every replay."""

    def __init__(self) -> None:
        self._pool = cupy.cuda.MemoryPool()
        self.taken: set[int] = set()
        """Addresses of blocks that were taken."""

    @property
    def total(self) -> int:
        """Bytes taken from the driver."""
        return int(self._pool.total_bytes())

    def take(self, nbytes: int, room: int) -> Any:
        """Memory, of which at most `room` bytes are taken from the driver. Raises CuPy's OutOfMemoryError."""
        self._pool.set_limit(size=max(1, self.total + room))
        memory = self._pool.malloc(nbytes)
        self.taken.add(memory.mem.ptr)
        return memory


class Retired:
    """Arrays that the host has released but the device may still read, each kept until its event. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, Array]] = []
        self._lock = threading.Lock()

    def add(self, array: Array, last_use: Any) -> None:
        """Keep `array` until the CuPy event `last_use` has passed. The caller must drop its own reference."""
        with self._lock:
            self._waiting.append((last_use, array))

    def sweep(self) -> None:
        """Release the arrays whose event has passed. Queries the driver without waiting."""
        if self._waiting:
            with self._lock:
                self._waiting = [(event, array) for event, array in self._waiting if not event.done]

    def drain(self) -> bool:
        """Wait for the events of all arrays and release them. Returns whether there were any."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for event, _ in waiting:
            event.synchronize()
        return bool(waiting)


class PinnedStaging:
    """A ring of pinned buffers through which pageable host arrays are copied to and from the device. Thread-safe.

    Pinning costs a third of a second per gigabyte, and the driver's own path for pageable memory runs at a sixth of the
    link's bandwidth. So the buffers are pinned once, and the copy into one overlaps the transfer from another. A buffer
    belongs to the thread that took it from the ring; the next to take it waits for the transfer that was queued last.
    """

    def __init__(self, slot_bytes: int = STAGING_SLOT, slots: int = STAGING_SLOTS, threads: int = 4) -> None:
        """At most `threads` threads copy between host memory and the buffers: one copies a fifth as fast as the link.

        `slots` must be at least two: a copy to the host holds all but one of them while it waits for the device.
        """
        self.slot_bytes = slot_bytes
        self._threads = native.Pool(min(threads, COPY_THREADS))
        self._copying = threading.Lock()
        """Held for each copy, as the threads make one at a time."""
        self._held_to_host = slots - 1
        self._ring: SimpleQueue[_Slot] = SimpleQueue()
        for _ in range(slots):
            self._ring.put(_Slot(slot_bytes))

    def to_device(self, target: int, host: HostArray, stream: Any) -> None:
        """Queue the copy of contiguous `host` to address `target`; returns when `host` has been read."""
        data = host.reshape(-1).view(np.uint8)
        for begin in range(0, data.size, self.slot_bytes):
            part = data[begin : begin + self.slot_bytes]
            slot = self._take()
            try:
                self._copy(slot.buffer[: part.size], part)
                cupy.cuda.runtime.memcpyAsync(
                    target + begin, slot.address, part.size, cupy.cuda.runtime.memcpyHostToDevice, stream.ptr
                )
                slot.event.record(stream)
            finally:
                self._ring.put(slot)

    def to_host(self, host: HostArray, source: int, stream: Any) -> None:
        """Copy from device address `source` into contiguous `host`; returns when the data is there."""
        data = host.reshape(-1).view(np.uint8)
        pending: deque[tuple[_Slot, int, int]] = deque()

        def finish() -> None:
            slot, begin, count = pending[0]
            slot.event.synchronize()
            self._copy(data[begin : begin + count], slot.buffer[:count])
            pending.popleft()
            self._ring.put(slot)

        try:
            for begin in range(0, data.size, self.slot_bytes):
                if len(pending) == self._held_to_host:
                    finish()
                count = min(self.slot_bytes, data.size - begin)
                slot = self._take()
                pending.append((slot, begin, count))
                cupy.cuda.runtime.memcpyAsync(
                    slot.address, source + begin, count, cupy.cuda.runtime.memcpyDeviceToHost, stream.ptr
                )
                slot.event.record(stream)
            while pending:
                finish()
        finally:
            for slot, _, _ in pending:
                self._ring.put(slot)

    def copy(self, target: HostArray, source: HostArray) -> None:
        """Copy `source` to contiguous `target` of its shape on all threads, a part of `slot_bytes` after the other."""
        rows = max(1, self.slot_bytes // max(1, target[:1].nbytes))
        for begin in range(0, len(target), rows):
            part = np.ascontiguousarray(source[begin : begin + rows])
            self._copy(target[begin : begin + rows].reshape(-1).view(np.uint8), part.reshape(-1).view(np.uint8))

    def close(self) -> None:
        """End the threads that copy."""
        self._threads = None

    def _copy(self, target: HostArray, source: HostArray) -> None:
        with self._copying:
            native.copy(self._threads, source, target)

    def _take(self) -> _Slot:
        slot = self._ring.get()
        try:
            slot.event.synchronize()
        except BaseException:
            self._ring.put(slot)
            raise
        return slot


class _Slot:
    """One pinned buffer and the event after which it may be used again."""

    def __init__(self, size: int) -> None:
        self._memory = pinned(size)
        self.buffer = np.frombuffer(self._memory, dtype=np.uint8, count=size)
        self.address = self._memory.ptr
        self.event = cupy.cuda.Event(disable_timing=True)


class PinnedRing:
    """Pinned memory through which small arrays are copied to the device, in order on one stream. Not thread-safe.

    The copies follow the kernels that are queued before them, and the host waits for none of these: it writes one half
    while the other is still being copied. `PinnedStaging` has few, large buffers; its copies run beside the kernels.
    """

    def __init__(self, nbytes: int = RING) -> None:
        self.largest = nbytes // 16
        """Most bytes of one copy."""
        self._size = nbytes // 2
        self._now, self._other = _Slot(self._size), _Slot(self._size)
        self._used = 0

    def to_device(self, target: int, host: HostArray, stream: Any) -> None:
        """Queue the copy of contiguous `host` to address `target`; returns when `host` has been read."""
        data = host.reshape(-1).view(np.uint8)
        if self._used + data.size > self._size:
            self._now.event.record(stream)
            self._now, self._other, self._used = self._other, self._now, 0
            self._now.event.synchronize()
        begin, self._used = self._used, self._used + data.size
        self._now.buffer[begin : self._used] = data
        kind = cupy.cuda.runtime.memcpyHostToDevice
        cupy.cuda.runtime.memcpyAsync(target, self._now.address + begin, data.size, kind, stream.ptr)


class PinnedBuffers:
    """Small pinned buffers for results that come back one at a time, reused by size. Thread-safe."""

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Any:
        """Return pinned memory of at least `nbytes` bytes; its size is a power of two."""
        size = max(256, 1 << (nbytes - 1).bit_length())
        with self._lock:
            free = self._free.setdefault(size, [])
            return free.pop() if free else pinned(size)

    def give(self, memory: Any, nbytes: int) -> None:
        """Take back the `memory` that `take(nbytes)` returned."""
        size = max(256, 1 << (nbytes - 1).bit_length())
        with self._lock:
            self._free[size].append(memory)
