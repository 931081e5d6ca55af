"""The governor's state: what is leased to whom, who waits, and which keys are resident.

A plain state machine without clocks, threads or processes, so that its promises are tested as properties, whatever the
limits are:

* never more memory is leased, predicted bytes and resident keys together, than the budget;
* requests of a lease class for threads, and those for memory alone, are served first come first served, and nobody
  waits for ever;
* a key in use is never given up.

Why there is no deadlock: a request is granted whole or not at all. A holder may ask only for what comes later in the
order key, threads and memory, lane; and what could never be granted is refused at once. The memory of a finished
witness waits for a prover and its verification, and neither asks for memory: they wait for threads only. Those are
held by synthesis that runs, which ends by itself (its memory it has), and by single operations of provers, which wait
for nothing while they hold them. A synthesis that waits for memory holds no threads, and lets those pass who ask for
threads alone.

Why nobody waits for ever: requests are looked at in order of arrival. One that a limit of its own lease class holds
back waits for leases of that lease class, which end. One that is held back by what all share (memory, the node's
threads) lets nobody pass who wants the same. The lane has a queue of its own: a free is never behind a request that
waits for what it gives back.
"""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from distprove.errors import ClusterError
from distprove.host.lease_class import LeaseClass
from kernels.host.units import format_bytes


@dataclass(frozen=True)
class Budget:
    """Amounts of each resource that a node has to lease."""

    threads: int
    memory: int
    """Bytes: of witnesses in the making and on their way, and of resident keys."""


Limits = Mapping[LeaseClass, int]
"""Threads that the leases of a lease class may hold together; a lease class that is not named has no limit of its own.
"""

Holder = tuple[int, float]
"""Holder of a lease: number of a thread or process, and the process's start time (0: a thread, or gone). A job as a
whole has a negative number."""

NOBODY: Holder = (0, 0.0)
"""Holds keys that are kept: what it holds ends when it is released, not with a process."""


Queue = tuple[LeaseClass, bool] | None
"""Names those who wait for each other: a lease class, and whether they want threads; None: all who want keys. Who has
the memory for a witness and wants a thread to make it must not wait for somebody who waits for that memory."""


@dataclass(frozen=True)
class Request:
    """A holder's request: all that it asks for at once."""

    holder: Holder
    threads: int = 0
    memory: int = 0
    lane: bool = False
    lease_class: LeaseClass = LeaseClass.SYNTHESIS
    key: str | None = None
    """A proving key to keep resident; `memory` is then what it takes, which its first user pays."""
    thread: int = 0
    """Tells apart the threads of a process, each of which may hold a lease."""
    least: int = 0
    """Fewest threads that will do, for one that takes what is free of the threads that are shared, up to `threads`.
    What it gets counts as shared, whatever its lease class. 0: all of `threads` or none."""

    @property
    def queue(self) -> Queue:
        """The line in which a request waits: with others who want keys, or those of its lease class who want threads
        too, or no more than it."""
        return None if self.key is not None else (self.lease_class, self.threads > 0)

    @property
    def rank(self) -> int:
        """The order in which one holder may ask."""
        return 2 if self.lane else 0 if self.key is not None else 1

    @property
    def shares_threads(self) -> bool:
        """Whether its threads are counted with those of synthesis. The other lease classes are short or run in one pool
        per node of fixed size: holding synthesis back while they work would leave cores idle in the pool's serial
        parts. A prover without a GPU is different, because it uses all threads of the node for one operation after the
        other."""
        return bool(self.threads) and (self.lease_class is LeaseClass.SYNTHESIS or self.least > 0)


@dataclass
class _Key:
    memory: int
    users: int = 0


@dataclass
class Keys:
    """Resident proving keys by name: how many use each, and the memory that they take of the node's budget. A key comes
    with its first user and goes with its last."""

    _resident: dict[str, _Key] = field(default_factory=dict)
    loaded: int = 0

    def __contains__(self, name: str | None) -> bool:
        return name in self._resident

    @property
    def memory(self) -> int:
        return self.size(self._resident)

    def size(self, names: Collection[str]) -> int:
        """Bytes that these keys take."""
        return sum(key.memory for name, key in self._resident.items() if name in names)

    def users(self, name: str) -> int:
        return self._resident[name].users if name in self._resident else 0

    def pin(self, name: str, memory: int) -> None:
        """Count one more user of a key; the first brings the key, for which there must be room."""
        self.loaded += name not in self._resident
        self._resident.setdefault(name, _Key(memory)).users += 1

    def unpin(self, name: str) -> None:
        """Count one user less; the key goes with its last."""
        self._resident[name].users -= 1
        if not self._resident[name].users:
            del self._resident[name]

    def shrink(self, name: str, memory: int) -> None:
        """A key takes at most these bytes from here on."""
        key = self._resident[name]
        key.memory = min(memory, key.memory)

    def report(self) -> dict[str, Any]:
        resident = len(self._resident)
        return {"resident": resident, "memory": self.memory, "loaded": self.loaded, "evicted": self.loaded - resident}


