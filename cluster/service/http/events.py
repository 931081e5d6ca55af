"""Notification of changes: for requests that wait for the end of a job, and for listeners that follow the service."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors import patience
from cluster.service.views import JobView, Overview
from distprove.errors import QueueFull
from distprove.formats.plain_data import dumps

if TYPE_CHECKING:
    from cluster.service.service import Service

JOBS = 100
"""Jobs in a snapshot: the newest."""
LISTENERS, LISTENERS_OF_EACH = 32, 8
"""Most listeners at a time: all, and those of one token."""
WAITERS_OF_EACH = 128
"""Most requests of one token that wait for the end of a job: each takes one of the server's connections."""


@dataclass(frozen=True)
class Snapshot:
    """The service and its newest jobs at one time."""

    overview: Overview
    jobs: list[JobView]


class Notifier:
    """Wakes requests that wait for a job, and takes snapshots of the service while there are listeners."""

    def __init__(self, service: Service, ask: Callable[[Callable[[], Snapshot]], Awaitable[Snapshot]]) -> None:
        """`ask` runs a call that may block. Make and use this object on the loop; `changed` alone is for any thread."""
        self._service = service
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._waiters: dict[str, list[asyncio.Event]] = {}
        self._waiting: Counter[str] = Counter()
        """Requests that wait for a job's end, by token."""
        self._listeners: Counter[str] = Counter()
        """Listeners by token."""
        self._snapshot = ""
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    def changed(self, view: JobView) -> None:
        """Notify of a change, from any thread. It costs nothing unless the job is over and a request waits for it."""
        if view.state.final and view.id in self._waiters:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._wake, view.id)

    def _wake(self, id: str) -> None:
        for waiter in self._waiters.get(id, ()):
            waiter.set()

    async def until(self, who: str, id: str, look: Callable[[], Awaitable[JobView]], seconds: float) -> JobView:
        """The job of that id as `look` finds it: when it is over, or after so many seconds. Raises QueueFull where too
        many requests of that token wait already."""
        if seconds > 0 and self._waiting[who] >= WAITERS_OF_EACH:
            raise QueueFull(f"{WAITERS_OF_EACH} requests of this token wait for jobs already", 1.0)
        over = asyncio.Event()
        self._waiters.setdefault(id, []).append(over)
        self._waiting[who] += seconds > 0
        try:
            view = await look()  # after the entry: what ends from here on sets the event
            if view.state.final or seconds <= 0:
                return view
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(over.wait(), seconds)
            return await look()
        finally:
            self._waiting[who] -= seconds > 0
            self._waiters[id].remove(over)
            if not self._waiters[id]:
                del self._waiters[id]

    @asynccontextmanager
    async def listener(self, who: str) -> AsyncIterator[None]:
        """Count a listener of a token. Raises QueueFull."""
        if self._listeners.total() >= LISTENERS:
            raise QueueFull(f"{LISTENERS} listeners follow this service already", 10.0)
        if self._listeners[who] >= LISTENERS_OF_EACH:
            raise QueueFull(f"{LISTENERS_OF_EACH} listeners of this token follow this service already", 10.0)
        self._listeners[who] += 1
        try:
            yield
        finally:
            self._listeners[who] -= 1

    async def snapshot(self) -> str:
        """The service as JSON, at most `patience.HTTP_SNAPSHOT` seconds old."""
        async with self._looking:
            if self._loop.time() - self._looked >= patience.HTTP_SNAPSHOT:
                self._snapshot = dumps(await self._ask(self._look))
                self._looked = self._loop.time()
        return self._snapshot

    def _look(self) -> Snapshot:
        return Snapshot(self._service.overview(), self._service.jobs(limit=JOBS))
