"""Large blocks of device memory, kept when they come back and handed out again whole.

A pool that cuts its free blocks to size fragments: memory is free but nowhere in one piece, because a smaller request
took half of the block that the next one needs. Large requests repeat from partition to partition, so blocks are
kept whole, and one that is a little larger than what is asked for serves too. Idle blocks are given up when a new size
needs the room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Memory = TypeVar("Memory")

SLACK = 4
"""An idle block serves a request if it is larger by at most this part of the request, a quarter, or twice as large
where there is no room for another block. With blocks of the exact size alone, the driver freed and allocated some 90
GiB for each Groth16 proof of 2^27, which took 0.4 s."""

SLACK_SHARE = 16
"""At most this part of the room is lost to blocks that are larger than what was asked for."""


class LargeBlocks(Generic[Memory]):
    """Blocks made by `allocate` and freed with their last reference. Not thread-safe, except for blocks coming back."""

    def __init__(self, allocate: Callable[[int], Memory]) -> None:
        self._allocate = allocate
        self._back: deque[tuple[Memory, int, int, int]] = deque()
        """Blocks that came back, from any thread, each with its slack; `_take_in` moves them to `_idle`."""
        self._idle: list[tuple[Memory, int, int]] = []
        """Idle blocks as (memory, size, stream), in the order in which they came back."""
        self._total = 0
        self._slack = 0

    @property
    def total(self) -> int:
        """Bytes of all blocks, lent and idle."""
        return self._total

    @property
    def lent(self) -> int:
        """Bytes of the blocks that are in use."""
        self._take_in()
        return self._total - sum(size for _, size, _ in self._idle)

    @property
    def slack(self) -> int:
        """Bytes of the blocks in use that were not asked for."""
        self._take_in()
        return self._slack

    def take(self, size: int, stream: int, room: int) -> Loan[Memory] | None:
        """Return a block of at least `size` bytes for `stream`, or None if the blocks in use leave no room for it.

        `room` is what all blocks may take. Idle blocks are given back to the driver, which waits for the device, only
        where none of them serves and a new one does not fit beside them. Raises what `allocate` raises.
        """
        self._take_in()
        spare = max(0, room // SLACK_SHARE - self._slack)
        loan = self._reuse(size, size + min(size // SLACK, spare), stream)
        if loan is None and self._total + size > room:
            loan = self._reuse(size, size + min(size, spare), stream)
        if loan is not None:
            return loan
        while self._total + size > room and self.drop_oldest():
            pass
        return self._make(size, stream) if self._total + size <= room else None

    def _reuse(self, size: int, most: int, stream: int) -> Loan[Memory] | None:
        """The smallest idle block of `size` to `most` bytes last used on `stream`, whose queued work runs first."""
        fits = [(held, -at) for at, (_, held, last) in enumerate(self._idle) if size <= held <= most and last == stream]
        if not fits:
            return None
        held, at = min(fits)
        memory, _, _ = self._idle.pop(-at)
        self._slack += held - size
        return Loan(memory, held, stream, held - size, self._back)

    def _make(self, size: int, stream: int) -> Loan[Memory]:
        memory = self._allocate(size)
        self._total += size
        return Loan(memory, size, stream, 0, self._back)

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
            memory, size, stream, slack = self._back.popleft()
            self._slack -= slack
            self._idle.append((memory, size, stream))


@dataclass(eq=False)
class Loan(Generic[Memory]):
    """A block in use. It comes back to `back` when the last reference to this object goes."""

    memory: Memory
    size: int
    stream: int
    slack: int
    back: deque[tuple[Memory, int, int, int]]

    def __del__(self) -> None:
        self.back.append((self.memory, self.size, self.stream, self.slack))