@dataclass
class Governor:
    """The state. Not thread-safe; see the module's text for its promises."""

    budget: Budget
    limits: Limits = field(default_factory=dict)
    first: int = 1
    """The first ticket; the others follow."""
    leases: dict[int, Request] = field(default_factory=dict)
    lane_waiting: deque[tuple[int, Request]] = field(default_factory=deque)
    keys: Keys = field(default_factory=Keys)
    granted: int = 0
    reclaimed: int = 0
    peak_threads: int = 0
    peak_memory: int = 0
    _queues: dict[Queue, deque[tuple[int, Request]]] = field(default_factory=dict)
    """Requests that wait."""
    _held: _Held = field(default_factory=lambda: _Held())
    _tickets: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._tickets = itertools.count(self.first)

    def request(self, request: Request) -> int:
        """Queue a request; its ticket is in `leases` once it is granted. Raises ClusterError if it never can be.

        A lease class with a limit is granted at most that many threads: the lease says how many.
        """
        if request.lane and (request.threads or request.memory or request.key):
            raise ClusterError("the deallocation lane is leased by itself")
        self._refuse_what_never_fits(request)
        ranks = self._held.ranks.get((request.holder, request.thread))
        if request.holder != NOBODY and ranks and max(ranks) >= request.rank:
            raise ClusterError("this holder must give back its lease before it asks for more")
        ticket = next(self._tickets)
        queue = self.lane_waiting if request.lane else self._queues.setdefault(request.queue, deque())
        queue.append((ticket, request))
        self._grant()
        return ticket

    def _refuse_what_never_fits(self, request: Request) -> None:
        """Refuse a request that never fits, also beside the keys that are kept until their job ends: waiting for those
        would be waiting for the job to end."""
        kept = {lease.key for lease in self.leases.values() if lease.holder[0] <= 0 and lease.key is not None}
        memory = self.keys.size(kept - {request.key})
        if request.threads <= self.budget.threads and (
            not request.memory or request.memory + memory <= self.budget.memory
        ):
            return
        who = "a key, with what provers make of it and their buffers, " if request.key is not None else ""
        beside = f", {format_bytes(memory)} of that for keys in use" if memory else ""
        raise ClusterError(
            f"{who}needs {request.threads} threads and {format_bytes(request.memory)} of host memory; "
            f"this node's budget is {self.budget.threads} threads and {format_bytes(self.budget.memory)}{beside}"
        )

    def release(self, ticket: int) -> None:
        """Give back a lease, or withdraw a request that waits. A ticket that is not known is ignored."""
        lease = self.leases.pop(ticket, None)
        if lease is None:
            for queue in (*self._queues.values(), self.lane_waiting):
                for item in [item for item in queue if item[0] == ticket]:
                    queue.remove(item)
        else:
            self._held.count(lease, -1)
            if lease.key is not None:
                self.keys.unpin(lease.key)
        self._grant()

    def shrink(self, ticket: int, memory: int) -> None:
        """Give back what a lease holds above `memory` bytes, before its end. A ticket that is not known is ignored."""
        lease = self.leases.get(ticket)
        if lease is not None and lease.key is None:
            self._change(ticket, replace(lease, memory=min(memory, lease.memory)))

    def shrink_key(self, ticket: int, memory: int) -> None:
        """`memory` bytes stay of a key that this lease alone uses. A ticket that is not known, or of a key that others
        use, is ignored."""
        lease = self.leases.get(ticket)
        if lease is not None and lease.key is not None and self.keys.users(lease.key) == 1:
            self.keys.shrink(lease.key, memory)
            self._grant()

    def reclaim(self, holder: Holder) -> None:
        """Give back everything of a holder that is no more."""
        dead = [t for t, lease in self.leases.items() if lease.holder == holder]
        waiting = [ticket for ticket, request in (*self.waiting, *self.lane_waiting) if request.holder == holder]
        self.reclaimed += len(dead)
        for ticket in (*dead, *waiting):
            self.release(ticket)

    @property
    def waiting(self) -> list[tuple[int, Request]]:
        """Requests for anything but the lane that wait, with their tickets, in order of arrival."""
        return sorted((item for queue in self._queues.values() for item in queue), key=lambda item: item[0])

    @property
    def threads_wanted(self) -> bool:
        """Whether a request for threads waits."""
        return any(queue and queue[0][1].threads for queue in self._queues.values())

    @property
    def holders(self) -> set[Holder]:
        """Holders that hold or wait for a lease."""
        waiting = {request.holder for _, request in (*self.waiting, *self.lane_waiting)}
        return (waiting | {lease.holder for lease in self.leases.values()}) - {NOBODY}

    @property
    def threads(self) -> int:
        return sum(self._held.threads.values())

    @property
    def memory(self) -> int:
        """Bytes leased, and those of resident keys."""
        return self._held.memory + self.keys.memory

    @property
    def by_class(self) -> dict[LeaseClass, int]:
        """Threads leased, by lease class."""
        return {lease_class: held for lease_class, held in self._held.threads.items() if held}

    @property
    def queue(self) -> dict[LeaseClass, int]:
        """Requests that wait for threads or memory, by lease class."""
        waiting = (request.lease_class for _, request in self.waiting if request.key is None)
        return dict(Counter(waiting))

    def report(self) -> dict[str, Any]:
        return {
            "threads": self.budget.threads,
            "memory": self.budget.memory,
            "leases": self.granted,
            "held": sum(lease.key is None for lease in self.leases.values()),
            "reclaimed": self.reclaimed,
            "peak_threads": self.peak_threads,
            "peak_memory": self.peak_memory,
            "keys": self.keys.report(),
            "limits": {lease_class.value: limit for lease_class, limit in self.limits.items()},
        }

    def _change(self, ticket: int, lease: Request) -> None:
        before = self.leases[ticket]
        self._held.count(before, -1)
        self.leases[ticket] = lease
        self._held.count(lease, 1)
        self._grant()

    def _grant(self) -> None:
        held_back = _HeldBack()
        while heads := [
            queue[0] for name, queue in self._queues.items() if queue and not held_back.by_earlier(name, queue[0][1])
        ]:
            ticket, request = min(heads, key=lambda item: item[0])
            threads = self._room(request, held_back)
            if threads is None:
                held_back.queues.add(request.queue)  # within a queue nobody passes anybody
            else:
                self._queues[request.queue].popleft()
                self._give(ticket, replace(request, threads=threads))
        if self.lane_waiting and not self._held.lane:
            self._give(*self.lane_waiting.popleft())

    def _room(self, request: Request, held_back: _HeldBack) -> int | None:
        """Number of threads that `request` would get now; None if it must wait: what it then keeps from later ones is
        in `held_back`."""
        limit = self.limits.get(request.lease_class)
        together = self.budget.threads if request.shares_threads else None
        threads = min(bound for bound in (request.threads, limit, together) if bound is not None)
        least = min(request.least or threads, threads)
        if limit is not None and threads:
            free = limit - self._held.threads[request.lease_class]
            if free < least:
                return None
            threads = min(threads, free)
        if together is not None:
            free = together - self._held.shared
            if free < least:
                held_back.threads = True
                return None
            threads = min(threads, free)
        if request.key not in self.keys and not self._fits(request.memory):
            held_back.memory = True
            return None
        return threads

    def _fits(self, memory: int) -> bool:
        return not memory or self.memory + memory <= self.budget.memory

    def _give(self, ticket: int, request: Request) -> None:
        if request.key is not None:
            self.keys.pin(request.key, request.memory)
        self.leases[ticket] = request
        self._held.count(request, 1)
        self.granted += 1
        self.peak_threads = max(self.peak_threads, self.threads)
        self.peak_memory = max(self.peak_memory, self.memory)


