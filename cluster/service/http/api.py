"""The routes of a service. The document of the API, `/openapi.json`, is made from this table (`openapi.py`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from aiohttp import web

from actors import patience
from cluster.record.partitions import PartitionState
from cluster.record.report import Report
from cluster.service.http.access import OWNER
from cluster.service.http.calls import (
    Call,
    NotYet,
    Refused,
    answer,
    ends_within,
    problem_of,
    send_file,
)
from cluster.service.http.events import Snapshot
from cluster.service.http.routes import Query, Table
from cluster.service.views import (
    ID,
    FileList,
    JobList,
    JobRequest,
    JobState,
    JobView,
    KeyAway,
    KeyList,
    KeyReady,
    KeyRequest,
    LogLines,
    Overview,
    PartitionList,
    Submission,
    Submissions,
    Submitted,
)
from distprove.errors import DistproveError, InputError, NoSuchJob, QueueFull

TABLE = Table()
MOST_JOBS = 1000
"""Jobs in one answer."""
MOST_PARTITIONS = 2048
"""Partitions in one answer."""
PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/job.js": ("job.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


OCTETS: Any = {"media": "application/octet-stream", "errors": (404, 422), "streams": True}
"""The answer of a route that sends a file of a job."""


@dataclass(frozen=True)
class Shutdown:
    """How a service is to end."""

    drain: bool = True
    """Whether jobs that run are finished first. What is not finished goes on when the service starts again."""


@dataclass(frozen=True)
class Done:
    """What was asked for is done, or begins."""

    status: str


@TABLE.route(
    "POST",
    "/v1/jobs",
    {201: "The job was accepted.", 200: "It had been accepted before, under the same id."},
    answer=JobView,
    body=JobRequest,
    errors=(409, 413, 415, 422),
)
async def submit(call: Call) -> web.StreamResponse:
    """Submit a job. A job that is submitted again, with the same id and content, is the same job."""
    known = await call.ask(_known, call, call.body.id)
    client = "" if call.who == OWNER else call.who
    view = await call.ask(call.service.submit, call.body, client)
    return answer(view, 200 if known else 201)


@TABLE.route(
    "POST",
    "/v1/submissions",
    {200: "What became of each job; some may have been refused."},
    answer=Submitted,
    body=Submissions,
    errors=(413, 415, 422),
)
async def submit_all(call: Call) -> web.StreamResponse:
    """Submit several jobs, each as if it were alone: one that is refused leaves the others. It counts as so many
    requests. Where the body is refused as a whole (422), none was taken."""
    jobs = call.body.jobs
    call.charge(len(jobs) - 1)
    told = await call.ask(call.service.submit_all, jobs, "" if call.who == OWNER else call.who)
    return answer(Submitted([_submission(each) for each in told]))


def _submission(told: JobView | DistproveError) -> Submission:
    if isinstance(told, JobView):
        return Submission(told)
    return Submission(None, problem_of(told), told.retry_after if isinstance(told, QueueFull) else None)


def _known(call: Call, id: str) -> bool:
    try:
        call.service.job(id)
    except NoSuchJob:
        return False
    return True


@TABLE.route(
    "GET",
    "/v1/jobs",
    {200: "The jobs, the newest first."},
    answer=JobList,
    query=(
        Query("state", JobState, "only jobs in this state"),
        Query("limit", int, "number of jobs, at most", 100, (1, MOST_JOBS)),
        Query("before", str, "only jobs that were submitted before the one of this id"),
        Query("search", str, "only jobs with this text in their id or title", ""),
    ),
    errors=(404, 422),
)
async def list_jobs(call: Call) -> web.StreamResponse:
    """List jobs, the newest first."""
    chosen = {name: call.query[name] for name in ("limit", "before", "search")}
    return answer(JobList(await call.ask(call.service.jobs, call.query["state"], **chosen)))


@TABLE.route(
    "GET",
    "/v1/jobs/{id}",
    {200: "The job."},
    answer=JobView,
    query=(Query("wait", float, "seconds to wait for the job's end, at most", 0.0, (0, patience.HTTP_WAIT)),),
    errors=(404, 422),
    seconds=patience.HTTP_REQUEST + patience.HTTP_WAIT,
)
async def job(call: Call) -> web.StreamResponse:
    """Tell the state of a job. With `wait`, answer as soon as the job is over, or when that time is up."""

    async def look() -> JobView:
        return await call.ask(call.service.job, call.id)

    return answer(await call.shared.notifier.until(call.who, call.id, look, call.query["wait"]))


@TABLE.route("POST", "/v1/jobs/{id}/cancel", {200: "The job, which ends soon."}, answer=JobView, errors=(404,))
async def cancel(call: Call) -> web.StreamResponse:
    """Cancel a job. One that is over stays as it is."""
    return answer(await call.ask(call.service.cancel, call.id))


@TABLE.route(
    "GET",
    "/v1/jobs/{id}/log",
    {200: "Lines of the log."},
    answer=LogLines,
    query=(Query("after", int, "the `next` of the answer before", 0, (0, 1 << 62)),),
    errors=(404, 422),
)
async def log(call: Call) -> web.StreamResponse:
    """Read what happened to a job, from some place on."""
    lines, following = await call.ask(call.service.log, call.id, call.query["after"])
    return answer(LogLines(lines, following))


@TABLE.route(
    "GET",
    "/v1/jobs/{id}/partitions",
    {200: "The partitions."},
    answer=PartitionList,
    query=(
        Query("state", PartitionState, "only partitions in this state"),
        Query("search", str, "only partitions with this text in their name", ""),
        Query("first", int, "number of the first partition in the answer, among the partitions found", 0, (0, 1 << 31)),
        Query("limit", int, "number of partitions, at most", 100, (1, MOST_PARTITIONS)),
    ),
    errors=(404, 422),
)
async def partitions(call: Call) -> web.StreamResponse:
    """Tell how the partitions of a job stand: those of its tree too, and what each of these needs."""
    asked = [call.query[name] for name in ("state", "search", "first", "limit")]
    return answer(await call.ask(_partitions, call, *asked))


def _partitions(call: Call, state: PartitionState | None, search: str, first: int, limit: int) -> PartitionList:
    return PartitionList.of(call.service.partitions(call.id), state, search, first, limit)


@TABLE.route("GET", "/v1/jobs/{id}/proof", {200: "The file proof.msgpack (docs/formats.md)."}, **OCTETS)
async def proof(call: Call) -> web.StreamResponse:
    """Download the proof of a job that is proved."""
    return await _download(call, call.service.proof)


@TABLE.route(
    "GET",
    "/v1/jobs/{id}/output",
    {200: "The file output.bin, without which the proof of a job that has one cannot be verified."},
    **OCTETS,
)
async def output(call: Call) -> web.StreamResponse:
    """Download the output of variable length of a job that is proved and has one."""
    return await _download(call, call.service.output)


@TABLE.route("GET", "/v1/jobs/{id}/files", {200: "The files."}, answer=FileList, errors=(404, 422))
async def list_files(call: Call) -> web.StreamResponse:
    """List the files of a job that is over. `files/{name}` sends each of them."""
    return answer(FileList(await call.ask(call.service.files, call.id)))


@TABLE.route("GET", "/v1/jobs/{id}/files/{name}", {200: "The file."}, **OCTETS)
async def file(call: Call) -> web.StreamResponse:
    """Download one of the files that `files` lists, such as a wrap's proof.json, public.json and calldata.hex."""
    name = call.request.match_info["name"]
    if name not in {each.name for each in await call.ask(call.service.files, call.id)}:
        raise NotYet(f"{call.id} has no such file, or is not over yet")
    return await send_file(call, await call.ask(call.service.run, call.id) / name, "application/octet-stream")


