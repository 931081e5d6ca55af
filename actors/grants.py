"""Leases that a worker asks its node's governor for, less often than once a partition.

A governor may be behind a call between processes. A worker of short proofs that asked for every partition would spend
more on asking than on proving, so it uses again, for a moment, what it was granted: memory of a witness that is gone
(`Purse`), and the threads of a synthesis that is over (`Shift`).
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from distprove.host.lease_class import LeaseClass

if TYPE_CHECKING:
    from typing_extensions import Unpack

HELD = 0.25
"""Seconds for which memory that is not in use stays leased, and for which threads are used again without asking."""
LARGE = 64 << 20
"""Bytes from which a lease is made smaller once it is known what a witness takes."""


@dataclass(frozen=True)
class Grant:
    """A lease that is held: its ticket, and of how many threads it is."""

    ticket: int
    threads: int


class Wanted(TypedDict, total=False):
    """What a lease is asked for; `cluster.governor.state.Request` says what each means, and its default."""

    lease_class: LeaseClass
    threads: int
    memory: int
    lane: bool
    least: int


class Governor(ABC):
    """A node's governor, as a worker sees it. Any thread may call."""

    @abstractmethod
    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        """Wait for a lease. Raises ClusterError if it can never be had."""

    @abstractmethod
    def release(self, ticket: int) -> None:
        """Give back a lease. Nothing is waited for."""

    @abstractmethod
    def shrink(self, ticket: int, memory: int) -> None:
        """Give back the memory of a lease above `memory` bytes. Nothing is waited for."""

    @contextmanager
    def lease(self, **wanted: Unpack[Wanted]) -> Iterator[Grant]:
        """Hold a lease for the length of the block; waits for it."""
        grant = self.acquire(**wanted)
        try:
            yield grant
        finally:
            self.release(grant.ticket)


class Ungoverned(Governor):
    """Allows everything: for what no governor looks after."""

    def acquire(self, **wanted: Unpack[Wanted]) -> Grant:
        return Grant(0, wanted.get("threads", 0))

    def release(self, ticket: int) -> None:
        pass

    def shrink(self, ticket: int, memory: int) -> None:
        pass


@dataclass
class Memory:
    """Leased memory. Under ticket 0 there is none."""

    ticket: int
    size: int
    idle_since: float = 0.0


class Purse:
    """A worker's leases of memory for witnesses. What is put back can be taken again for a while without asking."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._lock = threading.Lock()
        self._idle: list[Memory] = []

    def find(self, size: int) -> Memory | None:
        """Memory that is leased already and not in use; None where there is none of that size."""
        if not size:
            return Memory(0, 0)
        with self._lock:
            for place, memory in enumerate(self._idle):
                if memory.size >= size:
                    return self._idle.pop(place)
        return None

    def take(self, size: int) -> Memory:
        """Lease memory. What is not in use is given back first: nobody may wait for it while this waits."""
        self.give_back(older_than=0.0)
        return Memory(self._governor.acquire(memory=size).ticket, size)

    def fit(self, memory: Memory, size: int) -> None:
        """A witness of `size` bytes is made: give back the rest, where it is worth a call."""
        if memory.size - size >= LARGE:
            memory.size = size
            self._governor.shrink(memory.ticket, size)

    def put(self, memory: Memory) -> None:
        """Return memory that is not in use any more."""
        if memory.ticket:
            memory.idle_since = time.monotonic()
            with self._lock:
                self._idle.append(memory)

    def give_back(self, older_than: float = HELD) -> None:
        """End the leases of memory that has not been in use for so many seconds."""
        late = time.monotonic() - older_than
        with self._lock:
            old = [memory for memory in self._idle if memory.idle_since <= late]
            self._idle = [memory for memory in self._idle if memory.idle_since > late]
        for memory in old:
            self._governor.release(memory.ticket)


class Shift:
    """The threads of one synthesiser, held from one witness to the next while these follow each other closely."""

    def __init__(self, governor: Governor, threads: int) -> None:
        self._governor = governor
        self._threads = threads
        self._ticket: int | None = None
        self._began = 0.0

    @property
    def held(self) -> bool:
        return self._ticket is not None

    def begin(self) -> None:
        """Have the threads; asks for them anew from time to time, so that others come to theirs."""
        if self._ticket is not None and time.monotonic() - self._began > HELD:
            self.end()
        if self._ticket is None:
            self._ticket = self._governor.acquire(lease_class=LeaseClass.SYNTHESIS, threads=self._threads).ticket
            self._began = time.monotonic()

    def end(self) -> None:
        """Give the threads back, if they are held."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._governor.release(ticket)
