"""Governors as they are used: `LocalGovernor` in one process, `NodeGovernor` as the Ray actor of a node."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from actors.grants import Grant
from cluster.governor.state import NOBODY, Budget, Governor, Holder, Request
from cluster.governor.steward import PERIOD, Steward
from cluster.governor.watch import CopyProbe, Watch
from cluster.policy import Policy, static
from distprove.errors import ClusterError
from distprove.host.cgroup import memory_available, memory_total
from distprove.host.machine import usable_threads
from distprove.host.phases import Phase
from distprove.host.topology import read_topology
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PredictsMemory, ProofSystem
from kernels.host.private import NotPrivate
from kernels.host.throttle import Throttle


class LocalGovernor:
    """A governor for the threads of one process. A thread is a holder."""

    def __init__(
        self, budget: Budget, policy: Policy | None = None, *, evict: Callable[[str], None] | None = None
    ) -> None:
        """`policy`: None is `static` with no limits but the budget's threads. `evict` gives up the memory of an idle
        key that must go, in the deallocation lane."""
        self._state = Governor(budget)
        self._changed = threading.Condition()
        self._steward = Steward(self._state, policy or static(budget.threads, {}))
        self._epoch = time.time() - time.monotonic()
        self._evict = evict
        self._leaving: set[str] = set()
        self._stop = threading.Event()
        self._throttle: Throttle | None = None
        self._ticker: threading.Thread | None = None

    def start(self, slots: int = 0) -> Path | None:
        """Begin to look at the node and to hear the policy; where the throttle word is, if there is one. Needs `close`.

        `slots` is how many partitions the provers take at once, together.
        """
        self._steward.slots = slots
        self._steward.settle(read_topology())
        self._steward.watch = Watch(CopyProbe())
        self._steward.word = self._throttle = _throttle()
        self._ticker = threading.Thread(target=self._tick, name="distprove-governor", daemon=True)
        self._ticker.start()
        return None if self._throttle is None else self._throttle.path

    def close(self) -> None:
        """Stop looking. Leases are still given and taken back."""
        if self._ticker is not None:
            self._stop.set()
            self._ticker.join()
            self._ticker = None
            with self._changed:
                self._steward.word = None
            if self._throttle is not None:
                self._throttle.close()

    @contextmanager
    def lease(
        self,
        *,
        phase: Phase | str = Phase.SYNTHESIS,
        threads: int = 0,
        memory: int = 0,
        pinned: int = 0,
        lane: bool = False,
        key: str | None = None,
        least: int = 0,
    ) -> Iterator[Grant]:
        """Hold a lease for the length of the block; waits for it. Raises ClusterError if it can never be had.

        `key` keeps a proving key of `memory` and `pinned` bytes resident; they count once, whoever else uses it.
        `least` threads will do, if others hold some (see `Request.least`).
        """
        holder = (threading.get_ident(), 0.0)
        request = Request(holder, threads, memory, lane, Phase(phase), pinned, key, least=least)
        grant = Grant(*self.acquire(request))
        try:
            yield grant
        finally:
            self.release(grant.ticket)

    def keep(self, key: str, *, memory: int = 0, pinned: int = 0) -> int:
        """Keep a key resident until `release` of the ticket that is returned, whatever thread that comes from."""
        return self.acquire(Request(NOBODY, memory=memory, pinned=pinned, key=key))[0]

    def release(self, ticket: int) -> None:
        """End what `keep` or `acquire` began. A ticket that is not known is ignored."""
        self._change(lambda state: state.release(ticket))

    def reclaim(self, holder: Holder) -> None:
        """Take back what a holder has that is no more, and end its waiting."""
        self._change(lambda state: state.reclaim(holder))

    def shrink(self, ticket: int, memory: int) -> None:
        """Give back the memory of a lease above `memory` bytes."""
        self._change(lambda state: state.shrink(ticket, memory))

    def moved(self, taken: int, returned: int, proven: int) -> None:
        """Provers took so many partitions since the last call, and are done with so many, of which some are proven."""
        with self._changed:
            self._steward.moved(time.monotonic(), taken, returned, proven)

    def report(self, began: float | None = None) -> dict[str, Any]:
        """Plain data for report.json, with times in seconds since `began` (since the epoch; None: as they are)."""
        with self._changed:
            return self._steward.report(lambda t: t + self._epoch - (began or 0.0))

    def acquire(self, request: Request) -> tuple[int, int]:
        """(ticket, threads), once granted; until `release` or `reclaim`. Raises ClusterError if it never can be had, or
        when the holder is reclaimed while it waits."""
        with self._changed:
            ticket = self._state.request(request)
            self._tell()
            try:
                while ticket not in self._state.leases:
                    if not self._state.waits(ticket):
                        raise ClusterError("the holder that asked is gone")
                    if not self._evict_one():
                        self._changed.wait()
            except BaseException:
                self._state.release(ticket)
                self._tell()
                raise
            return ticket, self._state.leases[ticket].threads

    def _evict_one(self) -> bool:
        """Give up an idle key that must go, if there is one that nobody is giving up yet. Called with the lock held,
        which is open meanwhile."""
        key = next((key for key in self._state.keys.leaving if key not in self._leaving), None)
        if key is None:
            return False
        self._leaving.add(key)
        self._changed.release()
        try:
            if self._evict is not None:
                with self.lease(lane=True):
                    self._evict(key)
        finally:
            self._changed.acquire()
            self._leaving.discard(key)
            self._state.evicted(key)
            self._tell()
        return True

    def _change(self, change: Callable[[Governor], None]) -> None:
        with self._changed:
            change(self._state)
            self._tell()

    def _tell(self) -> None:
        self._steward.changed(time.monotonic())
        self._changed.notify_all()

    def _tick(self) -> None:
        while not self._stop.wait(PERIOD):
            with self._changed:
                self._steward.tick(time.monotonic())
                self._changed.notify_all()


@dataclass
class _Driver:
    """A job that uses a node's governor."""

    holder: Holder
    slots: int
    heard: float
    """When it last said so, on the monotonic clock."""


