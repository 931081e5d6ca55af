"""A node's governor as a worker sees it, and the worker's caches of leases.

The governor may be behind a call between processes. A worker of short proofs that asked for every partition would spend
more on asking than on proving. So it caches leases: the memory of a released witness for a moment (`MemoryCache`), and
the threads of a synthesis that is over while nobody else waits for threads (`ThreadCache`).
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from actors import patience

if TYPE_CHECKING:
    from typing_extensions import Unpack

LARGE = 64 << 20
"""Bytes from which a lease is made smaller once it is known what a witness takes."""


@dataclass(frozen=True)
class Grant:
    """A lease that is held: its ticket, and of how many threads it is."""

    ticket: int
    threads: int


class Wanted(TypedDict, total=False):
    """What a lease is asked for; `cluster.governor.state.Request` says what each means, and its default."""

    threads: int
    least: int
    memory: int
    reclaim: bool


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

    @abstractmethod
    def threads_wanted(self) -> bool:
        """Whether anybody waits for threads."""

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

    def threads_wanted(self) -> bool:
        return False


@dataclass
class Lease:
    """Something leased. Under ticket 0 there is nothing."""

    ticket: int
    idle_since: float = field(default=0.0, kw_only=True)


@dataclass
class Memory(Lease):
    """Leased memory, in bytes."""

    size: int
    holders: int = field(default=1, kw_only=True)
    """Number of witnesses in it: it is in use until it was put back for each."""


@dataclass
class Threads(Lease):
    """Leased threads of one synthesiser, and since when they are."""

    began: float


L = TypeVar("L", bound=Lease)


class LeaseCache(Generic[L]):
    """Unused leases of one resource, which can be taken again for a while without a call to the governor."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._lock = threading.Lock()
        self._idle: list[L] = []
        self._closed = False

    def put(self, lease: L) -> None:
        """Return a lease to the cache."""
        if not lease.ticket:
            return
        lease.idle_since = time.monotonic()
        with self._lock:
            if not self._closed:
                self._idle.append(lease)
                return
        self._governor.release(lease.ticket)

    def close(self) -> None:
        """Release the unused leases, and the others when they are put back."""
        with self._lock:
            self._closed = True
        self.give_back(0.0)

    def give_back(self, older_than: float) -> None:
        """Release the leases that have been unused for so many seconds."""
        late = time.monotonic() - older_than
        with self._lock:
            old = [lease for lease in self._idle if lease.idle_since <= late]
            self._idle = [lease for lease in self._idle if lease.idle_since > late]
        for lease in old:
            self._governor.release(lease.ticket)


class MemoryCache(LeaseCache[Memory]):
    """Caches a worker's leases of memory for witnesses."""

    def find(self, size: int) -> Memory | None:
        """Returns the smallest unused lease of at least `size` bytes; None if there is none."""
        if not size:
            return Memory(0, 0)
        with self._lock:
            enough = [memory for memory in self._idle if memory.size >= size]
            found = min(enough, key=lambda memory: memory.size, default=None)
            if found is not None:
                self._idle.remove(found)
        return found

    def put(self, lease: Memory) -> None:
        with self._lock:
            lease.holders -= 1
            if lease.holders > 0:
                return
        super().put(lease)

    def take(self, size: int) -> Memory:
        """Lease memory from the governor. Releases unused leases first: nobody may wait for them while this waits."""
        self.give_back(older_than=0.0)
        return Memory(self._governor.acquire(memory=size).ticket, size)

    def fit(self, memory: Memory, size: int) -> None:
        """A witness of `size` bytes is made: give back the rest, where it is worth a call."""
        if memory.size - size >= LARGE:
            memory.size = size
            self._governor.shrink(memory.ticket, size)


class ThreadCache(LeaseCache[Threads]):
    """Caches a worker's leases of threads for its synthesisers. One takes what another one let go of, and all are kept
    while nobody else waits for threads, which the worker asks in the background (`look`). A synthesiser that waits for
    the governor makes nothing: over Ray, on a busy machine, each lease took 20 ms, and 15 synthesisers that asked four
    times a second were idle for 8 % of their time."""

    def __init__(self, governor: Governor, threads: int, *, keeps: bool) -> None:
        """Each synthesiser has so many `threads`. `keeps`: whether any are held while nobody uses them."""
        super().__init__(governor)
        self._threads = threads
        self._keeps = keeps
        self._used = -math.inf
        """Time at which threads were taken last, on the monotonic clock."""
        self._unwanted = -math.inf
        """Time at which nobody waited for threads, on the monotonic clock."""

    def look(self) -> None:
        """Ask whether anybody waits for threads, if any were taken of late. Waits for the answer."""
        asked = time.monotonic()
        if self._keeps and asked - self._used <= patience.IDLE_LEASE and not self._governor.threads_wanted():
            self._unwanted = asked

    def take(self) -> Threads:
        """Threads that lie idle, or else a lease of new ones."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
        return self.renewed(found) if found is not None else self._ask()

    def renewed(self, threads: Threads) -> Threads:
        """These threads, or others in their place if they have been held for long and others may wait for them."""
        self._used = time.monotonic()
        if self._used - max(threads.began, self._unwanted) <= patience.IDLE_LEASE:
            return threads
        self._governor.release(threads.ticket)
        return self._ask()

    def put(self, lease: Threads) -> None:
        if self._keeps:
            super().put(lease)
        else:
            self._governor.release(lease.ticket)

    def _ask(self) -> Threads:
        self._used = time.monotonic()
        grant = self._governor.acquire(threads=self._threads)
        return Threads(grant.ticket, time.monotonic())


class SynthesisLease:
    """The threads of one synthesiser, held from one witness to the next while these follow each other closely."""

    def __init__(self, cache: ThreadCache) -> None:
        self._cache = cache
        self._threads: Threads | None = None
        self._lock = threading.Lock()

    @property
    def held(self) -> bool:
        return self._threads is not None

    def begin(self) -> None:
        """Have the threads."""
        had = self._given_up()
        self._threads = self._cache.take() if had is None else self._cache.renewed(had)

    def end(self) -> None:
        """Let go of the threads, if they are held. Any thread may call."""
        had = self._given_up()
        if had is not None:
            self._cache.put(had)

    def _given_up(self) -> Threads | None:
        with self._lock:
            had, self._threads = self._threads, None
            return had
