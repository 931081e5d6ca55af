"""The API for type checkers, for `async` code and for notebooks."""

from __future__ import annotations

import asyncio
import html
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import distprove
from cluster.scheduler.jobs import Progress
from cluster.service.client import Client
from cluster.service.views import JobState, JobView, Priority
from distprove.api import prove
from distprove.errors import CalledOff, UsageError
from distprove.formats.notebook import facts_html
from distprove.registry import SYSTEMS, entry_of
from distprove.typed_options import JobOptions
from tests.support import ROOT

JOB: dict[str, Any] = {"system": "stark", "program": "fibonacci", "arguments": {"rows": 64}}
HERE: dict[str, Any] = {"local": True, "isolate": False, "threads": 1}
OPTIONS = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from typing_extensions import Unpack
    from distprove.typed_options import JobOptions

def take(*, out: str, **options: Unpack[JobOptions]) -> None: ...

take(out="run", zkey="c.zkey", inputs=[{"a": 3}], partitions=4, arguments={"rows": "2^10"})
take(out="run", zkye="c.zkey")
take(out="run", partitions="four")
"""


# -- type checkers -----------------------------------------------------------------------------------------------------


def test_the_typed_arguments_are_the_keys_of_all_systems() -> None:
    known = {field.name for name in SYSTEMS for field in fields(entry_of(name).options)}
    assert JobOptions.__annotations__.keys() == known
    for function in (prove, distprove.aio.prove):
        assert function.__annotations__["options"] == "Unpack[JobOptions]"


@pytest.mark.slow
def test_mypy_finds_wrong_arguments(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(OPTIONS)
    options = ["--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    command = [sys.executable, "-m", "mypy", *options, str(tmp_path / "use.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    first, second = done.stdout.splitlines()
    assert "use.py:11" in first
    assert "zkye" in first
    assert "use.py:12" in second
    assert "partitions" in second


# -- async -------------------------------------------------------------------------------------------------------------


def test_a_job_is_proven_while_the_loop_goes_on(tmp_path: Path) -> None:
    async def both() -> tuple[int, list[str]]:
        ticks, threads = 0, set[str]()

        async def show(progress: Progress) -> None:
            threads.add(threading.current_thread().name)
            while ticks <= 5:  # the job waits for its callback
                await asyncio.sleep(0.001)

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.ensure_future(tick())
        result = await distprove.aio.prove(out=tmp_path / "run", partitions=2, executor=HERE, progress=show, **JOB)
        checked = await distprove.aio.verify(result.run)
        ticking.cancel()
        assert checked.partitions == 2
        return ticks, sorted(threads)

    ticks, threads = asyncio.run(both())
    assert ticks > 5
    assert threads == [threading.main_thread().name]


@pytest.mark.parametrize("waits", [False, True])
def test_what_progress_raises_arrives_at_the_await(waits: bool, tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 1:
            raise LookupError("enough")

    async def stop_later(progress: Progress) -> None:
        await asyncio.sleep(0)
        stop(progress)

    show: Any = stop_later if waits else stop
    with pytest.raises(LookupError, match="enough"):
        asyncio.run(distprove.aio.prove(out=tmp_path / "run", partitions=8, executor=HERE, progress=show, **JOB))
    assert asyncio.run(distprove.aio.resume(tmp_path / "run")).report["status"] == "proved"


def test_a_cancelled_task_ends_the_job_which_can_be_resumed(tmp_path: Path) -> None:
    async def cancelled() -> None:
        begun = asyncio.Event()

        def show(progress: Progress) -> None:
            if progress.done >= 1:
                begun.set()

        work = distprove.aio.prove(out=tmp_path / "run", partitions=400, executor=HERE, progress=show, **JOB)
        task = asyncio.ensure_future(work)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = set(threading.enumerate())
    asyncio.run(cancelled())
    assert not (tmp_path / "run" / "proof.msgpack").exists()
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_errors_arrive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="zkey"):
        asyncio.run(distprove.aio.prove(out=tmp_path / "run", zkey=None))


# -- a service ---------------------------------------------------------------------------------------------------------


def view(state: JobState, done: int) -> JobView:
    return JobView("a", state, Priority.LOW, "toy", "<b>", "r", partitions=4, done=done)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client whose service has a job that never ends."""
    plain: Client = object.__new__(Client)
    plain._connection = None
    monkeypatch.setattr(
        Client, "status", lambda self, id, wait=0.0: time.sleep(min(wait, 0.01)) or view(JobState.RUNNING, 1)
    )
    return plain


def test_waiting_is_cancelled_from_another_thread(client: Client) -> None:
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    with pytest.raises(CalledOff, match="the job goes on"):
        client.wait("a", cancel=stop)


def test_waiting_is_cancelled_with_its_task(client: Client) -> None:
    async def waits() -> list[int]:
        seen, begun = list[int](), asyncio.Event()

        def show(view: JobView) -> None:
            seen.append(view.done)
            begun.set()

        async with distprove.aio.Service(client) as service:
            waiting = asyncio.ensure_future(service.wait("a", progress=show))
            await begun.wait()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting, 0.05)
            assert (await service.status("a")).done == 1
        return seen

    assert set(asyncio.run(waits())) == {1}


def test_other_calls_go_on_while_tasks_wait_for_jobs(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wait ends when its job does, and `cancel` is what ends these jobs. All on one connection, none would end."""
    over = {"a": threading.Event(), "b": threading.Event()}

    def status(self: Client, id: str, wait: float = 0.0) -> JobView:
        return view(JobState.CANCELLED if over[id].wait(min(wait, 0.01)) else JobState.RUNNING, 1)

    def cancel(self: Client, id: str) -> JobView:
        over[id].set()
        return self.status(id)

    monkeypatch.setattr(Client, "status", status)
    monkeypatch.setattr(Client, "cancel", cancel)

    async def waits() -> list[JobView]:
        async with distprove.aio.Service(client) as service:
            waiting = [asyncio.ensure_future(service.wait(id, 60)) for id in over]
            await asyncio.sleep(0)
            for id in reversed(over):
                await asyncio.wait_for(service.cancel(id), 30)
            return await asyncio.gather(*waiting)

    assert [done.state for done in asyncio.run(waits())] == [JobState.CANCELLED] * 2


def test_what_progress_of_a_service_raises_arrives(client: Client) -> None:
    def stop(view: JobView) -> None:
        raise LookupError("enough")

    async def waits() -> None:
        async with distprove.aio.Service(client) as service:
            await service.wait("a", progress=stop)

    with pytest.raises(LookupError, match="enough"):
        asyncio.run(waits())


# -- notebooks ---------------------------------------------------------------------------------------------------------


def test_results_show_themselves(tmp_path: Path) -> None:
    out = tmp_path / "<b>run"
    result = distprove.prove(out=out, executor=HERE, **JOB)
    checked = distprove.verify(result.run)
    for shown in (result, result.proof, checked):
        page = shown._repr_html_()
        assert result.proof.key_digest.hex() in page
        assert "<b>" not in page
    assert html.escape(str(out)) in result._repr_html_()
    assert "not verified" in result.proof._repr_html_()
    assert "not given" in checked._repr_html_()
    assert "starts with" in checked._repr_html_()
    assert "1 of 4" in view(JobState.RUNNING, 1)._repr_html_()


def test_nothing_in_a_result_is_markup_or_acts() -> None:
    page = facts_html("<script>", {"a\u202eb": "</td>\x1b[31m" + "x" * 10_000})
    assert "<script>" not in page
    assert "</td>\x1b" not in page
    assert "\u202e" not in page
    assert len(page) < 6_000
