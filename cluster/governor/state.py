"""The governor's state: what is leased to which holder, who waits, and which keys are resident.

A plain state machine without clocks, threads or processes, so that its promises are tested as properties:

* the leased memory, predicted bytes and resident keys together, never exceeds the budget;
* neither do the leased threads, nor the deallocations under way;
* requests for one resource are served first come first served, and nobody waits for ever;
* a key in use is never given up.

Why there is no deadlock: a request is for one resource and is granted whole or not at all; what can never be granted is
refused at once. The resources have an order: keys, memory, threads, the reclaim lock. A holder that waits for one holds
none that comes later. So the memory of a finished witness waits for a prover, which waits for threads only; threads are
held by synthesis that runs, whose memory is leased already, and by single operations of provers, which wait for nothing
meanwhile; and a deallocation is never behind a request for the memory that it gives back.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from distprove.errors import ClusterError
from kernels.host.units import format_bytes


@dataclass(frozen=True)
class Budget:
    """Amounts of each resource that a node has to lease."""

    threads: int
    """CPU threads that compute at a time."""
    memory: int
    """Bytes: of witnesses in the making and on their way, and of resident keys."""
    deallocations: int = 1
    """Holders of the reclaim lock at a time: each gives large memory back to the system."""


Holder = tuple[int, float]
"""Holder of a lease: number of a thread or process, and the process's start time (0: a thread, or gone). A job as a
whole has a negative number."""

NOBODY: Holder = (0, 0.0)
"""Holds keys that are kept: what it holds ends when it is released, not with a process."""


@dataclass(frozen=True)
class Request:
    """A holder's request for one resource: threads, memory, a key, or the reclaim lock."""

    holder: Holder
    threads: int = 0
    least: int = 0
    """Fewest threads that will do, for one that takes what is free, up to `threads`. 0: all of `threads` or none."""
    memory: int = 0
    reclaim: bool = False
    """Whether it is for the reclaim lock."""
    key: str | None = None
    """A proving key to keep resident; `memory` is then what it takes, which its first user pays."""

    @property
    def resource(self) -> str:
        """The resource, whose queue the request waits in. Keys take memory."""
        return "deallocations" if self.reclaim else "threads" if self.threads else "memory"


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
class Ledger:
    """The leases, and the requests that wait. Not thread-safe; see the module's text for its promises."""

    budget: Budget
    first: int = 1
    """The first ticket; the others follow."""
    leases: dict[int, Request] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    granted: int = 0
    reclaimed: int = 0
    peak_threads: int = 0
    peak_memory: int = 0
    _queues: dict[str, deque[tuple[int, Request]]] = field(init=False)
    """Requests that wait, with their tickets, by resource."""
    _tickets: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self._tickets = itertools.count(self.first)
        self._queues = {resource: deque() for resource in ("memory", "threads", "deallocations")}

    def request(self, request: Request) -> int:
        """Queue a request; its ticket is in `leases` once it is granted, of no more threads than the budget has. Raises
        ClusterError if it never can be granted."""
        wants_memory = bool(request.memory) or request.key is not None
        if (request.threads > 0) + wants_memory + request.reclaim > 1:
            raise ClusterError("threads, memory and the reclaim lock are leased one by one")
        if request.threads > (most := self.budget.threads):
            request = replace(request, threads=most, least=min(request.least, max(1, most // 2)))
        self._refuse_what_never_fits(request)
        ticket = next(self._tickets)
        self._queues[request.resource].append((ticket, request))
        self._grant()
        return ticket

    def _refuse_what_never_fits(self, request: Request) -> None:
        """Refuse a request that never fits, also beside the keys that are kept until their job ends: waiting for those
        would be waiting for the job to end."""
        kept = {lease.key for lease in self.leases.values() if lease.holder[0] <= 0 and lease.key is not None}
        memory = self.keys.size(kept - {request.key})
        if not request.memory or request.memory + memory <= self.budget.memory:
            return
        who = "a key, with what provers make of it and their buffers, " if request.key is not None else ""
        beside = f", {format_bytes(memory)} of that for keys in use" if memory else ""
        raise ClusterError(
            f"{who}needs {format_bytes(request.memory)} of host memory; "
            f"this node's budget is {format_bytes(self.budget.memory)}{beside}"
        )

    def release(self, ticket: int) -> None:
        """Give back a lease, or withdraw a request that waits. A ticket that is not known is ignored."""
        lease = self.leases.pop(ticket, None)
        if lease is not None and lease.key is not None:
            self.keys.unpin(lease.key)
        for queue in self._queues.values() if lease is None else ():
            for item in [item for item in queue if item[0] == ticket]:
                queue.remove(item)
        self._grant()

    def shrink(self, ticket: int, memory: int) -> None:
        """Give back what a lease holds above `memory` bytes, before its end. A ticket that is not known is ignored."""
        lease = self.leases.get(ticket)
        if lease is not None and lease.key is None:
            self.leases[ticket] = replace(lease, memory=min(memory, lease.memory))
            self._grant()

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
        waiting = [ticket for ticket, request in self.waiting if request.holder == holder]
        self.reclaimed += len(dead)
        for ticket in (*dead, *waiting):
            self.release(ticket)

    @property
    def waiting(self) -> list[tuple[int, Request]]:
        """Requests that wait, with their tickets; those for one resource in order of arrival."""
        return [item for queue in self._queues.values() for item in queue]

    @property
    def threads_wanted(self) -> bool:
        """Whether a request for threads waits."""
        return bool(self._queues["threads"])

    @property
    def holders(self) -> set[Holder]:
        """Holders that hold or wait for a lease."""
        return {each.holder for each in (*self.leases.values(), *(request for _, request in self.waiting))} - {NOBODY}

    @property
    def threads(self) -> int:
        return sum(lease.threads for lease in self.leases.values())

    @property
    def memory(self) -> int:
        """Bytes leased, and those of resident keys, which count once however many use them."""
        return sum(lease.memory for lease in self.leases.values() if lease.key is None) + self.keys.memory

    @property
    def deallocations(self) -> int:
        """Number of holders of the reclaim lock."""
        return sum(lease.reclaim for lease in self.leases.values())

    @property
    def held(self) -> dict[str, int]:
        """What is leased and no bytes, by resource."""
        return {name: held for name in ("threads", "deallocations") if (held := getattr(self, name))}

    @property
    def queue(self) -> dict[str, int]:
        """Numbers of requests that wait, by resource."""
        return {resource: len(queue) for resource, queue in self._queues.items() if queue}

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
            "limits": {"threads": self.budget.threads, "deallocations": self.budget.deallocations},
        }

    def _grant(self) -> None:
        """Grant what fits, of each resource in order of arrival: nobody passes one who wants the same."""
        for queue in self._queues.values():
            while queue and (lease := self._granted(queue[0][1])) is not None:
                ticket, _ = queue.popleft()
                self.leases[ticket] = lease
                self.granted += 1
                self.peak_threads = max(self.peak_threads, self.threads)
                self.peak_memory = max(self.peak_memory, self.memory)

    def _granted(self, request: Request) -> Request | None:
        """The request as it is granted now; None if it must wait."""
        if request.reclaim:
            return request if self.deallocations < self.budget.deallocations else None
        if request.threads:
            threads = min(request.threads, self.budget.threads - self.threads)
            enough = threads >= min(request.least or request.threads, request.threads)
            return replace(request, threads=threads) if enough else None
        if request.key not in self.keys and self.memory + request.memory > self.budget.memory:
            return None
        if request.key is not None:
            self.keys.pin(request.key, request.memory)
        return request
