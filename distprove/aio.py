"""The Python API for `async` code: each function as in `distprove`, awaited.

    result = await distprove.aio.prove("job.toml", out="run", progress=show)

    async with distprove.aio.connect() as service:
        job = await service.submit("job.toml")
        done = await service.wait(job.id)

A job runs on a thread of its own, so that the event loop goes on. `progress` is called on the event loop, or awaited
where it is `async`; an error that it raises ends the job and arrives at the `await`. Cancelling the task cancels the
job, and waits until it has ended: what is proven stays in the run, which can be resumed.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from cluster.service import client
from cluster.service.client import Client
from cluster.service.views import JobRequest, JobState, JobView, Overview, Priority, RunFile
from distprove import api
from distprove.api import Job, Progress, Proof, ProveResult, Verified
from distprove.errors import DistproveError
from distprove.registry import DEFAULT
from distprove.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from distprove.typed_options import JobOptions

__all__ = ["Service", "connect", "prove", "resume", "verify"]

T = TypeVar("T")
E = TypeVar("E")
Shows = Callable[[E], None] | Callable[[E], Awaitable[None]]
"""What is told of progress: a function, or one that is awaited."""


async def prove(
    job: Job | str | Path | None = None,
    *,
    out: str | Path,
    system: str = DEFAULT,
    title: str = "",
    executor: Settings | None = None,
    resume_existing: bool = False,
    overwrite: bool = False,
    progress: Shows[Progress] | None = None,
    **options: Unpack[JobOptions],
) -> ProveResult:
    """Prove a job, as `distprove.prove` does and with its errors."""
    work = partial(
        api.prove,
        job,
        out=out,
        system=system,
        title=title,
        executor=executor,
        resume_existing=resume_existing,
        overwrite=overwrite,
        **options,
    )
    return await _job(work, progress)


async def resume(
    run: str | Path,
    *,
    program: str | None = None,
    executor: Settings | None = None,
    same_inputs: bool = False,
    progress: Shows[Progress] | None = None,
) -> ProveResult:
    """Do what is missing of a run, as `distprove.resume` does and with its errors."""
    work = partial(api.resume, run, program=program, executor=executor, same_inputs=same_inputs)
    return await _job(work, progress)


async def verify(proof: str | Path | Proof, **given: Any) -> Verified:
    """Verify a proof, as `distprove.verify` does, with its arguments and errors."""
    with ThreadPoolExecutor(1, "distprove") as thread:
        return await _ended(thread, partial(api.verify, proof, **given), Event())


async def _job(work: Callable[..., ProveResult], progress: Shows[Progress] | None) -> ProveResult:
    cancel = Event()
    with ThreadPoolExecutor(1, "distprove") as thread:
        return await _ended(thread, partial(work, progress=_on_loop(progress), cancel=cancel), cancel)


def _on_loop(show: Shows[E] | None) -> Callable[[E], None] | None:
    """The function that a job's thread calls: it has `show` called on this event loop, and raises what that raises."""
    if show is None:
        return None
    loop, call = asyncio.get_running_loop(), show

    async def shown(event: E) -> None:
        waits = call(event)
        if inspect.isawaitable(waits):
            await waits

    return lambda event: asyncio.run_coroutine_threadsafe(shown(event), loop).result()


async def _ended(thread: ThreadPoolExecutor, work: Callable[[], T], cancel: Event) -> T:
    """The result of work on a thread. A task that is cancelled sets `cancel`, and is so once the work has ended."""
    context = contextvars.copy_context()
    future = asyncio.get_running_loop().run_in_executor(thread, context.run, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
            cancel.set()
    if cancelled is not None:
        future.exception()  # CalledOff, as a rule: it is no news
        raise cancelled
    return future.result()


class Service:
    """A client of the standing service, as `cluster.service.client.Client`, whose methods are awaited.

    Tasks may share it: calls are made one after the other on one connection. Waits for jobs have their own, so that
    others go on, `cancel` among them.
    """

    def __init__(self, plain: Client) -> None:
        self._client = plain
        self._thread = ThreadPoolExecutor(1, "distprove")

    async def submit(
        self,
        job: str | Path | Mapping[str, Any] | JobRequest,
        *,
        id: str | None = None,
        priority: Priority | str | None = None,
        out: str | Path | None = None,
        base: str | Path | None = None,
        title: str | None = None,
    ) -> JobView:
        """Submit a job; it is on the service's disk when this returns."""
        ask = partial(self._client.submit, job, id=id, priority=priority, out=out, base=base, title=title)
        return await self._asked(ask)

    async def submit_all(self, jobs: Sequence[JobRequest]) -> list[JobView | DistproveError]:
        """Submit jobs, many in a request."""
        return await self._asked(partial(self._client.submit_all, jobs))

    async def status(self, id: str) -> JobView:
        """The state of a job."""
        return await self._asked(partial(self._client.status, id))

    async def wait(self, id: str, timeout: float | None = None, progress: Shows[JobView] | None = None) -> JobView:
        """Wait until a job is over. Cancelling the task ends the waiting, and not the job: `cancel` does that."""
        stop = Event()
        with self._client.twin() as plain, ThreadPoolExecutor(1, "distprove") as thread:
            ask = partial(plain.wait, id, timeout, _on_loop(progress), cancel=stop)
            return await _ended(thread, ask, stop)

    async def cancel(self, id: str) -> JobView:
        """Cancel a job."""
        return await self._asked(partial(self._client.cancel, id))

    async def list(
        self, state: JobState | str | None = None, *, limit: int = 100, before: str | None = None
    ) -> list[JobView]:
        """Jobs, the newest first."""
        return await self._asked(partial(self._client.list, state, limit=limit, before=before))

    async def proof(self, id: str, path: str | Path) -> Path:
        """Write the proof of a job to a file."""
        return await self._asked(partial(self._client.proof, id, path))

    async def output(self, id: str, path: str | Path) -> Path:
        """Write the output of variable length of a job to a file."""
        return await self._asked(partial(self._client.output, id, path))

    async def files(self, id: str) -> Sequence[RunFile]:
        """The files of a job that is over, for `file`."""
        return await self._asked(partial(self._client.files, id))

    async def file(self, id: str, name: str, path: str | Path) -> Path:
        """Write the file of this name of a job to a file here."""
        return await self._asked(partial(self._client.file, id, name, path))

    async def report(self, id: str) -> dict[str, Any]:
        """The report of a job that is over."""
        return await self._asked(partial(self._client.report, id))

    async def overview(self) -> Overview:
        """The service at a glance."""
        return await self._asked(self._client.overview)

    async def _asked(self, ask: Callable[[], T]) -> T:
        return await _ended(self._thread, ask, Event())

    async def close(self) -> None:
        """Close the connection."""
        await self._asked(self._client.close)
        self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Service:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


def connect(
    service: str | Path | None = None,
    *,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
) -> Service:
    """A client of a service, found as `distprove.connect` finds it."""
    return Service(client.connect(service, token_file=token_file, ca_file=ca_file))
