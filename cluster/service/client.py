"""A client of the standing service.

    import distprove

    with distprove.connect() as service:                     # this user's own, or connect("https://host:port", ...)
        job = service.submit("job.toml")
        done = service.wait(job.id)                          # raises as `distprove.prove` would
        service.proof(job.id, "proof.msgpack")

The client retries a request that was lost, or for which the service had no room, with growing pauses. That is safe: the
client chooses the id of a job, and a job that is submitted twice is one job.

It is built on `http.client`: to import aiohttp, for a client that blocks, takes 0.37 s of CPU for 0.06.
"""

from __future__ import annotations

import builtins
import hashlib
import http.client
import os
import random
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from actors import patience
from cluster.scheduler.told import KeyView
from cluster.service.contact import Contact, contact_in, find
from cluster.service.http.access import read_token
from cluster.service.total_timeout import TimedResponse
from cluster.service.views import (
    MOST_SUBMITTED,
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
    Priority,
    Problem,
    RunFile,
    Submitted,
)
from distprove import errors
from distprove.errors import (
    AccessDenied,
    CalledOff,
    DistproveError,
    FormatError,
    InputError,
    QueueFull,
    ServiceGone,
    UsageError,
)
from distprove.formats import jsontext
from distprove.formats.files import real, replacing
from distprove.formats.names import is_name
from distprove.formats.plain_data import read
from distprove.formats.visible import bounded
from distprove.proof import MAX_BYTES, MAX_OUTPUT
from kernels.host.units import count_of

Answer = TypeVar("Answer")

MAX_ANSWER = 1 << 25
"""Most bytes of an answer: a thousand jobs with the longest paths and titles take a third of that."""
MAX_REPORT = 1 << 28
CHUNK = 1 << 20
LOT = 1 << 22
"""About the bytes of jobs in one request."""
NO_SERVICE = "what answers is not a service of distprove"


def connect(
    service: str | Path | None = None,
    *,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    patience: float = patience.CLIENT_RETRIES,
) -> Client:
    """A client of the service at a URL or in a folder; by default what the environment variable DISTPROVE_SERVICE
    names, else this user's own.

    `token_file` and `ca_file` are for a URL: the token, in a file that only this user can read, and certificates to
    check TLS with. Raises ServiceGone where no service runs.
    """
    token = Path(token_file) if token_file is not None else None
    return Client(find(service, token, Path(ca_file) if ca_file is not None else None), patience=patience)


