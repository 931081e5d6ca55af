"""A service that proves nothing, for what stands before it: its jobs change when a test says so."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.record.partitions import PartitionView
from cluster.scheduler.told import KeyView, WorkerView
from cluster.service.http.access import TOKENS, make_tokens, read_token
from cluster.service.http.server import Options, Server
from cluster.service.metrics import ServiceMetrics
from cluster.service.views import (
    JobRequest,
    JobState,
    JobView,
    KeyAway,
    KeyReady,
    KeyRequest,
    Overview,
    Priority,
    RunFile,
)
from distprove.errors import DistproveError, IdTaken, InputError, InUse, NoSuchJob, QueueFull, forget_frames


class FakeService:
    """What `cluster.service.service.Service` shows of itself."""

    def __init__(self, folder: Path, capacity: int = 100) -> None:
        self.folder = folder
        self.capacity = capacity
        self.listeners: list[Callable[[JobView], None]] = []
        self.metrics = ServiceMetrics(self.overview, self.jobs, lambda: 7)
        self.listeners.append(self.metrics.changed)
        self.requests: dict[str, JobRequest] = {}
        self.views: dict[str, JobView] = {}
        self.clients: dict[str, str] = {}
        """Names of those who submitted, by the job's id."""
        self.lines: list[str] = ["began", "proved p0", "ended"]
        self.pieces: list[PartitionView] = []
        """The partitions of every job."""
        self.keys = FakeKeys()
        self.accepting = True
        self.held = threading.Event()
        """Set: nothing holds a call to `overview` up."""
        self.held.set()
        self.holds = threading.Semaphore(0)
        """Counts calls to `overview` that were held up."""
        self._lock = threading.Lock()

    def submit(self, request: JobRequest, client: str = "") -> JobView:
        self.clients[request.id] = client
        with self._lock:
            known = self.requests.get(request.id)
            if known is not None:
                if known != request:
                    raise IdTaken(f"another job was submitted as {request.id}")
                return self.views[request.id]
            if "fault" in request.job:
                raise ValueError(f"a secret: {request.job['fault']}")
            if "system" not in request.job:
                raise InputError("no `system`")
            if sum(not view.state.final for view in self.views.values()) >= self.capacity:
                raise QueueFull("full", 2.5)
            self.requests[request.id] = request
            run, title = str(self.folder / request.id), str(request.job.get("title", ""))
            view = JobView(
                request.id, JobState.QUEUED, request.priority or Priority.NORMAL, "toy", title, run, submitted=1.0
            )
            self.views[request.id] = view
            return view

    def submit_all(self, requests: Sequence[JobRequest], client: str = "") -> list[JobView | DistproveError]:
        told: list[JobView | DistproveError] = []
        for request in requests:
            try:
                told.append(self.submit(request, client))
            except DistproveError as error:
                forget_frames(error)
                told.append(error)
        return told

    def job(self, id: str) -> JobView:
        if id not in self.views:
            raise NoSuchJob(f"the service has no job {id}")
        return self.views[id]

    def jobs(
        self, state: JobState | None = None, *, limit: int = 100, before: str | None = None, search: str = ""
    ) -> list[JobView]:
        if before is not None:
            self.job(before)
        newest = [view for view in reversed(self.views.values()) if state in (None, view.state) and view.has(search)]
        if before is not None:
            newest = newest[[view.id for view in newest].index(before) + 1 :]
        return newest[:limit]

    def change(self, id: str, **facts: Any) -> JobView:
        view = self.views[id] = replace(self.job(id), **facts)
        for listener in self.listeners:
            listener(view)
        return view

    def cancel(self, id: str) -> JobView:
        if self.job(id).state.final:
            return self.job(id)
        return self.change(id, state=JobState.CANCELLED, exit_code=130, error="cancelled", cancelling=True)

    def log(self, id: str, after: int = 0) -> tuple[list[str], int]:
        self.job(id)
        return self.lines[after:], len(self.lines)

    def partitions(self, id: str) -> list[PartitionView]:
        self.job(id)
        return self.pieces

    def files(self, id: str) -> list[RunFile]:
        if not self.job(id).state.final:
            return []
        return [RunFile(path.name, path.stat().st_size) for path in sorted(self.run(id).glob("*"))]

    def run(self, id: str) -> Path:
        return Path(self.job(id).run)

    def proof(self, id: str) -> Path:
        view = self.job(id)
        if view.state is not JobState.PROVED:
            raise InputError(f"{id} has no proof: it is {view.state.value}")
        return Path(view.run) / "proof.msgpack"

    def output(self, id: str) -> Path:
        path = self.proof(id).with_name("output.bin")
        if not os.path.lexists(path):
            raise InputError(f"{id} has no output")
        return path

    def overview(self) -> Overview:
        if not self.held.is_set():
            self.holds.release()
            assert self.held.wait(250)
        counts = {state.value: sum(v.state is state for v in self.views.values()) for state in JobState}
        key = KeyView("ab" * 16, "groth16", "circuit", 1, 1 << 30, 1, 1.0)
        workers = (
            WorkerView("prover-0", "node-1", "H200", "cuda", 0.83, 12, 1 << 34, 1 << 37),
            WorkerView("prover-1", "node-1", "H200", "cuda", 0.0, 3, None, None, "its process ended"),
        )
        running = counts["running"]
        return Overview(
            "0", 1.0, self.accepting, counts["queued"], running, self.capacity, counts, 15, 2.5, (key,), workers
        )


class FakeKeys:
    """The keys of a fake service: one is loaded, one in use, one at fault, and others are being loaded for ever."""

    def __init__(self) -> None:
        self.asked: list[Future[None]] = []
        """What each call that loads a key waits for."""

    def load(self, request: KeyRequest) -> tuple[KeyReady, Future[None] | None]:
        name, loading = request.files.get("zkey"), Future[None]()
        self.asked.append(loading)
        if name == "faulty":
            loading.set_exception(InputError("faulty: no points"))
        if name == "loaded":
            return KeyReady("cd" * 32, True, True, 0.0, 1 << 30), None
        return KeyReady("cd" * 32, False, False, 2.5), loading

    def put_away(self, request: KeyRequest) -> KeyAway:
        if request.files.get("zkey") == "used":
            raise InUse("the key is in use")
        return KeyAway("cd" * 32, True, 1 << 30)


class Served:
    """A server in front of a fake service."""

    def __init__(self, folder: Path, capacity: int = 100, **options: Any) -> None:
        self.service = FakeService(folder, capacity)
        self.tokens = folder / TOKENS
        make_tokens(self.tokens)
        self.token = read_token(self.tokens)
        self.shut: list[bool] = []
        self.server = Server(self.service, Options(self.tokens, **options), self.shut.append)  # type: ignore[arg-type]

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.server.url.partition("//")[2].rpartition(":")
        return host.strip("[]"), int(port)


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Served]:
    """A server in front of a fake service; `options` are those of `Options`."""
    found = Served(folder, **options)
    found.server.start()
    try:
        yield found
    finally:
        found.service.held.set()
        found.server.close()
