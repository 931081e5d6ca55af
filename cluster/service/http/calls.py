"""A request at work, and what all requests share: the service, threads for calls that block, and answers as JSON."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import web

from actors import patience
from cluster.service.http.access import TooFast
from cluster.service.views import Problem
from distprove.errors import (
    AccessDenied,
    DistproveError,
    EnvironmentFailed,
    IdTaken,
    InputError,
    InUse,
    NoSuchJob,
    QueueFull,
    UsageError,
    exit_code,
    typed,
)
from distprove.formats.folder import Folder
from distprove.formats.plain_data import dumps
from distprove.formats.visible import bounded

if TYPE_CHECKING:
    from cluster.service.http.events import Notifier
    from cluster.service.metrics import ServiceMetrics
    from cluster.service.service import Service

Answer = TypeVar("Answer")

THREADS, OF_EACH = 32, 16
"""Threads for calls that block, and number of those that one token's calls have at a time."""
WAITING = 512
"""Calls that may wait for a thread."""
CHUNK = 1 << 18
"""Bytes of a file that are sent at a time."""
BEGUN = web.RequestKey("begun", bool)
"""Key of a request whose answer was begun."""
SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "distprove",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every answer."""


class Refused(UsageError):
    """A request that HTTP itself has a status for."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class NotYet(InputError):
    """A job has no such file, or not yet."""


class Shared:
    """What the requests of a server share."""

    def __init__(
        self, service: Service, notifier: Notifier, shut_down: Callable[[bool], None], metrics: ServiceMetrics
    ) -> None:
        """`shut_down`: begins the service's end; its argument says whether jobs that run are finished first."""
        self.service = service
        self.notifier = notifier
        self.shut_down = shut_down
        self.metrics = metrics
        self._threads = ThreadPoolExecutor(THREADS, "distprove-http")
        self._waiting = 0
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def ask(self, who: str, call: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
        """Do a call that may block on a thread, for a token by its name. Raises what it raises, and QueueFull where too
        many wait already."""
        if self._waiting >= THREADS + WAITING:
            raise QueueFull("the service has too much to answer; ask again later", 1.0)
        self._waiting += 1
        try:
            turns = self._turns.setdefault(who, asyncio.Semaphore(OF_EACH))
            await turns.acquire()
            doing = self._threads.submit(lambda: call(*arguments, **named))
            loop = asyncio.get_running_loop()
            # A call goes on where nobody waits for its answer any more, and its thread is as busy as before.
            doing.add_done_callback(lambda _: _soon(loop, turns.release))
            return await asyncio.wrap_future(doing)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Have a loop do a call, unless it has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


async def ends_within(seconds: float, work: Future[Any]) -> bool:
    """Whether work of other threads ends within so many seconds. Otherwise the work goes on, and asyncio does not log
    its error."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    work.add_done_callback(lambda _: _soon(loop, ended.set))
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)
    return work.done()


@dataclass(frozen=True)
class Call:
    """A request whose token, query and body are checked."""

    shared: Shared
    request: web.Request
    query: dict[str, Any]
    body: Any
    who: str
    """The name of the request's token; "" where none is asked for."""
    require_access: Callable[[], str]
    """Raises AccessDenied when the request's token has stopped to count."""
    charge: Callable[[int], None]
    """Counts the request as so many more of its token."""

    @property
    def has_access(self) -> bool:
        """Whether the request's token still counts."""
        try:
            return bool(self.require_access())
        except AccessDenied:
            return False

    async def begin(self, media: str, length: int | None = None) -> web.StreamResponse:
        """Begin an answer that is sent piece by piece. An error from here on cuts it off, for all to see."""
        response = web.StreamResponse(headers={**SAFE, "Content-Type": media})
        response.content_length = length
        self.request[BEGUN] = True
        await response.prepare(self.request)
        return response

    @property
    def is_head(self) -> bool:
        """Whether only the answer's head is asked for: an answer that is sent in pieces has none then."""
        return self.request.method == "HEAD"

    @property
    def id(self) -> str:
        """The job that the path names."""
        return self.request.match_info["id"]

    @property
    def service(self) -> Service:
        return self.shared.service

    async def ask(self, call: Callable[..., Answer], *arguments: Any, **named: Any) -> Answer:
        return await self.shared.ask(self.who, call, *arguments, **named)


def answer(value: Any, status: int = 200, **headers: str) -> web.Response:
    """An answer in JSON; a dataclass is its fields."""
    return web.json_response(value, status=status, headers=headers, dumps=dumps)


async def send_file(call: Call, path: Path, media: str) -> web.StreamResponse:
    """Send a file of a run. It is opened as files of runs are: through no link. Raises InputError."""
    descriptor = await call.ask(_open, path)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        response = await call.begin(media, size)
        while size > 0 and not call.is_head:
            chunk = await call.ask(file.read, min(CHUNK, size))
            if not chunk:
                raise ConnectionResetError("the file became shorter while it was sent")
            size -= len(chunk)
            await asyncio.wait_for(response.write(chunk), patience.HTTP_WRITE)
        await response.write_eof()
    return response


def _open(path: Path) -> int:
    with Folder.open(path.parent) as folder:
        return folder.open_file(path.name)


_STATUS = (
    (NoSuchJob, 404),
    (NotYet, 404),
    (IdTaken, 409),
    (InUse, 409),
    (AccessDenied, 401),
    (TooFast, 429),
    (QueueFull, 503),
    (EnvironmentFailed, 503),
    (UsageError, 422),
    (InputError, 422),
)


def problem(error: Exception) -> web.Response:
    """The answer for an error. What is not an error of ours is not told: it may quote anything."""
    told = _told(error)
    headers: dict[str, str] = {}
    if isinstance(told, Refused):
        status, headers = told.status, told.headers
    else:
        status = next((code for kind, code in _STATUS if isinstance(told, kind)), 500)
    if isinstance(told, QueueFull):
        headers = {"Retry-After": str(max(1, round(told.retry_after + 0.5)))}
    if isinstance(told, AccessDenied):
        headers = {"WWW-Authenticate": 'Bearer realm="distprove"'}
    return answer(problem_of(told), status, **headers)


def problem_of(error: Exception) -> Problem:
    """What is told of an error."""
    told = _told(error)
    named = next(kind.__name__ for kind in type(told).__mro__ if kind.__module__ == DistproveError.__module__)
    return Problem(bounded(str(told)) or named, named, exit_code(told))


def _told(error: Exception) -> DistproveError:
    told = typed(error)
    return told if isinstance(told, DistproveError) else DistproveError("a fault in the service; its log says where")