class Client:
    """Asks a service. Use as a context manager; one object is for one thread at a time.

    Every method raises what the service names: UsageError, InputError, NoSuchJob, IdTaken, QueueFull; AccessDenied for
    a token that it does not know; ServiceGone when it does not answer for as long as `patience` says.
    """

    def __init__(self, contact: Contact, *, patience: float = patience.CLIENT_RETRIES) -> None:
        self.contact = contact
        self._patience = patience
        self._connection: http.client.HTTPConnection | None = None
        self._closed_connection()  # that what is wrong with the URL is told at once
        self._token = read_token(Path(contact.token_file))

    # -- jobs -------------------------------------------------------------------------------------------------------

    def submit(
        self,
        job: str | Path | Mapping[str, Any] | JobRequest,
        *,
        id: str | None = None,
        priority: Priority | str | None = None,
        out: str | Path | None = None,
        base: str | Path | None = None,
        title: str | None = None,
    ) -> JobView:
        """Submit a job: the path of a job file, its keys, or a whole request. When this returns it is accepted, and on
        the service's disk. A `title` takes the place of the one in the file or the keys.

        Paths in it are those of the service's machine, relative to `base`: by default the job file's folder, or the
        current one. `out` is the run's folder there. Without a `priority` it is normal, but for jobs
        with a deadline. Without an `id` one is made, so that sending it again is safe.
        """
        if not isinstance(job, JobRequest):
            job = request_of(job, id=id, priority=priority, out=out, base=base, title=title)
        return self._ask(JobView, "POST", "/v1/jobs", body=asdict(job))

    def submit_all(self, jobs: Iterable[JobRequest]) -> list[JobView | DistproveError]:
        """Submit jobs, many in a request. Returns for each, in order, its state or the error that refused it. Jobs for
        which there is no room are retried, as by `submit`, until `patience` is over."""
        asked = list(jobs)
        told: dict[int, JobView | DistproveError] = {}
        end, left = time.monotonic() + self._patience, list(range(len(asked)))
        while left:
            pause = 0.0
            for lot in _lots(asked, left):
                body = {"jobs": [asdict(asked[place]) for place in lot]}
                answered = self._ask(Submitted, "POST", "/v1/submissions", body=body).jobs
                if len(answered) != len(lot):
                    raise FormatError(NO_SERVICE)
                for place, each in zip(lot, answered, strict=True):
                    told[place] = result = each.job or _named(each.error, each.retry_after)
                    if isinstance(result, QueueFull):
                        pause = max(pause, result.retry_after)
            left = [place for place in left if isinstance(told[place], QueueFull)]
            if left and time.monotonic() + pause > end:
                break
            time.sleep(pause if left else 0.0)
        return [told[place] for place in range(len(asked))]

    def status(self, id: str, wait: float = 0.0) -> JobView:
        """The state of a job: once it is over, or after `wait` seconds."""
        query = {"wait": wait} if wait else {}
        return self._ask(JobView, "GET", f"/v1/jobs/{quote(id, '')}", query=query, wait=wait)

    def wait(
        self,
        id: str,
        timeout: float | None = None,
        progress: Callable[[JobView], None] | None = None,
        *,
        cancel: Event | None = None,
    ) -> JobView:
        """Wait until a job is over, or for `timeout` seconds; `progress` is called with it about twice a second.

        A service that is restarted meanwhile is waited for, as long as `patience` says. What `progress` raises is
        raised here. Another thread ends the waiting by `cancel.set()`: then CalledOff is raised within a second. In
        both cases the job goes on, unless `cancel(id)` cancels it.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = patience.CLIENT_POLL if end is None else max(0.0, min(patience.CLIENT_POLL, end - time.monotonic()))
            if cancel is not None and cancel.is_set():
                raise CalledOff(f"the wait for job {id} was cancelled; the job goes on")
            watched = progress is not None or cancel is not None
            asked, left = time.monotonic(), min(left, patience.CLIENT_PROGRESS) if watched else left
            view = self.status(id, left)
            if progress is not None:
                progress(view)
            if view.state.final or (end is not None and time.monotonic() >= end):
                return view
            # A service answers early of a job that is over, and of no other.
            time.sleep(max(0.0, min(left, patience.CLIENT_SOON) - (time.monotonic() - asked)))

    def cancel(self, id: str) -> JobView:
        """Cancel a job. One that is over stays as it is."""
        return self._ask(JobView, "POST", f"/v1/jobs/{quote(id, '')}/cancel")

    def list(
        self, state: JobState | str | None = None, *, limit: int = 100, before: str | None = None
    ) -> list[JobView]:
        """Jobs, the newest first: in one `state`, or older than the job `before`."""
        query: dict[str, Any] = {"limit": limit}
        if state is not None:
            query["state"] = JobState(state).value
        if before is not None:
            query["before"] = before
        return self._ask(JobList, "GET", "/v1/jobs", query=query).jobs

    def logs(self, id: str, *, follow: bool = False, after: int = 0) -> Iterator[str]:
        """Lines of a job's journal; with `follow` also new ones, until the job is over."""
        while True:
            over = self.status(id).state.final  # before it reads: what is written last comes before the end is told
            while True:
                found = self._ask(LogLines, "GET", f"/v1/jobs/{quote(id, '')}/log", query={"after": after})
                yield from found.lines
                if not found.lines:
                    break
                if found.next <= after:  # these lines would come again, and again
                    raise FormatError(NO_SERVICE)
                after = found.next
            if over or not follow:
                return
            self.status(id, 0.5)

    def proof(self, id: str, path: str | Path) -> Path:
        """Write the proof of a job to a file."""
        return self._download(id, "proof", Path(path), MAX_BYTES)

    def output(self, id: str, path: str | Path) -> Path:
        """Write the output of variable length of a job to a file. Its proof cannot be verified without it: `verify`
        finds it as output.bin beside proof.msgpack. Raises InputError for a job that has none."""
        return self._download(id, "output", Path(path), MAX_OUTPUT)

    def _download(self, id: str, name: str, path: Path, most: int) -> Path:
        """Write a file of a job, of at most `most` bytes: a server may send for ever."""

        def download(response: TimedResponse) -> Path:
            size = 0
            response.allow(most)
            with replacing(path) as file:
                while chunk := response.read(CHUNK):
                    size += len(chunk)
                    if size > most:
                        raise FormatError(
                            f"the service sends more than the {count_of(most, 'byte')} that a file of a job may have"
                        )
                    file.write(chunk)
                _require_whole(response)
            return path

        target = f"/v1/jobs/{quote(id, '')}/{name}"
        return self._until_answered(partial(self._once, "GET", target, None, patience.CLIENT_ANSWER, download))

    def files(self, id: str) -> Sequence[RunFile]:
        """The files of a job that is over, for `file`: proof, output, report, and those for other software, such as a
        wrap's proof.json, public.json and calldata.hex."""
        return self._ask(FileList, "GET", f"/v1/jobs/{quote(id, '')}/files").files

    def file(self, id: str, name: str, path: str | Path) -> Path:
        """Write the file of this name of a job to a file here. Raises InputError for a job that has none."""
        if not is_name(name):
            raise InputError(f"no file of a job has the name {name[:100]!r}")
        return self._download(id, f"files/{name}", Path(path), MAX_BYTES)

    def report(self, id: str) -> dict[str, Any]:
        """The report of a job that is over: the content of its report.json."""
        return self._ask(dict[str, Any], "GET", f"/v1/jobs/{quote(id, '')}/report", most=MAX_REPORT)

    # -- the service ------------------------------------------------------------------------------------------------

    def overview(self) -> Overview:
        """The service at a glance."""
        return self._ask(Overview, "GET", "/v1/overview")

    def keys(self) -> builtins.list[KeyView]:
        """Keys that workers have or load."""
        return self._ask(KeyList, "GET", "/v1/keys").keys

    def load_key(
        self, key: KeyRequest, timeout: float | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> KeyReady:
        """Have a key loaded before a job needs it, and wait until it is, for `timeout` seconds at most and as long as
        it is `wanted`. Then the answer is not `loaded`, and the service goes on with it. Raises why it cannot be
        loaded."""
        began, first = time.monotonic(), True
        already = False
        while True:
            left = patience.CLIENT_PROGRESS
            if timeout is not None:
                left = min(left, max(0.0, began + timeout - time.monotonic()))
            told = self._ask(
                KeyReady, "POST", "/v1/keys/load", body=asdict(key), query={"wait": left} if left else {}, wait=left
            )
            already, first = told.already if first else already, False
            waited = time.monotonic() - began
            if told.loaded or (timeout is not None and waited >= timeout) or not wanted():
                # The service tells no time of a key that is there when it is asked again.
                seconds = waited if told.loaded and not already else told.seconds
                return replace(told, already=already, seconds=seconds)

    def evict_key(self, key: KeyRequest) -> KeyAway:
        """Give back the memory of a key. Raises InUse for one that a job uses or that is being loaded."""
        return self._ask(KeyAway, "POST", "/v1/keys/evict", body=asdict(key))

    def metrics(self) -> str:
        """The service's metrics, as Prometheus reads them."""
        ask = partial(self._once, "GET", "/metrics", None, patience.CLIENT_ANSWER, _content)
        return self._until_answered(ask).decode(errors="replace")

    def shut_down(self, *, drain: bool = True) -> None:
        """End the service; with `drain` after the jobs that run."""
        self._ask(dict[str, Any], "POST", "/v1/shutdown", body={"drain": drain})

    def twin(self) -> Client:
        """Another client of the same service, with a connection of its own, for another thread."""
        made = copy(self)
        made._connection = None
        return made

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # -- requests ---------------------------------------------------------------------------------------------------

    def _ask(
        self,
        kind: type[Answer],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        wait: float = 0.0,
        most: int = MAX_ANSWER,
    ) -> Answer:
        """The answer of that kind to a request, of at most `most` bytes; the service may take `wait` seconds longer."""
        data = None if body is None else _encoded(body)
        target = f"{path}?{urlencode(query)}" if query else path
        take = partial(_decoded, kind, most=most)
        return self._until_answered(partial(self._once, method, target, data, patience.CLIENT_ANSWER + wait, take))

    def _until_answered(self, ask: Callable[[], Answer]) -> Answer:
        """Retry a request until it is answered, or `patience` is over."""
        end, pause = time.monotonic() + self._patience, patience.CLIENT_FIRST_PAUSE
        while True:
            error: DistproveError
            try:
                return ask()
            except QueueFull as full:
                error, least = full, full.retry_after
            except ServiceGone as gone:
                error, least = gone, 0.0
            except (OSError, http.client.HTTPException) as lost:
                self.close()
                if isinstance(lost, ssl.SSLCertVerificationError):
                    raise AccessDenied(
                        f"{self.contact.url}: its certificate is not trusted: {lost.verify_message}"
                    ) from None
                reason = getattr(lost, "strerror", None) or type(lost).__name__
                error, least = ServiceGone(f"no service answers at {self.contact.url}: {reason}"), 0.0
            rest = max(least, pause * random.uniform(0.5, 1.0))
            if time.monotonic() + rest > end:
                raise error
            time.sleep(rest)
            pause = min(patience.CLIENT_LONGEST_PAUSE, 2 * pause)

    def _once(
        self,
        method: str,
        target: str,
        data: bytes | None,
        seconds: float,
        take: Callable[[TimedResponse], Answer],
    ) -> Answer:
        connection = self._connected(seconds)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            assert isinstance(response, TimedResponse)
            if response.status >= 300:
                raise _error(response)
            return take(response)
        except BaseException:
            self.close()  # what is left of an answer must not be taken for the next one
            raise

    def _connected(self, seconds: float) -> http.client.HTTPConnection:
        """An open connection to the service."""
        if self._connection is None:
            if self.contact.folder is not None:
                # It may have been started again elsewhere; and whoever listens where a dead one did gets no token.
                self.contact = contact_in(Path(self.contact.folder))
            connection = self._closed_connection()
            connection.timeout = seconds
            connection.connect()
            connection.response_class = TimedResponse
            connection.auto_open = 0  # another connection is opened here, after the same checks
            self._connection = connection
            self._check_fingerprint(connection)
        self._connection.sock.settimeout(seconds)
        return self._connection

    def _closed_connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self.contact.url)
        try:
            port = url.port
        except ValueError:
            port = -1
        if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/") or port == -1:
            raise UsageError("the URL of a service is http://HOST:PORT or https://HOST:PORT")
        if url.username is not None or url.query or url.fragment:
            raise UsageError("the URL of a service holds no user and no query; a token is in a file of its own")
        if url.scheme == "http":
            return http.client.HTTPConnection(url.hostname, port)
        return http.client.HTTPSConnection(url.hostname, port, context=_context(self.contact))

    def _check_fingerprint(self, connection: http.client.HTTPConnection) -> None:
        """Raise AccessDenied unless the certificate is the one that the contact names, if it names one."""
        if self.contact.fingerprint is None:
            return
        shown = connection.sock.getpeercert(binary_form=True) if isinstance(connection.sock, ssl.SSLSocket) else b""
        if hashlib.sha256(shown or b"").hexdigest() != self.contact.fingerprint:
            self.close()
            raise AccessDenied(f"{self.contact.url}: its certificate is not the service's")


