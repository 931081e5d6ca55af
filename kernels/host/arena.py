"""Large host buffers from reused memory, and one lock under which surplus memory goes back to the system.

Mapping and unmapping are expensive on a busy machine: fresh pages fault one by one, and unmapping interrupts every core
that runs a thread of the process. So blocks of anonymous memory, on huge pages where the system allows it, are handed
out as NumPy arrays and come back when the last view of them dies.

A block is cleared when it comes back. It held a witness, or data computed from one, which must not outlive its proof
and appear in a crash dump or a later buffer; requests for zeros also get them for free. Clearing is one pass of
writes, on the arena's own thread. (Giving the pages back to the system clears them too, at the cost of the
faults and interrupts that the arena is there to save.)

That thread also unmaps what exceeds the bound, block by block, in slices, while it holds the reclaim lock.

An arena's memory may be shared, so that other processes can map it (`kernels.host.shared_arrays`): arrays then pass
from one process to another without a copy.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from kernels.errors import BackendError, OutOfMemory
from kernels.host.units import format_bytes

LARGE = 1 << 20
"""Smallest array, in bytes, that comes from the arena. Smaller ones are left to malloc, which reuses such memory."""
HUGE_PAGE = 2 << 20
HUGE_BLOCK = 4 * HUGE_PAGE
"""Smallest block, in bytes, that is on huge pages: the unused part of its last page then matters little."""
COARSE = 1 << 30
"""Largest array, in bytes, whose block has a power of two."""
SLICE = 32 << 20
"""Bytes given back to the system at a time. Other threads' mappings and faults wait for it, some milliseconds."""


Lock = Callable[[], "AbstractContextManager[object]"]


@dataclass(frozen=True)
class ArenaUse:
    """What an arena holds."""

    mapped: int
    """Bytes in all blocks, in use or kept."""
    kept: int
    """Bytes in blocks that wait for reuse."""