class NodeGovernor:
    """The governor as a Ray actor: asynchronous, so that one that waits holds nobody up. A process is a holder, or a
    thread of one, or a job as a whole.

    It runs on the node that it governs, so it can see for itself when a holder's process is gone. Drivers may be
    elsewhere: they say now and then that they live (`attend`), and one that does not is taken for dead. All jobs of a
    cluster share it; budget and policy are those that it was made with, by the first of them. With the last it ends.
    """

    POLL = 0.5
    """Seconds between looks at the holders while somebody waits."""
    PATIENCE = 60.0
    """Seconds for which a driver is believed to live."""

    def __init__(
        self,
        threads: int,
        memory: int | None,
        policy: Policy | None = None,
        pinned: int | None = None,
        keys: int = 0,
    ) -> None:
        """`memory`, `pinned` and `keys` are those of `budget_of`."""
        self._state = Governor(budget_of(threads, memory, pinned, keys))
        self._changed = asyncio.Condition()
        self._steward = Steward(self._state, policy or static(threads, {}))
        self._drivers: dict[str, _Driver] = {}
        self._numbers = itertools.count(1)
        self._provers: Counter[Holder] = Counter()
        """Partitions that each prover has now."""
        self._ever = False
        """Whether there has been a driver."""
        self._epoch = time.time() - time.monotonic()
        self._throttle: Throttle | None = None
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> str | None:
        """Begin to look at the node and to hear the policy, unless that is so; where the throttle word is, if there is
        one."""
        if self._ticking is None:
            self._steward.settle(read_topology())
            self._steward.watch = Watch(CopyProbe())
            self._steward.word = self._throttle = _throttle()
            self._ticking = asyncio.ensure_future(self._tick())
        return None if self._throttle is None else str(self._throttle.path)

    async def attend(self, driver: str, slots: int) -> bool:
        """A driver says that it lives, and how many partitions its provers on this node take at once, together. False
        if this governor is at its end: the driver has to make another."""
        async with self._changed:
            self._reclaim_dead()
            if self._over:
                return False
            known = self._drivers.get(driver)
            holder = known.holder if known is not None else (-next(self._numbers), 0.0)
            self._ever = True
            self._drivers[driver] = _Driver(holder, slots, time.monotonic())
            self._reclaim_dead()
            return True

    async def leave(self, driver: str) -> bool:
        """A driver ends: what it holds is free. Whether it was the last one: then it has to end this actor, too."""
        async with self._changed:
            self._drivers.pop(driver, None)
            self._reclaim_dead()
            over = self._over
        if over:
            await self.close()
        return over

    @property
    def _over(self) -> bool:
        """Whether there were drivers, and all are gone."""
        return self._ever and not self._drivers

    async def close(self) -> None:
        """Stop looking, and remove the word's file."""
        if self._ticking is not None:
            self._ticking.cancel()
            with suppress(asyncio.CancelledError):
                await self._ticking
            self._ticking = None
        self._lower()

    def _lower(self) -> None:
        if self._throttle is not None:
            self._steward.word = None
            self._throttle.close()
            self._throttle = None

    async def acquire(
        self,
        pid: int,
        threads: int = 0,
        memory: int = 0,
        lane: bool = False,
        phase: str = Phase.SYNTHESIS,
        pinned: int = 0,
        key: str | None = None,
        thread: int = 0,
        least: int = 0,
    ) -> tuple[int, int]:
        """A lease's ticket, and of how many threads it is, once granted. Raises ClusterError if it never can be.

        `thread` tells apart what holds leases of its own in one process. See `LocalGovernor.lease`.
        """
        holder = _process(pid)
        threads = min(threads, self._state.budget.threads)  # of another job than the one that asks, perhaps
        return await self._granted(Request(holder, threads, memory, lane, Phase(phase), pinned, key, thread, least))

    async def keep(self, driver: str, memory: int, pinned: int = 0) -> int:
        """Keep a driver's key resident until it leaves, once there is room for it; the lease's ticket. Raises
        ClusterError if there never is."""
        ticket, _ = await self._granted(Request(self._job(driver), memory=memory, pinned=pinned, key=driver))
        return ticket

    async def shrink_key(self, ticket: int, memory: int, pinned: int) -> None:
        """Reduce the key that `keep` leased to so many bytes of memory and pinned memory."""
        await self._change(lambda state: state.shrink_key(ticket, memory, pinned))

    async def _granted(self, request: Request) -> tuple[int, int]:
        """(ticket, threads), once granted."""
        async with self._changed:
            self._reclaim_dead()
            ticket = self._state.request(request)
            self._tell()
            while ticket not in self._state.leases:
                try:
                    await asyncio.wait_for(self._changed.wait(), self.POLL)
                except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
                    self._reclaim_dead()
                except BaseException:
                    self._state.release(ticket)
                    self._tell()
                    raise
                gone = request.holder not in self._state.holders and request.holder != NOBODY
                if ticket not in self._state.leases and gone:
                    raise ClusterError("the holder that asked is gone")
            return ticket, self._state.leases[ticket].threads

    async def release(self, ticket: int) -> None:
        await self._change(lambda state: state.release(ticket))

    async def shrink(self, ticket: int, memory: int) -> None:
        """Give back the memory of a lease above `memory` bytes."""
        await self._change(lambda state: state.shrink(ticket, memory))

    async def moved(self, pid: int, taken: int, returned: int, proven: int) -> None:
        """A prover of this node, the process of that number, took so many partitions since the last call, and is done
        with so many, of which some are proven."""
        async with self._changed:
            self._provers[_process(pid)] += taken - returned
            self._steward.moved(time.monotonic(), taken, returned, proven)

    async def report(self, began: float | None = None) -> dict[str, Any]:
        """Plain data for report.json, with times in seconds since `began` (since the epoch; None: as they are)."""
        async with self._changed:
            self._reclaim_dead()
            return self._steward.report(lambda t: t + self._epoch - (began or 0.0))

    async def _change(self, change: Callable[[Governor], None]) -> None:
        async with self._changed:
            change(self._state)
            self._tell()

    def _tell(self) -> None:
        for key in self._state.keys.leaving:
            self._state.evicted(key)  # its users were processes, and its memory went with the last of them
        self._steward.changed(time.monotonic())
        self._changed.notify_all()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            async with self._changed:
                self._reclaim_dead()
                self._steward.tick(time.monotonic())
                self._changed.notify_all()
                if self._over:
                    self._end()

    def _end(self) -> None:
        """The last driver died, so nobody else ends this actor."""
        import ray  # takes seconds, and this module is used without it

        self._lower()
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    def _job(self, driver: str) -> Holder:
        """The driver as a holder. A driver unknown after a restart of this actor soon says that it lives."""
        known = self._drivers.get(driver)
        return known.holder if known is not None else NOBODY

    def _reclaim_dead(self) -> None:
        late = time.monotonic() - self.PATIENCE
        self._drivers = {name: driver for name, driver in self._drivers.items() if driver.heard > late}
        self._steward.slots = sum(driver.slots for driver in self._drivers.values())
        jobs = {driver.holder for driver in self._drivers.values()}
        for holder in self._state.holders:
            # A process number may be used again; together with the time of its start it is unique.
            alive = holder in jobs if holder[0] < 0 else _lives(holder)
            if not alive:
                self._state.reclaim(holder)
                self._tell()
        for prover in [prover for prover in self._provers if not _lives(prover)]:
            self._steward.moved(time.monotonic(), 0, self._provers.pop(prover), 0)