@dataclass
class _Held:
    """Sums over the leases."""

    threads: dict[LeaseClass, int] = field(default_factory=lambda: dict.fromkeys(LeaseClass, 0))
    shared: int = 0
    """Threads that are counted together."""
    memory: int = 0
    lane: int = 0
    ranks: dict[tuple[Holder, int], list[int]] = field(default_factory=dict)
    """Ranks of the leases that each thread of each process holds."""

    def count(self, lease: Request, sign: int) -> None:
        who = (lease.holder, lease.thread)
        if sign > 0:
            self.ranks.setdefault(who, []).append(lease.rank)
        else:
            self.ranks[who].remove(lease.rank)
            if not self.ranks[who]:
                del self.ranks[who]
        self.threads[lease.lease_class] += sign * lease.threads
        if lease.shares_threads:
            self.shared += sign * lease.threads
        self.lane += sign * lease.lane
        if lease.key is None:  # keys are counted once, however many use them
            self.memory += sign * lease.memory


@dataclass
class _HeldBack:
    """Amounts that earlier requests wait for and later ones must not take."""

    queues: set[Queue] = field(default_factory=set)
    threads: bool = False
    memory: bool = False

    def by_earlier(self, queue: Queue, request: Request) -> bool:
        return (
            queue in self.queues
            or (self.threads and request.shares_threads)
            or (self.memory and bool(request.memory or request.key))
        )
