"""cuzk's `ProvingEngine` on top of a service: each request becomes a job, each answer is read from it.

    SubmitProof, AwaitProof, Prove, CancelProof      a job, its end, both, and its cancellation
    GetStatus, GetMetrics                            the service at a glance, and its metrics
    PreloadSRS, EvictSRS                             a key is loaded before a job needs it, or put away

A job has the request's id. One that failed, or that was of another request, leaves its id, and the next request of that
id gets another with a number. Nothing is kept in memory that an answer depends on: the job says of which kind it is,
and what its proof must state.

The vanilla proofs of each job lie in a file of its own, named after it, in the spool. AwaitProof and CancelProof remove
the file of a job that is over. `sweep_until` removes the files of all other such jobs.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Semaphore
from typing import Any

from actors import patience
from cluster.service.client import Client
from cluster.service.cuzk.messages import MESSAGES, number_of
from cluster.service.cuzk.requests import KINDS, Asked, circuit_id, key_in, key_request, read_request
from cluster.service.views import JobRequest, JobState, JobView
from distprove.errors import DistproveError, IdTaken, NoSuchJob, QueueFull, ServiceGone
from distprove.filecoin.verifier import snark
from distprove.formats.files import replacing
from distprove.proof import Proof

TRIES = 100
"""Jobs of one request id, at most."""
WAITING = 192
"""Calls that may wait for proofs at a time: others must still be answered."""
_TITLE = "cuzk "
"""What the titles of the jobs begin with; their kinds follow."""
_FILE = re.compile(r"(?P<id>.+)\.[0-9a-f]{24}\.json")
_STATUS = {
    JobState.PROVED: "COMPLETED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}


class Engine:
    """Answers the methods of `ProvingEngine`. Any thread may call. Methods raise DistproveError."""

    def __init__(self, connect: Callable[[], Client], keys: Path, spool: Path) -> None:
        """`connect` makes a client of the service; `keys` is the folder of proving keys, `spool` that of the files of
        vanilla proofs, which is this user's and this engine's alone, and which the service may read."""
        self._connect = connect
        self._keys = keys
        self._spool = spool
        self._waits = Semaphore(WAITING)
        self.stopping = Event()
        """Set to have calls that wait end."""

    def submit(self, request: Any) -> Any:
        """SubmitProof. Raises what makes a request no job here."""
        asked = read_request(request)
        key = key_in(self._keys, asked.circuit)
        with self._connect() as client:
            view = self._submitted(client, _base(request.request_id), key, asked)
        return MESSAGES["SubmitProofResponse"](job_id=view.id, queue_position=view.place or 0)

    def _submitted(self, client: Client, base: str, key: dict[str, str], asked: Asked) -> JobView:
        """The job of a request: the one that has it already, unless that failed, or a new one."""
        for number in range(1, TRIES + 1):
            id = base if number == 1 else f"{base}-{number}"
            path = self._spool / f"{id}.{asked.name}.json"
            if not path.exists():  # the job of an equal request reads it
                with replacing(path, 0o600) as file:
                    file.write(asked.vanilla)
            job = {"system": "filecoin", "title": _TITLE + asked.kind, **key, **asked.settings, asked.file: str(path)}
            try:
                view = client.submit(JobRequest(id, job, priority=asked.priority))
            except IdTaken:
                path.unlink(missing_ok=True)
                continue
            except DistproveError as error:
                # If the service did not answer, it may have the job. `sweep` asks it later.
                if not isinstance(error, ServiceGone):
                    self._drop_unless_known(client, id, path)
                raise
            if not view.state.final:
                return view
            path.unlink(missing_ok=True)
            if view.state is JobState.PROVED:
                return view
        raise IdTaken(f"{TRIES} jobs of the request {base} failed, or were other ones")

    def _drop_unless_known(self, client: Client, id: str, path: Path) -> None:
        """Remove the file of a job that was refused, unless an equal request had it accepted meanwhile."""
        with suppress(DistproveError):
            try:
                known = not client.status(id).state.final
            except NoSuchJob:
                known = False
            if not known:
                path.unlink(missing_ok=True)

    def wait(self, request: Any, wanted: Callable[[], bool] = lambda: True) -> Any:
        """AwaitProof: what came of a job, or TIMEOUT. `wanted` says whether somebody still waits for the answer.

        Raises QueueFull if WAITING calls wait already, ServiceGone if the engine stops or `wanted` says no.
        """
        if not self._waits.acquire(blocking=False):
            raise QueueFull(f"{WAITING} calls wait for proofs already; ask again later", patience.CUZK_SLICE)
        try:
            with self._connect() as client:
                return self._awaited(client, request, wanted)
        finally:
            self._waits.release()

    def _awaited(self, client: Client, request: Any, wanted: Callable[[], bool]) -> Any:
        answer = MESSAGES["AwaitProofResponse"](job_id=request.job_id)
        until = time.monotonic() + request.timeout_ms / 1000 if request.timeout_ms else None
        while True:
            try:
                left = (
                    patience.CUZK_SLICE
                    if until is None
                    else min(patience.CUZK_SLICE, max(0.0, until - time.monotonic()))
                )
                view = self._own(client.wait(request.job_id, left))
            except NoSuchJob as error:
                answer.error_message = str(error)
                return answer
            if view.state.final:
                break
            if until is not None and time.monotonic() >= until:
                answer.status = number_of("AwaitProofResponse.Status", "TIMEOUT")
                return answer
            if self.stopping.is_set() or not wanted():
                raise ServiceGone("the client has gone, or this server ends")
        self._remove(view.id)
        answer.status = number_of("AwaitProofResponse.Status", _STATUS[view.state])
        answer.error_message = view.error or ""
        if view.state is JobState.PROVED:
            with TemporaryDirectory() as folder:
                proof = Proof.read_from(client.proof(view.id, Path(folder) / "proof.msgpack"))
            answer.proof = snark(proof.partitions)
        _time(answer, client, view)
        return answer

    def _own(self, view: JobView) -> JobView:
        """A job that was submitted here. Raises NoSuchJob for another one, which is none of a node's business."""
        if not view.title.startswith(_TITLE):
            raise NoSuchJob(f"the service has no job {view.id}")
        return view

    def prove(self, request: Any, wanted: Callable[[], bool] = lambda: True) -> Any:
        """Prove: SubmitProof, then AwaitProof."""
        made = self.submit(request.submit)
        return MESSAGES["ProveResponse"](result=self.wait(MESSAGES["AwaitProofRequest"](job_id=made.job_id), wanted))

    def cancel(self, request: Any) -> Any:
        """CancelProof."""
        with self._connect() as client:
            before = self._own(client.status(request.job_id))
            after = client.cancel(request.job_id)
        if after.state.final:
            self._remove(after.id)
        return MESSAGES["CancelProofResponse"](was_running=before.state is JobState.RUNNING)

    def status(self, request: Any) -> Any:
        """GetStatus."""
        with self._connect() as client:
            seen = client.overview()
            waiting = [*client.list(JobState.QUEUED, limit=1000), *client.list(JobState.RUNNING, limit=1000)]
        answer = MESSAGES["GetStatusResponse"](
            total_proofs_completed=seen.counts.get(JobState.PROVED.value, 0),
            total_proofs_failed=seen.counts.get(JobState.FAILED.value, 0),
            uptime_seconds=int(max(0.0, time.time() - seen.started)),
        )
        for ordinal, worker in enumerate(worker for worker in seen.workers if worker.lost is None):
            total, used = worker.memory_total or 0, worker.memory_used or 0
            answer.gpus.add(
                ordinal=ordinal, name=worker.device, vram_total_bytes=total, vram_free_bytes=max(0, total - used)
            )
        for key in (key for key in seen.keys if key.workers):
            hot = number_of("SRSStatus.Tier", "HOT")
            answer.loaded_srs.add(circuit_id=circuit_id(key.title), tier=hot, size_bytes=key.bytes, ref_count=key.jobs)
        counted = Counter((_kind(view), view.state) for view in waiting)
        for kind in [*KINDS, *(["OTHER"] if any(own == "OTHER" for own, _ in counted) else [])]:
            pending, running = counted[kind, JobState.QUEUED], counted[kind, JobState.RUNNING]
            answer.queues.add(proof_kind=kind, pending=pending, in_progress=running)
        return answer

    def preload(self, request: Any, wanted: Callable[[], bool] = lambda: True) -> Any:
        """PreloadSRS: a key, once it is loaded. Raises what keeps it from that, QueueFull if WAITING calls wait
        already, ServiceGone if the engine stops or `wanted` says no; then the service goes on with it."""
        key = key_request(self._keys, request.circuit_id)
        if not self._waits.acquire(blocking=False):
            raise QueueFull(f"{WAITING} calls wait already; ask again later", patience.CUZK_SLICE)
        began = time.monotonic()
        try:
            with self._connect() as client:
                told = client.load_key(key, wanted=lambda: wanted() and not self.stopping.is_set())
        finally:
            self._waits.release()
        if not told.loaded:
            raise ServiceGone("the client has gone, or this server ends")
        took = 0 if told.already else _milliseconds(time.monotonic() - began)
        return MESSAGES["PreloadSrsResponse"](already_loaded=told.already, load_time_ms=took)

    def evict(self, request: Any) -> Any:
        """EvictSRS. Raises InUse for a key that a job uses, or that is being loaded."""
        with self._connect() as client:
            told = client.evict_key(key_request(self._keys, request.circuit_id))
        return MESSAGES["EvictSrsResponse"](was_loaded=told.was_loaded, freed_bytes=told.bytes)

    def metrics(self, request: Any) -> Any:
        """GetMetrics."""
        with self._connect() as client:
            return MESSAGES["GetMetricsResponse"](prometheus_text=client.metrics())

    # -- the spool --------------------------------------------------------------------------------------------------

    def _remove(self, id: str) -> None:
        """Remove the vanilla proofs of a job that is over."""
        for path in self._spool.iterdir():
            found = _FILE.fullmatch(path.name)
            if found is not None and found["id"] == id:
                path.unlink(missing_ok=True)

    def sweep_until(self, over: Event) -> None:
        """Sweep now and then, until `over` is set."""
        while not over.wait(patience.CUZK_SWEEP):
            with suppress(DistproveError, OSError):  # the service may be starting anew
                self.sweep()

    def sweep(self) -> None:
        """Remove the vanilla proofs of jobs that are over or unknown. Raises ServiceGone without an answer."""
        with self._connect() as client:
            for path in sorted(self._spool.iterdir()):
                found = _FILE.fullmatch(path.name)
                try:
                    old = found is not None and path.stat().st_mtime < time.time() - patience.CUZK_NEW
                except FileNotFoundError:
                    continue
                if found is None or not old:
                    continue
                try:
                    over = client.status(found["id"]).state.final
                except NoSuchJob:
                    over = True
                if over:
                    path.unlink(missing_ok=True)