def request_of(
    job: str | Path | Mapping[str, Any],
    *,
    id: str | None = None,
    priority: Priority | str | None = None,
    out: str | Path | None = None,
    base: str | Path | None = None,
    title: str | None = None,
) -> JobRequest:
    """The request for a job file, or for the keys of one. Raises InputError, UsageError."""
    if isinstance(job, Mapping):
        keys = dict(job)
    else:
        from distprove.job import job_table  # here: other requests do without its 20 ms

        base = base if base is not None else real(Path(job)).parent
        keys = job_table(Path(job))
    if title is not None:
        keys["title"] = title
    try:
        priority = None if priority is None else Priority(priority)
    except ValueError:
        raise UsageError(f"a priority is one of {', '.join(Priority)}") from None
    folder = os.path.abspath(base if base is not None else Path.cwd())
    run = None if out is None else os.path.abspath(out)
    return JobRequest(id or new_id(), keys, folder, run, priority)


def new_id() -> str:
    """A new id for a job."""
    return f"job-{secrets.token_hex(8)}"


def _lots(jobs: Sequence[JobRequest], places: Sequence[int]) -> Iterator[list[int]]:
    """Yields the places of the jobs in each request."""
    lot, size = list[int](), 0
    for place in places:
        nbytes = len(_encoded(asdict(jobs[place])))
        if lot and (len(lot) >= MOST_SUBMITTED or size + nbytes > LOT):
            yield lot
            lot, size = [], 0
        lot.append(place)
        size += nbytes + 2
    if lot:
        yield lot


