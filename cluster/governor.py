"""The node's governor: leases of CPU threads, host memory and the single deallocation lane.

`Governor` is a plain state machine without clocks, threads or processes, so that its promises are tested as properties:
never more is leased than the budget, requests are served first come first served, and nobody waits for ever.
`LocalGovernor` puts a condition variable around it for one process; `NodeGovernor` is the Ray actor, one per node.

Why there is no deadlock: a request is granted whole or not at all; a holder of threads or memory may ask for nothing
more but the lane, and the holder of the lane for nothing at all; and what could never be granted is refused at once.
The lane has a queue of its own, so that a free is never behind a request that waits for what the free gives back.

The thread budget is for synthesis and staging. A CPU prover's own pool is not leased: it is one per node, sized when
it is made, and holding synthesis back while it works would leave cores idle in its serial parts.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from distprove.cgroup import memory_available
from distprove.errors import ClusterError
from distprove.job import ExecutorSettings
from distprove.machine import usable_threads
from distprove.system import Partition, PredictsMemory, ProofSystem


@dataclass(frozen=True)
class Budget:
    """What a node has to lease."""

    threads: int
    memory: int
    """Bytes."""


Holder = tuple[int, float]
"""Who holds a lease: a thread's or process's number, and when the process started (0: a thread, or no more there)."""


@dataclass(frozen=True)
class Request:
    """What a holder asks for, all of it at once."""

    holder: Holder
    threads: int = 0
    memory: int = 0
    lane: bool = False


@dataclass
class Governor:
    """The state: what is leased to whom, and who waits. Not thread-safe; see the module's text for its promises."""

    budget: Budget
    leases: dict[int, Request] = field(default_factory=dict)
    waiting: deque[tuple[int, Request]] = field(default_factory=deque)
    lane_waiting: deque[tuple[int, Request]] = field(default_factory=deque)
    granted: int = 0
    reclaimed: int = 0
    peak_threads: int = 0
    peak_memory: int = 0
    _tickets: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def request(self, request: Request) -> int:
        """Queue a request; its ticket is in `leases` once it is granted. Raises ClusterError if it never can be."""
        if request.lane and (request.threads or request.memory):
            raise ClusterError("the deallocation lane is leased by itself")
        if request.threads > self.budget.threads or request.memory > self.budget.memory:
            raise ClusterError(
                f"needs {request.threads} threads and {request.memory / 2**20:.0f} MiB of host memory; "
                f"this node's budget is {self.budget.threads} threads and {self.budget.memory / 2**20:.0f} MiB"
            )
        held = [lease for lease in self.leases.values() if lease.holder == request.holder]
        if any(lease.lane for lease in held) or (held and not request.lane):
            raise ClusterError("this holder must give back its lease before it asks for more")
        ticket = next(self._tickets)
        (self.lane_waiting if request.lane else self.waiting).append((ticket, request))
        self._grant()
        return ticket

    def release(self, ticket: int) -> None:
        """Give back a lease, or withdraw a request that waits. A ticket that is not known is ignored."""
        self.leases.pop(ticket, None)
        for queue in (self.waiting, self.lane_waiting):
            for item in [item for item in queue if item[0] == ticket]:
                queue.remove(item)
        self._grant()

    def reclaim(self, holder: Holder) -> None:
        """Give back everything of a holder that is no more."""
        dead = [t for t, lease in self.leases.items() if lease.holder == holder]
        waiting = [t for queue in (self.waiting, self.lane_waiting) for t, r in queue if r.holder == holder]
        self.reclaimed += len(dead)
        for ticket in (*dead, *waiting):
            self.release(ticket)

    @property
    def holders(self) -> set[Holder]:
        """Who holds or waits."""
        waiting = {request.holder for queue in (self.waiting, self.lane_waiting) for _, request in queue}
        return waiting | {lease.holder for lease in self.leases.values()}

    @property
    def threads(self) -> int:
        return sum(lease.threads for lease in self.leases.values())

    @property
    def memory(self) -> int:
        return sum(lease.memory for lease in self.leases.values())

    def report(self) -> dict[str, Any]:
        return {
            "threads": self.budget.threads,
            "memory": self.budget.memory,
            "leases": self.granted,
            "reclaimed": self.reclaimed,
            "peak_threads": self.peak_threads,
            "peak_memory": self.peak_memory,
        }

    def _grant(self) -> None:
        # Strictly in order: a large request at the head holds back smaller ones, or it might wait for ever.
        while self.waiting:
            ticket, request = self.waiting[0]
            threads, memory = self.threads + request.threads, self.memory + request.memory
            if threads > self.budget.threads or memory > self.budget.memory:
                break
            self.waiting.popleft()
            self.leases[ticket] = request
            self.granted += 1
            self.peak_threads = max(self.peak_threads, threads)
            self.peak_memory = max(self.peak_memory, memory)
        if self.lane_waiting and not any(lease.lane for lease in self.leases.values()):
            ticket, request = self.lane_waiting.popleft()
            self.leases[ticket] = request
            self.granted += 1