async def _download(call: Call, find: Callable[[str], Path]) -> web.StreamResponse:
    """Send the file of the job in the call that `find` names."""
    try:
        path = await call.ask(find, call.id)
    except InputError as error:
        raise NotYet(str(error)) from None
    return await send_file(call, path, "application/octet-stream")


@TABLE.route(
    "GET",
    "/v1/jobs/{id}/report",
    {200: "The report, report.json (docs/formats.md)."},
    answer=Report,
    errors=(404, 422),
    streams=True,
)
async def report(call: Call) -> web.StreamResponse:
    """Download the report of a job that is over: times, bytes and retries of each partition and each worker."""
    view = await call.ask(call.service.job, call.id)
    path = await call.ask(call.service.run, call.id) / "report.json"
    if not await call.ask(os.path.lexists, path):
        raise NotYet(f"{view.id} has no report yet: it is {view.state.value}")
    return await send_file(call, path, "application/json")


@TABLE.route("GET", "/v1/keys", {200: "The keys."}, answer=KeyList)
async def list_keys(call: Call) -> web.StreamResponse:
    """List the keys that workers have or load."""
    overview = await call.ask(call.service.overview)
    return answer(KeyList(list(overview.keys)))


@TABLE.route(
    "POST",
    "/v1/keys/load",
    {200: "The key is loaded, or it is being loaded: ask again."},
    answer=KeyReady,
    body=KeyRequest,
    query=(Query("wait", float, "seconds to wait until it is loaded, at most", 0.0, (0, patience.HTTP_WAIT)),),
    errors=(413, 415, 422, 503),
    seconds=patience.HTTP_REQUEST + patience.HTTP_WAIT,
)
async def load_key(call: Call) -> web.StreamResponse:
    """Load a key before a job needs it. It goes behind the keys of jobs, stays until its memory is needed, and may make
    room by evicting keys that no job uses. What keeps it from being loaded is the answer."""
    known, loading = await call.ask(call.service.keys.load, call.body)
    if loading is None or not call.query["wait"]:
        return answer(known)
    if not await ends_within(call.query["wait"], loading):
        return answer(known)
    loading.result()  # raises why it could not be loaded
    after, _ = await call.ask(call.service.keys.load, call.body)
    return answer(replace(after, already=False))