class HostArena:
    """Hands out arrays and takes their memory back when their last view dies. Thread-safe. Its owner closes it."""

    def __init__(self, keep: int | None = None, reclaim_lock: Lock | None = None, *, shared: bool = False) -> None:
        """`keep` bounds the bytes kept for reuse (None: an eighth of the machine's memory). `reclaim_lock` is entered,
        on the arena's own thread, while a block is unmapped. `shared` lets other processes map the memory; Linux only.
        """
        self._shelves = _Shelves(psutil.virtual_memory().total // 8 if keep is None else keep, shared)
        self._reclaim_lock: Lock = reclaim_lock or nullcontext
        self._starting = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._closed = False

    def empty(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> NDArray[Any]:
        """Return an uninitialised array. Raises OutOfMemory if the system has no room for it."""
        return self._large(shape, dtype) if _nbytes(shape, dtype) >= LARGE else np.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.uint64) -> NDArray[Any]:
        """Return an array of zeros. Raises OutOfMemory if the system has no room for it."""
        return self._large(shape, dtype) if _nbytes(shape, dtype) >= LARGE else np.zeros(shape, dtype)

    def use(self) -> ArenaUse:
        return self._shelves.use()

    def locate(self, array: NDArray[Any]) -> tuple[int, int, bytes] | None:
        """Return the descriptor of the memory of a contiguous array in this shared arena, the array's offset there in
        bytes, and the memory's token. None for any other array."""
        return self._shelves.locate(array) if array.flags.c_contiguous else None

    def settle(self) -> None:
        """Wait until all blocks that have come back so far are cleared, and those beyond the bound unmapped."""
        with self._starting:
            if self._keeper is None:
                return
            done = threading.Event()
            self._shelves.calls.put(done)
        done.wait()

    def close(self) -> None:
        """Unmap the blocks that are kept. Arrays in use stay valid; their memory goes back to the system with them."""
        with self._starting:
            self._closed = self._shelves.closed = True
            keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._shelves.calls.put(None)
            keeper.join()

    def __enter__(self) -> HostArena:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _large(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        self._start()
        nbytes = _nbytes(shape, dtype)
        block = self._shelves.take(block_size(nbytes))
        # Every view, of whatever kind, keeps this array alive, and with it the block.
        owner = np.frombuffer(block.memory, np.uint8, nbytes, block.offset)
        weakref.finalize(owner, self._shelves.give, block, nbytes).atexit = False
        array: NDArray[Any] = owner.view(dtype).reshape(shape)
        return array

    def _start(self) -> None:
        with self._starting:
            if self._closed:
                raise BackendError("the host arena was closed")
            if self._keeper is None:
                call = (self._shelves, self._reclaim_lock)
                self._keeper = threading.Thread(target=_keep, args=call, name="host-arena", daemon=True)
                self._keeper.start()


def block_size(nbytes: int) -> int:
    """Return the size of the block that holds `nbytes` bytes: the next power of two, or beyond `COARSE` the next
    multiple of an eighth of the power below.

    Sizes are coarse so that arrays of similar size share blocks. Parts of a block never written to take no memory, but
    the system refuses a block that is larger than its memory.
    """
    step = 1 << (nbytes - 1).bit_length() - (0 if nbytes <= COARSE else 4)
    return -(-nbytes // step) * step


@dataclass(frozen=True)
class _Block:
    """A block of anonymous memory, all zero when taken from the shelves. Unmapped when nothing refers to it."""

    memory: mmap.mmap
    address: int
    """Address of the usable bytes; a multiple of HUGE_PAGE if the block is on huge pages."""
    offset: int
    size: int
    descriptor: int | None = None
    """File descriptor of memory that other processes can map; closed with the last reference to the memory."""
    token: bytes = b""
    """Random name of memory that other processes can map. No other memory ever has it, whereas numbers of processes,
    descriptors and inodes are used again."""

    @classmethod
    def make(cls, size: int, shared: bool = False) -> _Block:
        huge = size >= HUGE_BLOCK
        spare = HUGE_PAGE if huge else 0
        try:
            memory, descriptor = _map_shared(size + spare) if shared else (_map(size + spare), None)
        except OSError:
            free = psutil.virtual_memory().available
            raise OutOfMemory(
                f"{format_bytes(size)} of host memory needed; {format_bytes(free)} are available"
            ) from None
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        offset = -start % HUGE_PAGE if spare else 0
        return cls(memory, start + offset, offset, size, descriptor, secrets.token_bytes(16) if shared else b"")

    def clear(self, nbytes: int) -> None:
        ctypes.memset(self.address, 0, nbytes)  # releases the GIL

    def drop_pages(self) -> None:
        """Give the pages back to the system, a slice at a time, so that little is left to unmap."""
        # Shared pages stay in memory while any process has them mapped, unless they are removed.
        advice = getattr(mmap, "MADV_DONTNEED" if self.descriptor is None else "MADV_REMOVE", None)
        if advice is None:
            return
        for begin in range(0, len(self.memory), SLICE):
            self.memory.madvise(advice, begin, min(SLICE, len(self.memory) - begin))


class _Shelves:
    """The blocks that are not in use. `give` may be called at any point of any thread, even while that thread holds the
    lock: Python runs it when the last view dies. So it must not take the lock: that would deadlock."""

    def __init__(self, keep: int, shared: bool = False) -> None:
        self.keep = keep
        self.shared = shared
        self.closed = False
        self.calls: SimpleQueue[threading.Event | bool | None] = SimpleQueue()
        """Calls to the arena's thread: True for a block that came back, an event to set, None to end."""
        self.returned: deque[tuple[_Block, int]] = deque()
        """Blocks that came back, each with how many of its bytes were in use. Appending takes no lock."""
        self._lock = threading.Lock()
        self._used: list[tuple[_Block, int]] = []
        self._clear: list[_Block] = []
        """Cleared blocks, the longest unused first."""
        self._mappable: list[_Block] = []
        """All blocks that other processes can map, in use or not."""
        self._mapped = 0

    def give(self, block: _Block, nbytes: int) -> None:
        if not self.closed:  # else the block is unmapped here, with its last reference
            self.returned.append((block, nbytes))
            self.calls.put(True)

    def take(self, size: int) -> _Block:
        """Return a block of `size` bytes: one that is clear, one that is cleared now, or a new one."""
        nbytes = 0
        with self._lock:
            self._collect()
            block = next((b for b in reversed(self._clear) if b.size == size), None)
            if block is not None:
                self._clear.remove(block)
            else:
                used = next((u for u in self._used if u[0].size == size), None)
                if used is not None:
                    self._used.remove(used)
                    block, nbytes = used
        if block is None:
            block = _Block.make(size, self.shared)
            with self._lock:
                self._mapped += size
                if self.shared:
                    self._mappable.append(block)
        block.clear(nbytes)
        return block

    def clear_one(self) -> None:
        """Clear one block that came back, if there is one, so that it can be reused."""
        with self._lock:
            self._collect()
            if not self._used:
                return
            block, nbytes = self._used.pop(0)
        block.clear(nbytes)
        with self._lock:
            self._clear.append(block)

    def excess(self) -> _Block | None:
        """Return a block to unmap, or None: while more than the bound is kept, and all once the arena is closed."""
        with self._lock:
            if self.closed:
                self._collect()
                self._clear += [block for block, _ in self._used]
                self._used = []
            if sum(block.size for block in self._clear) <= (0 if self.closed else self.keep):
                return None
            block = self._clear.pop(0)
            if self.shared:
                self._mappable.remove(block)
            self._mapped -= block.size
            return block

    def locate(self, array: NDArray[Any]) -> tuple[int, int, bytes] | None:
        address = int(array.__array_interface__["data"][0])
        with self._lock:
            for block in self._mappable:
                within = address - block.address
                if within >= 0 and within + array.nbytes <= block.size:
                    assert block.descriptor is not None
                    return block.descriptor, block.offset + within, block.token
        return None

    def use(self) -> ArenaUse:
        with self._lock:
            self._collect()
            kept = sum(block.size for block in self._clear) + sum(block.size for block, _ in self._used)
            return ArenaUse(self._mapped, kept)

    def _collect(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._used.append(self.returned.popleft())


def _keep(shelves: _Shelves, reclaim_lock: Lock) -> None:
    """Run the arena's thread: clear and unmap blocks until it is told to end."""
    ending = False
    while not ending:
        call = shelves.calls.get()
        if isinstance(call, threading.Event):
            call.set()
            continue
        ending = call is None
        if not ending:
            shelves.clear_one()
        while (block := shelves.excess()) is not None:
            try:
                with reclaim_lock():
                    block.drop_pages()
            except Exception:  # the lock's owner is gone; the memory must go all the same
                block.drop_pages()
            del block


def _map(size: int) -> mmap.mmap:
    """Map private anonymous memory. Raises OSError."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _map_shared(size: int) -> tuple[mmap.mmap, int]:
    """Map anonymous memory that other processes can map too; returns it and its descriptor. Raises OSError."""
    descriptor = os.memfd_create("distprove-arena", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
    except BaseException:
        os.close(descriptor)
        raise
    weakref.finalize(memory, os.close, descriptor).atexit = False
    return memory, descriptor


def _nbytes(shape: tuple[int, ...], dtype: Any) -> int:
    return math.prod(shape) * int(np.dtype(dtype).itemsize)
