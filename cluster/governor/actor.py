"""The governor as the Ray actor of a node, for processes there and for drivers anywhere."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from cluster.governor.budget import budget_of
from cluster.governor.local import LocalGovernor
from cluster.governor.state import NOBODY, Holder, Limits, Request
from cluster.governor.watch import NodeWatch
from distprove.host.lease_class import LeaseClass
from distprove.host.set_aside import remember


@dataclass
class _Driver:
    """A job that uses a node's governor."""

    holder: Holder
    heard: float
    """Time at which it last said so, on the monotonic clock."""


class NodeGovernor:
    """A `LocalGovernor` behind asynchronous calls, so that one that waits takes up no thread. A process is a holder, or
    a thread of one, or a job as a whole.

    It runs on the node that it governs, so it can see for itself when a holder's process is gone. Drivers may be
    elsewhere: they say now and then that they live (`attend`), and one that does not is taken for dead. All jobs of a
    cluster share it; budget and limits are those that it was made with, by the first of them. With the last it ends.
    """

    POLL = 0.5
    """Seconds between looks at the holders and the node."""
    PATIENCE = 60.0
    """Seconds for which a driver is believed to live."""

    def __init__(
        self,
        threads: int,
        memory: int | None,
        limits: Limits | None = None,
        keys: int = 0,
    ) -> None:
        """`memory` and `keys` are those of `budget_of`."""
        self._threads = threads
        self._governor = LocalGovernor(budget_of(threads, memory, keys), limits, self._lives, NodeWatch(beside=True))
        self._drivers: dict[str, _Driver] = {}
        self._numbers = itertools.count(1)
        self._ever = False
        """Whether there has been a driver."""
        self._ticking: asyncio.Task[None] | None = None

    async def attend(self, driver: str, living: Sequence[str] | None = None) -> bool:
        """A driver says that it lives. False if this governor is at its end: the driver has to make another. `living`
        are the Ray jobs that are not over, where they are known: drivers of others, whose names begin with theirs, were
        killed, whenever they were heard last."""
        if living is not None:
            self._drivers = {name: each for name, each in self._drivers.items() if name.partition("-")[0] in living}
        self._look()
        if self._over:
            return False
        known = self._drivers.get(driver)
        holder = known.holder if known is not None else (-next(self._numbers), 0.0)
        self._ever = True
        self._drivers[driver] = _Driver(holder, time.monotonic())
        return True

    async def leave(self, driver: str) -> bool:
        """A driver ends: what it holds is free. Whether it was the last one: then it has to end this actor, too."""
        self._drivers.pop(driver, None)
        self._look()
        if self._over and self._ticking is not None:
            self._ticking.cancel()  # for good: from its end nothing leads back, and the driver's answer comes first
        return self._over

    async def acquire(
        self,
        pid: int,
        threads: int = 0,
        memory: int = 0,
        lane: bool = False,
        lease_class: str = LeaseClass.SYNTHESIS,
        thread: int = 0,
        least: int = 0,
    ) -> tuple[int, int]:
        """A lease's ticket, and of how many threads it is, once granted. Raises ClusterError if it never can be.

        `thread` tells apart what holds leases of its own in one process.
        """
        threads = min(threads, self._threads)  # of another job than the one that asks, perhaps
        return await self._granted(
            Request(_process(pid), threads, memory, lane, LeaseClass(lease_class), thread=thread, least=least)
        )

    async def keep(self, driver: str, memory: int, key: str = "") -> int:
        """Keep a driver's key, of that name among its own, resident until it leaves or releases it, once there is room
        for it; the lease's ticket. Raises ClusterError if there never is."""
        known = self._drivers.get(driver)  # one unknown after a restart of this actor soon says that it lives
        holder = known.holder if known is not None else NOBODY
        thread = next(self._numbers)  # a driver may keep several
        ticket, _ = await self._granted(Request(holder, memory=memory, key=f"{driver}{key}", thread=thread))
        return ticket

    async def shrink_key(self, ticket: int, memory: int) -> None:
        """Reduce the key that `keep` leased to so many bytes of memory."""
        self._governor.shrink_key(ticket, memory)

    async def remember(self, device: str, reason: str) -> None:
        """Have a device of this node not used by later jobs."""
        remember(device, reason)

    async def release(self, ticket: int) -> None:
        self._governor.release(ticket)

    async def shrink(self, ticket: int, memory: int) -> None:
        """Give back the memory of a lease above `memory` bytes."""
        self._governor.shrink(ticket, memory)

    async def threads_wanted(self) -> bool:
        """Whether anybody waits for threads."""
        return self._governor.threads_wanted()

    async def report(self, began: float | None = None) -> dict[str, Any]:
        """Plain data for report.json, with times in seconds since `began` (since the epoch; None: as they are)."""
        self._look()
        await asyncio.to_thread(self._governor.watch.look, age=0.0)
        return self._governor.report(began)

    async def _granted(self, request: Request) -> tuple[int, int]:
        """(ticket, threads), once granted."""
        self._look()
        ticket, threads = self._governor.ask(request)
        try:
            return ticket, await asyncio.wrap_future(threads)
        except BaseException:
            self._governor.release(ticket)
            raise

    def _look(self) -> None:
        """Take back what the dead hold, and do so again every now and then from here on."""
        if self._ticking is None:
            self._ticking = asyncio.ensure_future(self._tick())
        late = time.monotonic() - self.PATIENCE
        self._drivers = {name: driver for name, driver in self._drivers.items() if driver.heard > late}
        self._governor.reclaim_dead()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.POLL)
            self._look()
            self._governor.sample()
            await asyncio.to_thread(self._governor.watch.look)
            if self._over:
                self._end()

    @property
    def _over(self) -> bool:
        """Whether there were drivers, and all are gone."""
        return self._ever and not self._drivers

    @staticmethod
    def _end() -> None:
        """The last driver died, so nobody else ends this actor."""
        import ray  # takes seconds, and this module is used without it

        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    def _lives(self, holder: Holder) -> bool:
        """Whether a driver or a process does. A process number may be used again; together with the time of its start
        it is unique. One whose call was only read after its death never had a time of its start."""
        if holder[0] < 0:
            return any(driver.holder == holder for driver in self._drivers.values())
        return holder[1] > 0.0 and holder == _process(holder[0])


def _process(pid: int) -> Holder:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return (pid, float(process.create_time()))
    return (pid, 0.0)
