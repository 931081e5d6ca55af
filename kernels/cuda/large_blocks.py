"""Large blocks of device memory, kept when they come back and handed out again whole.

A pool that cuts its free blocks to size fragments: memory is free but nowhere in one piece, because a smaller request
took half of the block that the next one needs. Large requests repeat from partition to partition, so blocks are
kept by their exact size instead, and idle blocks are given up when a new size needs the room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Memory = TypeVar("Memory")


class LargeBlocks(Generic[Memory]):
    """Blocks made by `allocate` and freed with their last reference. Not thread-safe, except for blocks coming back."""

    def __init__(self, allocate: Callable[[int], Memory]) -> None:
        self._allocate = allocate
        self._back: deque[tuple[Memory, int, int]] = deque()
        """Blocks that came back, from any thread; `_take_in` moves them to `_idle`."""
        self._idle: list[tuple[Memory, int, int]] = []
        """Idle blocks as (memory, size, stream), in the order in which they came back."""
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes of all blocks, lent and idle."""
        return self._total

    @property
    def lent(self) -> int:
        """Bytes of the blocks that are in use."""
        self._take_in()
        return self._total - sum(size for _, size, _ in self._idle)

    def reuse(self, size: int, stream: int) -> Loan[Memory] | None:
        """Return an idle block of exactly `size` bytes last used on `stream`, or None. Work queued there runs first."""
        self._take_in()
        for index in reversed(range(len(self._idle))):
            memory, held, last = self._idle[index]
            if (held, last) == (size, stream):
                del self._idle[index]
                return Loan(memory, size, stream, self._back)
        return None

    def make(self, size: int, stream: int) -> Loan[Memory]:
        """Return a new block of `size` bytes for `stream`. Raises what `allocate` raises."""
        memory = self._allocate(size)
        self._total += size
        return Loan(memory, size, stream, self._back)

    def drop_oldest(self) -> bool:
        """Give the block that has been idle longest back to the driver. Returns whether there was one."""
        self._take_in()
        if not self._idle:
            return False
        _, size, _ = self._idle.pop(0)
        self._total -= size
        return True

    def drop_all(self) -> None:
        """Give all idle blocks back to the driver."""
        while self.drop_oldest():
            pass

    def _take_in(self) -> None:
        while self._back:
            self._idle.append(self._back.popleft())


class Loan(Generic[Memory]):
    """A block in use. It comes back when the last reference to this object goes."""

    def __init__(self, memory: Memory, size: int, stream: int, back: deque[tuple[Memory, int, int]]) -> None:
        self.memory = memory
        self.size = size
        self._stream = stream
        self._back = back

    def __del__(self) -> None:
        self._back.append((self.memory, self.size, self._stream))
