"""Device memory from one arena with a budget, and pinned host memory that is reused.

Both are made when the backend starts. After warm-up neither calls the driver: what was freed is kept, small blocks in
CuPy's pool, large ones whole (`kernels.large_blocks`), and a partition that runs a second time takes the same again.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import cupy
import numpy as np

from kernels.backend import Array, HostArray, OutOfMemory
from kernels.large_blocks import LargeBlocks
from kernels.pinned import RING, STAGING_SLOT, STAGING_SLOTS
from kernels.units import format_bytes

HEADROOM = 512 << 20
"""Bytes left to the driver and to module loading when the budget is chosen from what is free."""

PARALLEL_COPY = 2 << 20
"""Bytes below which handing a copy to other threads costs more than it saves."""


LARGE = 32 << 20
"""Bytes from which a request gets a block of its own."""

GRANULE = 2 << 20
"""Bytes in whose multiples the driver hands out memory."""


class Arena:
    """Device memory under a budget. Blocks belong to the stream that is current when they are taken. Thread-safe."""

    def __init__(self, budget: int | None = None, share: int = 1) -> None:
        """`budget` in bytes; None takes what is free on the current device now, less `HEADROOM`.

        With `share` above 1 it takes no more than that part of the device, for as many arenas on it: what is free does
        not tell how much the others will take.
        """
        free, total = cupy.cuda.runtime.memGetInfo()
        room = free if share == 1 else min(free, total // share)
        self.budget = max(room - HEADROOM, room // 2) if budget is None else budget
        if self.budget > free:
            raise OutOfMemory(f"a budget of {format_bytes(self.budget)} was asked for; {format_bytes(free)} are free")
        self._pool = cupy.cuda.MemoryPool()
        self._pool.set_limit(size=self.budget)
        self._blocks: LargeBlocks[Any] = LargeBlocks(cupy.cuda.Memory)
        self._lock = threading.Lock()
        self.peak = 0
        """The most bytes in use at once so far."""
        self.watched_peak = 0
        """The same since `watch`."""

    @property
    def used(self) -> int:
        """Bytes in live arrays."""
        with self._lock:
            return self._used()

    @property
    def free(self) -> int:
        """Bytes that live arrays leave of the budget."""
        return self.budget - self.used

    def watch(self) -> None:
        """Begin `watched_peak` anew."""
        with self._lock:
            self.watched_peak = self._used()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An uninitialised array. Raises OutOfMemory with what was needed and what there was."""
        kind = np.dtype(dtype)
        nbytes = math.prod(shape) * kind.itemsize
        with self._lock:
            try:
                memory = self._take_large(nbytes) if nbytes >= LARGE else self._take_small(nbytes)
            except cupy.cuda.memory.OutOfMemoryError:
                used = self._used()
                raise OutOfMemory(
                    f"{format_bytes(nbytes)} of device memory needed; {format_bytes(self.budget - used)} of the "
                    f"arena's {format_bytes(self.budget)} are free ({format_bytes(used)} in use)"
                ) from None
            used = self._used()
            self.peak, self.watched_peak = max(self.peak, used), max(self.watched_peak, used)
        return cupy.ndarray(shape, dtype=kind, memptr=memory)

    def close(self) -> None:
        """Give all memory that is not in live arrays back to the driver."""
        with self._lock:
            self._give_back()

    def _used(self) -> int:
        return int(self._pool.used_bytes()) + self._blocks.lent

    def _take_small(self, nbytes: int) -> Any:
        try:
            return self._pool.malloc(nbytes)
        except cupy.cuda.memory.OutOfMemoryError:
            # What is kept for other sizes or another stream counts against the budget; giving that back to the driver
            # waits for the device, so that whoever gets the memory next finds nobody at work on it.
            self._give_back()
            return self._pool.malloc(nbytes)

    def _take_large(self, nbytes: int) -> Any:
        size, stream = -(-nbytes // GRANULE) * GRANULE, cupy.cuda.get_current_stream().ptr
        loan = self._blocks.reuse(size, stream)
        if loan is None:
            while self._held() + size > self.budget and self._blocks.drop_oldest():
                pass
            if self._held() + size > self.budget:
                self._pool.free_all_blocks()
            if self._held() + size > self.budget:
                raise cupy.cuda.memory.OutOfMemoryError(size, self._held(), self.budget)
            try:
                loan = self._blocks.make(size, stream)
            except cupy.cuda.memory.OutOfMemoryError:  # others use the device as well
                self._give_back()
                loan = self._blocks.make(size, stream)
            self._limit_pool()
        owned = cupy.cuda.UnownedMemory(loan.memory.ptr, size, loan, cupy.cuda.device.get_device_id())
        return cupy.cuda.MemoryPointer(owned, 0)

    def _held(self) -> int:
        """Bytes taken from the driver."""
        return int(self._pool.total_bytes()) + self._blocks.total

    def _give_back(self) -> None:
        self._blocks.drop_all()
        self._pool.free_all_blocks()
        self._limit_pool()

    def _limit_pool(self) -> None:
        # Above 0, which would mean no limit.
        self._pool.set_limit(size=max(1, self.budget - self._blocks.total))


class Retired:
    """Arrays that are done with on the host but may still be read on the device, each until its event. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Any, Array]] = []
        self._lock = threading.Lock()

    def add(self, array: Array, last_use: Any) -> None:
        """Keep `array` until the CuPy event `last_use`. The caller must not keep it."""
        with self._lock:
            self._waiting.append((last_use, array))

    def sweep(self) -> None:
        """Give back the arrays whose event is past; asks the driver, does not wait."""
        if self._waiting:
            with self._lock:
                self._waiting = [(event, array) for event, array in self._waiting if not event.done]

    def drain(self) -> bool:
        """Wait for all of them; whether there were any."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for event, _ in waiting:
            event.synchronize()
        return bool(waiting)


class PinnedStaging:
    """A ring of pinned buffers through which pageable host arrays pass to and from the device. Thread-safe.

    Pinning costs a third of a second per gigabyte and the driver's own path for pageable memory runs at a sixth of the
    link, so the buffers are pinned once and the copy into one overlaps the transfer from another. A buffer belongs to
    whoever took it from the ring, and who takes it next waits for the transfer that it was given back with.
    """

    def __init__(self, slot_bytes: int = STAGING_SLOT, slots: int = STAGING_SLOTS, threads: int = 4) -> None:
        """`threads` copy between host memory and the buffers: one core's copies are a fifth as fast as the link.

        At least two `slots`: a copy to the host holds all but one of them while it waits for the device.
        """
        self.slot_bytes = slot_bytes
        self._threads = threads
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="staging")
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
        """Copy from address `source` into contiguous `host`; returns when it is there."""
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

    def close(self) -> None:
        """End the copying threads."""
        self._pool.shutdown()

    def _copy(self, target: HostArray, source: HostArray) -> None:
        if target.size < PARALLEL_COPY:
            np.copyto(target, source)
            return
        step = -(-target.size // self._threads)
        parts = range(0, target.size, step)
        list(self._pool.map(lambda i: np.copyto(target[i : i + step], source[i : i + step]), parts))

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
        self._memory = cupy.cuda.alloc_pinned_memory(size)
        self.buffer = np.frombuffer(self._memory, dtype=np.uint8, count=size)
        self.address = self._memory.ptr
        self.event = cupy.cuda.Event(disable_timing=True)


class PinnedRing:
    """Pinned memory through which small arrays pass to the device, in order on one stream. Not thread-safe.

    The copies follow the kernels that are queued before them and the host waits for none: while one half still waits to
    be copied, the other is written. `PinnedStaging` has few and large buffers, and its copies run beside the kernels.
    """

    def __init__(self, nbytes: int = RING) -> None:
        self.largest = nbytes // 16
        """Bytes of one copy, at most."""
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
    """Small pinned buffers for results that come back one at a time; reused by size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Any:
        """Pinned memory of at least `nbytes`, a power of two."""
        size = max(256, 1 << (nbytes - 1).bit_length())
        with self._lock:
            free = self._free.setdefault(size, [])
            return free.pop() if free else cupy.cuda.alloc_pinned_memory(size)

    def give(self, memory: Any, nbytes: int) -> None:
        """Hand back what `take(nbytes)` gave."""
        size = max(256, 1 << (nbytes - 1).bit_length())
        with self._lock:
            self._free[size].append(memory)