def _encoded(body: Any) -> bytes:
    try:
        return jsontext.dumps(body)
    except (TypeError, ValueError, RecursionError):
        raise UsageError("a job is made of strings, numbers, lists and tables") from None


def _content(response: TimedResponse, most: int = MAX_ANSWER) -> bytes:
    """The answer's bytes, `most` at most. Raises FormatError."""
    response.allow(most)
    data = response.read(most + 1)
    if len(data) > most:
        raise FormatError("the service answers with more than a client takes in")
    _require_whole(response)
    return data


def _decoded(kind: type[Answer], response: TimedResponse, most: int = MAX_ANSWER) -> Answer:
    """The answer, of at most `most` bytes. Raises FormatError for what is not of that kind."""
    data = _content(response, most)
    try:
        return read(kind, jsontext.loads_own(data, "the answer"), "the answer", strict=False)
    except (ValueError, UsageError):
        raise FormatError(NO_SERVICE) from None


def _require_whole(response: http.client.HTTPResponse) -> None:
    """Raise IncompleteRead for an answer that was cut off, in its head or its body: reads in pieces do not notice."""
    if response.length != 0 and not response.chunked:
        raise http.client.IncompleteRead(b"", response.length)


def _error(response: TimedResponse) -> DistproveError:
    """The error that an answer names."""
    try:
        return _named(_decoded(Problem, response), _seconds(response.headers.get("Retry-After")))
    except DistproveError:
        return ServiceGone(f"{NO_SERVICE} (status {response.status})")


def _named(problem: Problem | None, retry_after: float | None) -> DistproveError:
    """The error of that name. Raises FormatError where there is none."""
    if problem is None:
        raise FormatError(NO_SERVICE)
    message, kind = bounded(problem.error), errors.error_named(problem.kind)
    if kind is QueueFull:
        return QueueFull(message, min(60.0, max(0.0, 1.0 if retry_after is None else retry_after)))
    return kind(message) if issubclass(kind, DistproveError) else DistproveError(message)


def _seconds(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _context(contact: Contact) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=contact.ca_file)
    except (OSError, ssl.SSLError):
        raise InputError(f"{contact.ca_file}: not a file of certificates") from None
    if contact.fingerprint is not None:  # which is checked before anything is sent
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