def _throttle() -> Throttle | None:
    """A throttle word; None where no folder for its file is safe from others, and then nobody makes way."""
    with suppress(NotPrivate, OSError):
        return Throttle()
    return None


def _process(pid: int) -> Holder:
    try:
        process = psutil.Process(pid)
        return (pid, 0.0 if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time()))
    except psutil.Error:
        return (pid, 0.0)


def _lives(holder: Holder) -> bool:
    """Whether a process still runs. One whose call was only read after its death never had a time of its start."""
    return holder[1] > 0.0 and holder == _process(holder[0])


def node_budget(settings: ExecutorSettings, keys: int = 0) -> Budget:
    """The budget of the node this runs on: what the settings say, else every usable thread and the default memory."""
    return budget_of(settings.threads or usable_threads(), settings.memory, keys=keys)


def budget_of(threads: int, memory: int | None = None, pinned: int | None = None, keys: int = 0) -> Budget:
    """A budget of `memory` bytes (None: `default_memory`), half of them page-locked unless `pinned` says otherwise.

    `keys`: bytes that the job's keys take, which the default leaves room for.
    """
    memory = memory or default_memory(keys)
    return Budget(threads, memory, memory // 2 if pinned is None else pinned)


def default_memory(keys: int = 0) -> int:
    """Half of the memory that is free, in bytes, and `keys` more, within what there is in all.

    Half, because the object store's copies of witnesses and what nobody predicts want room too. Beside it, because the
    files of a key that was used before are in the page cache, and need not be free in a control group's eyes.
    """
    return max(1 << 20, min(memory_total(), memory_available() // 2 + keys))


def predicted_bytes(system: ProofSystem, partition: Partition) -> int:
    """Bytes of host memory to lease for a synthesis; 0 for systems that do not predict."""
    return system.synthesis_bytes(partition) if isinstance(system, PredictsMemory) else 0