class LocalGovernor:
    """A governor for the threads of one process. A thread is a holder."""

    def __init__(self, budget: Budget) -> None:
        self._state = Governor(budget)
        self._changed = threading.Condition()

    @contextmanager
    def lease(self, *, threads: int = 0, memory: int = 0, lane: bool = False) -> Iterator[None]:
        """Hold a lease for the length of the block; waits for it. Raises ClusterError if it can never be had."""
        with self._changed:
            ticket = self._state.request(Request((threading.get_ident(), 0.0), threads, memory, lane))
            try:
                self._changed.wait_for(lambda: ticket in self._state.leases)
            except BaseException:
                self._state.release(ticket)
                raise
        try:
            yield
        finally:
            with self._changed:
                self._state.release(ticket)
                self._changed.notify_all()

    def report(self) -> dict[str, Any]:
        with self._changed:
            return self._state.report()


class NodeGovernor:
    """The governor as a Ray actor: asynchronous, so that one that waits holds nobody up. A process is a holder.

    It runs on the node that it governs, so it can see for itself when a holder's process is gone.
    """

    POLL = 0.5
    """Seconds between looks at the holders while somebody waits."""

    def __init__(self, threads: int, memory: int | None) -> None:
        self._state = Governor(Budget(threads, memory or default_memory()))
        self._changed = asyncio.Condition()

    async def acquire(self, pid: int, threads: int = 0, memory: int = 0, lane: bool = False) -> int:
        """A lease's ticket, once granted. Raises ClusterError if it never can be."""
        holder = _process(pid)
        async with self._changed:
            self._reclaim_dead()
            ticket = self._state.request(Request(holder, threads, memory, lane))
            while ticket not in self._state.leases:
                try:
                    await asyncio.wait_for(self._changed.wait(), self.POLL)
                except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
                    self._reclaim_dead()
                except BaseException:
                    self._state.release(ticket)
                    raise
                if ticket not in self._state.leases and holder not in self._state.holders:
                    raise ClusterError("the holder that asked is gone")
            return ticket

    async def release(self, ticket: int) -> None:
        async with self._changed:
            self._state.release(ticket)
            self._changed.notify_all()

    async def report(self) -> dict[str, Any]:
        async with self._changed:
            self._reclaim_dead()
            return self._state.report()

    def _reclaim_dead(self) -> None:
        for holder in self._state.holders:
            # A process number may be used again; together with the time of its start it is unique.
            if holder != _process(holder[0]):
                self._state.reclaim(holder)
                self._changed.notify_all()


def _process(pid: int) -> Holder:
    try:
        process = psutil.Process(pid)
        return (pid, 0.0 if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time()))
    except psutil.Error:
        return (pid, 0.0)


def node_budget(settings: ExecutorSettings) -> Budget:
    """The budget of the node this runs on: what the settings say, else every usable thread and the default memory."""
    return Budget(settings.threads or usable_threads(), settings.memory or default_memory())


def default_memory() -> int:
    """Half of the memory that is free, in bytes.

    Half, because the page cache of a mapped key and the object store's copies of witnesses want room too.
    """
    return max(1 << 20, memory_available() // 2)


def predicted_bytes(system: ProofSystem, partition: Partition) -> int:
    """Bytes of host memory to lease for a synthesis; 0 for systems that do not predict."""
    return system.synthesis_bytes(partition) if isinstance(system, PredictsMemory) else 0
