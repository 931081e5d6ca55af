"""cuzk's `ProvingEngine` on top of a service: each request becomes a job, each answer is read from it.

    SubmitProof, AwaitProof, Prove, CancelProof      a job, its end, both, and its cancellation
    GetStatus, GetMetrics                            the service at a glance, and its metrics
    PreloadSRS, EvictSRS                             not here: a key comes with its first job, and goes for need of room

A job has the request's id. One that failed, or that was of other vanilla proofs, leaves its id, and the next request of
that id gets another with a number. Files of vanilla proofs lie in a folder of their own until their jobs are over.
"""

from __future__ import annotations

import re
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from cluster.service.client import Client
from cluster.service.cuzk.messages import MESSAGES, number_of
from cluster.service.cuzk.requests import KINDS, Asked, key_in, read_request
from cluster.service.views import JobRequest, JobState, JobView
from distprove.errors import DistproveError, IdTaken, InvalidProof, NoSuchJob
from distprove.filecoin.verifier import snark
from distprove.formats.files import replacing
from distprove.proof import Proof

TRIES = 100
"""Jobs of one request id, at most."""
_STATUS = {
    JobState.PROVED: "COMPLETED",
    JobState.FAILED: "FAILED",
    JobState.CANCELLED: "CANCELLED",
}


@dataclass(frozen=True)
class _Known:
    """A job that was submitted here."""

    kind: str
    file: Path
    """Its vanilla proofs."""
    commitments: dict[str, str]
    """What its proof must state (`Asked.commitments`)."""


class Engine:
    """Answers the methods of `ProvingEngine`. Any thread may call. Methods raise DistproveError."""

    def __init__(self, connect: Callable[[], Client], keys: Path, spool: Path) -> None:
        """`connect` makes a client of the service; `keys` is the folder of proving keys, `spool` that of the files of
        vanilla proofs, which is this user's alone and which the service may read."""
        self._connect = connect
        self._keys = keys
        self._spool = spool
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        """Jobs that are not known to be over, by id."""

    def submit(self, request: Any) -> Any:
        """SubmitProof. Raises what makes a request no job here."""
        asked = read_request(request)
        base = re.sub(r"[^A-Za-z0-9._-]", "-", request.request_id)[:80].lstrip("._-") or uuid.uuid4().hex
        path = self._spool / f"{base}-{asked.name}.json"
        key = key_in(self._keys, asked.circuit)
        if not path.exists():  # the job of an equal request reads it
            with replacing(path, 0o600) as file:
                file.write(asked.vanilla)
        job = {"system": "filecoin", **key, **asked.settings, asked.file: str(path)}
        with self._connect() as client:
            view = self._submitted(client, base, job, asked)
        with self._lock:
            self._known[view.id] = _Known(asked.kind, path, asked.commitments)
        return MESSAGES["SubmitProofResponse"](job_id=view.id, queue_position=view.place or 0)

    def _submitted(self, client: Client, base: str, job: dict[str, Any], asked: Asked) -> JobView:
        """The job of a request: the one that has it already, unless that failed, or a new one."""
        for number in range(1, TRIES + 1):
            id = base if number == 1 else f"{base}-{number}"
            try:
                view = client.submit(JobRequest(id, job, priority=asked.priority))
            except IdTaken:
                continue
            if view.state not in (JobState.FAILED, JobState.CANCELLED):
                return view
        raise IdTaken(f"{TRIES} jobs of the request {base} failed, or were other ones")

    def wait(self, request: Any) -> Any:
        """AwaitProof: what came of a job, or TIMEOUT."""
        answer = MESSAGES["AwaitProofResponse"](job_id=request.job_id)
        with self._connect() as client:
            try:
                view = client.wait(request.job_id, request.timeout_ms / 1000 if request.timeout_ms else None)
            except NoSuchJob as error:
                answer.error_message = str(error)
                return answer
            if not view.state.final:
                answer.status = number_of("AwaitProofResponse.Status", "TIMEOUT")
                return answer
            answer.status = number_of("AwaitProofResponse.Status", _STATUS[view.state])
            answer.error_message = view.error or ""
            if view.state is JobState.PROVED:
                try:
                    answer.proof = self._proof(client, view.id)
                except DistproveError as error:
                    answer.status = number_of("AwaitProofResponse.Status", "FAILED")
                    answer.error_message = str(error)
            _time(answer, client, view)
        self._over(view.id)
        return answer

    def _proof(self, client: Client, id: str) -> bytes:
        """The bytes of a job's proof. Raises InvalidProof for one of other commitments than were asked for."""
        with TemporaryDirectory() as folder:
            proof = Proof.read_from(client.proof(id, Path(folder) / "proof.msgpack"))
        stated = proof.verification_key["statement"]
        with self._lock:
            known = self._known.get(id)
        for name, value in (known.commitments if known is not None else {}).items():
            if bytes(stated[name]).hex() != value:
                raise InvalidProof(f"the vanilla proofs are of another {name} than the request")
        return snark(proof.partitions)

    def prove(self, request: Any) -> Any:
        """Prove: SubmitProof, then AwaitProof."""
        made = self.submit(request.submit)
        return MESSAGES["ProveResponse"](result=self.wait(MESSAGES["AwaitProofRequest"](job_id=made.job_id)))

    def cancel(self, request: Any) -> Any:
        """CancelProof."""
        with self._connect() as client:
            before = client.status(request.job_id)
            client.cancel(request.job_id)
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
        for key in seen.keys:
            hot = number_of("SRSStatus.Tier", "HOT")
            answer.loaded_srs.add(circuit_id=key.title, tier=hot, size_bytes=key.bytes, ref_count=key.jobs)
        with self._lock:
            kinds = {id: known.kind for id, known in self._known.items()}
        counted = Counter((kinds.get(view.id, ""), view.state) for view in waiting)
        for kind in [*KINDS, *([""] if any(not own for own, _ in counted) else [])]:
            pending, running = counted[kind, JobState.QUEUED], counted[kind, JobState.RUNNING]
            answer.queues.add(proof_kind=kind or "OTHER", pending=pending, in_progress=running)
        return answer

    def metrics(self, request: Any) -> Any:
        """GetMetrics."""
        with self._connect() as client:
            return MESSAGES["GetMetricsResponse"](prometheus_text=client.metrics())

    def _over(self, id: str) -> None:
        """A job is over: its vanilla proofs are not needed any more."""
        with self._lock:
            known = self._known.pop(id, None)
            if known is not None and known.file not in [other.file for other in self._known.values()]:
                known.file.unlink(missing_ok=True)


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