def _base(request_id: str) -> str:
    """The id of a request's first job: the request's own where it can be one, and else made of it."""
    fit = re.sub(r"[^A-Za-z0-9._-]", "-", request_id)[:70].lstrip("._-")
    if not request_id:
        return uuid.uuid4().hex
    if fit == request_id:
        return fit
    return f"{fit or 'job'}-{hashlib.blake2b(request_id.encode(), digest_size=6).hexdigest()}"


def _kind(view: JobView) -> str:
    kind = view.title.removeprefix(_TITLE) if view.title.startswith(_TITLE) else ""
    return kind if kind in KINDS else "OTHER"


def _time(answer: Any, client: Client, view: JobView) -> None:
    """Put the times of a job that is over into the answer."""
    started, ended = view.started or view.ended or view.submitted, view.ended or view.submitted
    answer.queue_wait_ms = _milliseconds(started - view.submitted)
    answer.total_ms = _milliseconds(ended - view.submitted)
    if view.state is not JobState.PROVED:
        return
    partitions = client.report(view.id).get("partitions", [])
    answer.synthesis_ms = _milliseconds(sum(each.get("synthesise_seconds") or 0.0 for each in partitions))
    answer.gpu_compute_ms = _milliseconds(sum(each.get("prove_seconds") or 0.0 for each in partitions))


def _milliseconds(seconds: float) -> int:
    return max(0, round(1000 * seconds))