@TABLE.route(
    "POST",
    "/v1/keys/evict",
    {200: "The key is not loaded any more."},
    answer=KeyAway,
    body=KeyRequest,
    errors=(409, 413, 415, 422),
)
async def evict_key(call: Call) -> web.StreamResponse:
    """Give back the memory of a key that no job uses."""
    return answer(await call.ask(call.service.keys.put_away, call.body))


@TABLE.route("GET", "/v1/overview", {200: "The service."}, answer=Overview)
async def overview(call: Call) -> web.StreamResponse:
    """Show the service at a glance: its queue, its throughput, its keys and its workers."""
    return answer(await call.ask(call.service.overview))


@TABLE.route(
    "GET",
    "/v1/events",
    {200: "Server-sent events. The data of each is a `Snapshot` as JSON."},
    answer=Snapshot,
    media="text/event-stream",
    streams=True,
)
async def events(call: Call) -> web.StreamResponse:
    """Follow the service: an event at once, and one whenever something has changed, once a second at most."""
    notifier, loop = call.shared.notifier, asyncio.get_running_loop()
    async with notifier.listener(call.who):
        response = await call.begin("text/event-stream")
        told, heard, end = "", 0.0, loop.time() + patience.HTTP_LISTENS
        while loop.time() < end and call.has_access and not call.is_head:
            snapshot = await notifier.snapshot()
            if snapshot != told or loop.time() - heard >= patience.HTTP_HEARTBEAT:
                text = f"data: {snapshot}\n\n" if snapshot != told else ": nothing new\n\n"
                await asyncio.wait_for(response.write(text.encode()), patience.HTTP_WRITE)
                told, heard = snapshot, loop.time()
            await asyncio.sleep(patience.HTTP_SNAPSHOT)
        await response.write_eof()
    return response


@TABLE.route("POST", "/v1/shutdown", {202: "The service ends."}, answer=Done, body=Shutdown, errors=(413, 415, 422))
async def shut_down(call: Call) -> web.StreamResponse:
    """End the service. It takes no more jobs from now on."""
    call.shared.shut_down(call.body.drain)
    return answer(Done("draining" if call.body.drain else "ending"), 202)


@TABLE.route("GET", "/healthz", {200: "The service answers."}, answer=Done, open=True)
async def healthz(call: Call) -> web.StreamResponse:
    """Tell whether the process answers."""
    return answer(Done("alive"))


@TABLE.route("GET", "/readyz", {200: "The service takes jobs."}, answer=Done, open=True, errors=(503,))
async def readyz(call: Call) -> web.StreamResponse:
    """Tell whether the service takes jobs."""
    if not (await call.ask(call.service.overview)).accepting:
        raise Refused(503, "the service takes no jobs at the moment")
    return answer(Done("ready"))


@TABLE.route("GET", "/metrics", {200: "The metrics."}, media="text/plain")
async def metrics(call: Call) -> web.StreamResponse:
    """Tell what Prometheus collects, in its text format."""
    text = await call.ask(call.shared.metrics.text)
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


@TABLE.route("GET", "/openapi.json", {200: "The document."}, open=True)
async def openapi(call: Call) -> web.StreamResponse:
    """Describe this API, as OpenAPI 3.1."""
    return answer(await call.ask(_document))


@cache
def _document() -> dict[str, Any]:
    from cluster.service.http.openapi import document

    return document(TABLE)


async def page(call: Call) -> web.StreamResponse:
    """Show the service in a browser."""
    name, media = PAGE[call.request.path]
    return web.Response(body=_file_of_page(name), content_type=media, charset="utf-8")


for _path, (_, _media) in PAGE.items():
    TABLE.route("GET", _path, {200: "A file of the page."}, media=_media, open=True)(page)


@cache
def _file_of_page(name: str) -> bytes:
    return (files("cluster.service.http") / "page" / name).read_bytes()


def require_id(id: str) -> None:
    """Raise NoSuchJob for what can be the id of no job."""
    if not ID.match(id):
        raise NoSuchJob("no job can have this id")
