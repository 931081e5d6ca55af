"""The governor as the Ray actor of a node, for processes there and for drivers anywhere."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from actors import patience
from actors.driver_liveness import DriverAddress
from actors.grants import Wanted
from cluster.governor.budget import budget_of
from cluster.governor.local import LocalGovernor
from cluster.governor.state import NOBODY, Holder, Request
from cluster.governor.watch import NodeWatch
from distprove.host.set_aside import remember

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass
class _Driver:
    """A job that uses a node's governor."""

    holder: Holder
    heard: float
    """Time of its last sign of life, on the monotonic clock."""
    address: DriverAddress | None
    """Addresses of its head and its node; None where it did not tell them."""


class NodeGovernor:
    """A `LocalGovernor` behind asynchronous calls, so that one that waits takes up no thread. A process is a holder, or
    a job as a whole.

    It runs on the node that it governs, so it sees for itself when a holder's process is gone. Drivers may be
    elsewhere: they say now and then that they live (`attend`). It takes a silent one for dead once the driver's address
    was reached before and no longer is: its process ended, or a node is cut off. No driver is dead while a process here
    serves it (`serves`): what is leased for it lies in the memory of such processes, and another governor would know
    nothing of that. All jobs of a cluster share it; budget and limits are those that the first of them made it with.
    With the last it ends, and nobody but a driver that lives makes another.
    """

    def __init__(
        self,
        threads: int,
        memory: int | None,
        keys: int = 0,
        throttle: Mapping[str, int] | None = None,
        waits: float | None = None,
    ) -> None:
        """The first four are those of `budget_of`. `waits`: seconds after which it ends if no driver has told it
        that it lives, because the one that made it was killed; None: it does not end for that."""
        # Tickets of another that was here before mean nothing to this one.
        first = 1 + secrets.randbits(48)
        watch = NodeWatch(beside=True)
        self._governor = LocalGovernor(budget_of(threads, memory, keys, throttle or {}), self._lives, watch, first)
        self._drivers: dict[str, _Driver] = {}
        self._serving: dict[Holder, str] = {}
        """The driver that each process of this node serves."""
        self._reached: dict[DriverAddress | None, bool] = {}
        """Whether each driver's address could be reached at the first look. The silence of others, as behind a
        firewall, says nothing."""
        self._numbers = itertools.count(1)
        self._ever = False
        """Whether there has been a driver."""
        self._ticking: asyncio.Task[None] | None = None
        if waits is not None:
            alone = threading.Timer(waits, self._end_if_alone)
            alone.daemon = True
            alone.start()

    async def attend(self, driver: str, address: DriverAddress | None = None, *, known: bool = False) -> bool:
        """A driver says that it lives. False if this governor is at its end: the driver has to make another; and where
        the driver should be `known` and is not: what it held is lost. `address`: where the driver is; without it, it is
        believed to live for as long as `patience.GOVERNOR_FORGETS`."""
        if driver not in self._drivers:  # a new one does not share what was made for others that were killed
            await self._forget_the_unreached(0.0, address)
        self._look()
        if self._over:
            return False
        before = self._drivers.get(driver)
        if before is None and known:
            return False
        holder = before.holder if before is not None else (-next(self._numbers), 0.0)
        self._ever = True
        self._drivers[driver] = _Driver(holder, time.monotonic(), address)
        return True

    async def serves(self, pid: int, driver: str) -> None:
        """A process of this node serves a driver, for as long as it lives."""
        self._serving[_process(pid)] = driver

    async def leave(self, driver: str) -> bool:
        """A driver ends: what it holds is free. Whether it was the last one: then it has to end this actor, too."""
        self._drivers.pop(driver, None)
        self._look()
        if self._over and self._ticking is not None:
            self._ticking.cancel()  # for good: from its end nothing leads back, and the driver's answer comes first
        return self._over

    async def acquire(self, pid: int, **wanted: Unpack[Wanted]) -> tuple[int, int]:
        """A lease's ticket, and of how many threads it is, once granted. Raises ClusterError if it never can be."""
        return await self._granted(Request(_process(pid), **wanted))

    async def keep(self, driver: str, memory: int, key: str = "") -> int:
        """Keep a driver's key, of that name among its own, resident until it leaves or releases it, once there is room
        for it; the lease's ticket. Raises ClusterError if there never is."""
        known = self._drivers.get(driver)  # one unknown after a restart of this actor soon says that it lives
        holder = known.holder if known is not None else NOBODY
        ticket, _ = await self._granted(Request(holder, memory=memory, key=f"{driver}{key}"))
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

    async def report(self, began: float = 0.0) -> dict[str, Any]:
        """Plain data for report.json, with times in seconds since `began` (since the epoch)."""
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
        late = time.monotonic() - patience.GOVERNOR_FORGETS
        self._forget(name for name, driver in self._drivers.items() if driver.heard <= late)
        self._governor.reclaim_dead()

    def _forget(self, names: Iterable[str]) -> None:
        """Forget these drivers, but for those that processes here serve."""
        gone = set(names)
        if gone:
            self._serving = {holder: driver for holder, driver in self._serving.items() if self._lives(holder)}
            gone -= set(self._serving.values())
            self._drivers = {name: driver for name, driver in self._drivers.items() if name not in gone}

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(patience.GOVERNOR_LOOK)
            await self._forget_the_unreached(patience.GOVERNOR_QUIET)
            self._look()
            self._governor.sample()
            await asyncio.to_thread(self._governor.watch.look)
            if self._over:
                self._end()

    async def _forget_the_unreached(self, quiet: float, new: DriverAddress | None = None) -> None:
        """Forget drivers that were not heard for `quiet` seconds and whose addresses cannot be reached any more. `new`:
        the address of one that waits for an answer, so that it can be reached now, if ever."""
        addresses = {each.address for each in self._drivers.values()} | {new}
        late = time.monotonic() - quiet
        with suppress(OSError):  # no descriptor is free: there is another look
            for address in addresses - self._reached.keys():
                self._reached[address] = address is not None and await asyncio.to_thread(address.answers)
            self._reached = {address: reached for address, reached in self._reached.items() if address in addresses}
            for name, each in list(self._drivers.items()):
                if each.heard < late and each.address and self._reached.get(each.address):
                    reached = await asyncio.to_thread(each.address.answers)
                    if not reached and self._drivers.get(name) == each:  # it was not heard meanwhile
                        self._forget([name])

    def _end_if_alone(self) -> None:
        if not self._ever:
            self._end()

    @property
    def _over(self) -> bool:
        """Whether there were drivers, and all are gone."""
        return self._ever and not self._drivers

    @staticmethod
    def _end() -> None:
        """The last driver died, so nobody else ends this actor. Ray starts it no more, and is not asked to end it: it
        may not answer here."""
        os._exit(0)

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
