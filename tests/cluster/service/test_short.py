"""Short jobs, which have no driver: each is a job of its own in all that anybody sees of it."""

from __future__ import annotations

import gc
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import distprove.registry as registry
from actors.protocol import Batch
from actors.worker import Worker
from cluster.record.journal import read_journal
from cluster.record.run import read_proof, take_lock
from cluster.record.story import read_report
from cluster.record.timeline import read_timeline
from cluster.scheduler.events import Ended
from cluster.scheduler.resident import why_invalid
from cluster.service.requests import Limits, digest_of, job_of
from cluster.service.service import LIGHT, RUNS, Service
from cluster.service.short import ShortJobs, short
from cluster.service.systems import Known
from cluster.service.views import JobRequest, JobState
from cluster.service.writer import LOCK, Writer, WriterBeside
from cluster.session import resume_job
from distprove.errors import InputError, InUse, ResourceError
from distprove.formats.folder import Folder
from distprove.job import Job
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from distprove.system import DeviceTask
from tests.support.await_end import await_end
from tests.support.instant_fleet import InstantSlot, instant_scheduler
from tests.support.scraped import samples
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

SETTINGS = ExecutorSettings(local=True, isolate=False, threads=2, backend=TOY_BACKEND, in_flight=8)
PATIENCE = 180.0
MODULE = "cluster.service.service"
SHORT = [f"short-{index}" for index in range(5)]


@dataclass
class Place:
    """A service whose short jobs are proven when they are let."""

    folder: Path
    stack: ExitStack
    let_short: threading.Event = field(default_factory=threading.Event)
    reached: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Counts short jobs that are with a worker."""
    proven: Counter[str] = field(default_factory=Counter)
    """Short jobs, how often they were proven."""

    def __call__(self, job: str, name: str) -> None:
        if job in SHORT:
            self.proven[job] += 1
            self.reached.release()
            assert self.let_short.wait(PATIENCE)

    def open(self, *, writer: Any = None, **limits: Any) -> Service:
        instant: Any = lambda settings: instant_scheduler(settings, self, most=len(SHORT))  # noqa: E731
        service = Service(self.folder / "service", SETTINGS, Limits(**limits), instant, writer)
        self.stack.callback(self.close, service)
        service.start()
        return service

    def close(self, service: Service) -> None:
        self.let_short.set()
        if service._accepting:
            service.close(drain=False)

    def ask(self, id: str) -> JobRequest:
        return JobRequest(id, {"system": "toy", "folder": str(self.folder), "count": 1})

    def warm(self, service: Service) -> None:
        """Have the key loaded, so that jobs are short."""
        service.submit(self.ask("before"))
        assert await_end(service, "before", PATIENCE).state is JobState.PROVED

    def begin(self, service: Service) -> None:
        """Have the short jobs begin, until they are with the worker."""
        self.warm(service)
        service.submit_all([self.ask(id) for id in SHORT])
        self.reach()

    def reach(self, count: int = len(SHORT)) -> None:
        for _ in range(count):
            assert self.reached.acquire(timeout=PATIENCE)

    def run(self, id: str) -> Path:
        return self.folder / "service" / RUNS / id


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setitem(registry.SYSTEMS, "toy", "tests.support.toy_entry")
    with ExitStack() as stack:
        yield Place(tmp_path.resolve(), stack)


def system(place: Place) -> ToySystem:
    return ToySystem(1, Faults(place.folder))


def told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the worker tell of all short jobs at once, so that they are verified, and kept, together."""
    real, told = InstantSlot._batch, list[bool]()

    def batch(self: InstantSlot, timeout: float) -> Batch:
        found = real(self, timeout)
        while not told and found.outcomes and found.outcomes[0].id.job in SHORT and len(found.outcomes) < len(SHORT):
            found.outcomes += real(self, PATIENCE).outcomes
        told.extend([True] * any(outcome.id.job in SHORT for outcome in found.outcomes))
        return found

    monkeypatch.setattr(InstantSlot, "_batch", batch)


def test_jobs_that_are_proven_together_have_runs_of_their_own(place: Place) -> None:
    service = place.open()
    place.begin(service)
    place.let_short.set()
    views = [await_end(service, id, PATIENCE) for id in SHORT]
    assert place.proven == dict.fromkeys(SHORT, 1)
    assert {(v.state, v.partitions, v.done, v.exit_code, v.attempts, v.cold) for v in views} == {
        (JobState.PROVED, 1, 1, 0, 1, False)
    }
    assert service.overview().partitions == len(SHORT) + 1
    service.close(drain=True)
    for view in views:
        run = Path(view.run)
        proof = read_proof(run)
        proof.verify(system(place))
        assert [p.name for p in proof.partitions] == ["p0"]
        report = read_report(run)
        assert (report["status"], report["job_digest"]) == ("proved", proof.job_digest.hex())
        assert [(p["name"], p["status"], p["attempts"]) for p in report["partitions"]] == [("p0", "proved", 1)]
        assert {(w["id"], w["partitions"]) for w in report["workers"]} == {("prover-0", 1), ("synthesiser-0", 1)}
        (session,) = read_timeline(run)
        assert {(s.partition, s.stage) for s in session.spans if s.partition} == {
            ("p0", "synthesise"),
            ("p0", "prove"),
            ("p0", "verify"),
        }
        events = [(event["event"], event.get("partition")) for event in read_journal(run)]
        assert events[0] == ("session", None)
        assert events[-2:] == [("proved", "p0"), ("proved", None)]
        assert not any(id in text.read_text() for text in run.glob("*.jsonl") for id in SHORT)
    # It is resumed as any other, with nothing left to do, and its proof is the one that it had.
    before = (place.run(SHORT[0]) / PROOF_FILE).read_bytes()
    resume_job(place.run(SHORT[0]), settings=SETTINGS)
    assert (place.run(SHORT[0]) / PROOF_FILE).read_bytes() == before
    assert read_report(place.run(SHORT[0]))["partitions"][0]["status"] == "resumed"


def test_the_run_of_a_short_job_has_what_that_of_another_one_has(place: Place) -> None:
    """Field by field, but for what takes another time."""
    service = place.open()
    place.let_short.set()
    place.warm(service)
    own = place.ask("own")
    service.submit(replace(own, job={**own.job, "whole": True}))
    service.submit(place.ask("short"))
    for id in ("own", "short"):
        assert await_end(service, id, PATIENCE).state is JobState.PROVED
    assert [(place.run(id) / "lock").exists() for id in ("own", "short")] == [True, False]
    service.close(drain=True)

    def facts(value: Any) -> Any:
        """What a document tells, without numbers that are measured, and with names in their order."""
        if isinstance(value, dict):
            return {name: facts(each) for name, each in value.items()}
        if isinstance(value, list):
            return [facts(each) for each in value]
        return type(value).__name__ if isinstance(value, float) else value

    own_report, report = (facts(read_report(place.run(id))) for id in ("own", "short"))
    for measured in ("driver_memory", "began"):
        own_report.pop(measured, None), report.pop(measured, None)
    assert report == own_report
    (own_session,), (session,) = (read_timeline(place.run(id)) for id in ("own", "short"))
    spans, own_spans = (
        Counter((s.worker, s.partition, s.stage, s.attempt) for s in each.spans) for each in (session, own_session)
    )
    assert spans == own_spans
    own_events, events = ([facts(each) for each in read_journal(place.run(id))] for id in ("own", "short"))
    assert [(e["event"], sorted(e)) for e in events] == [(e["event"], sorted(e)) for e in own_events]


def test_a_job_that_is_cancelled_while_it_is_found_to_be_short_is_not_proven(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = place.open()
    place.warm(service)
    looking, look_on = threading.Event(), threading.Event()

    def looked(id: str, *rest: Any) -> Any:
        looking.set()
        assert look_on.wait(PATIENCE)
        return short(id, *rest)

    monkeypatch.setattr(f"{MODULE}.short", looked)
    service.submit_all([place.ask(id) for id in "abcdefgh"])
    assert looking.wait(PATIENCE)
    assert service.cancel("a").cancelling
    look_on.set()
    ends = [await_end(service, id, PATIENCE).state for id in "abcdefgh"]
    assert ends == [JobState.CANCELLED, *[JobState.PROVED] * 7]


def test_what_goes_wrong_while_short_jobs_are_found_stops_no_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was not foreseen ended the look for good: no job began any more, and the service did not end."""
    service = place.open()
    place.warm(service)

    def looked(id: str, *rest: Any) -> Any:
        if id == "first":
            raise MemoryError
        return short(id, *rest)

    monkeypatch.setattr(f"{MODULE}.short", looked)
    for id in ("first", "second"):
        service.submit(place.ask(id))
        assert await_end(service, id, PATIENCE).state is JobState.PROVED


def test_submissions_wait_while_jobs_that_begin_are_looked_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else these would wait for the interpreter behind each of them, and workers for these."""
    service = place.open()
    place.warm(service)
    looking, look_on, asked, read = (threading.Event() for _ in range(4))

    def looked(id: str, *rest: Any) -> Any:
        looking.set()
        assert look_on.wait(PATIENCE)
        return short(id, *rest)

    def digest(request: JobRequest, *rest: Any) -> bytes:
        asked.set()
        return digest_of(request, *rest)

    def job(request: JobRequest, *rest: Any) -> Job:
        read.set()
        return job_of(request, *rest)

    monkeypatch.setattr(f"{MODULE}.short", looked)
    service.submit(place.ask("first"))
    assert looking.wait(PATIENCE)
    monkeypatch.setattr("actors.patience.SERVICE_POLITE", PATIENCE)
    monkeypatch.setattr(f"{MODULE}.digest_of", digest)
    monkeypatch.setattr(f"{MODULE}.job_of", job)
    submitter = threading.Thread(target=lambda: service.submit(place.ask("second")))
    submitter.start()
    assert asked.wait(PATIENCE)
    assert not read.wait(0.2)
    look_on.set()
    submitter.join(PATIENCE)
    assert read.is_set()
    for id in ("first", "second"):
        assert await_end(service, id, PATIENCE).state is JobState.PROVED


def test_a_job_that_asks_for_an_aggregate_is_not_a_short_one(place: Place) -> None:
    class Aggregating(ToySystem):
        wanted = False

        def aggregates(self) -> bool:
            return self.wanted

        def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
            return ("aggregate", b"") if self.wanted else None

    made = Aggregating(1, Faults(place.folder))
    job = Job.from_options("toy", folder=str(place.folder), executor=SETTINGS)
    found = []
    for made.wanted in (False, True):
        found.append(short("one", Known(made, "key", {}, {}), job, {}, place.run("one")))
    assert found[0] is not None
    assert found[1] is None


class Unaggregated(ToySystem):
    """Wants an aggregate of one job, and has none."""

    def aggregates(self) -> bool:
        return [source.path.name for source in self.sources] == [SHORT[2]]

    def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
        if self.aggregates():
            raise InputError("the aggregation keys are gone")
        return None


def test_a_job_that_cannot_be_aggregated_fails_with_its_reason_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.toy_entry.ToySystem", Unaggregated)
    whole = place.ask

    def ask(id: str) -> JobRequest:
        (place.folder / id).write_text("an input")
        return JobRequest(id, {**whole(id).job, "input": id}, str(place.folder))

    monkeypatch.setattr(place, "ask", ask)
    service = place.open()
    place.begin(service)
    place.let_short.set()
    views = {id: await_end(service, id, PATIENCE) for id in SHORT}
    failed = views.pop(SHORT[2])
    assert (failed.state, failed.error_kind) == (JobState.FAILED, "InputError")
    assert "the aggregation keys are gone" in str(failed.error)
    assert {view.state for view in views.values()} == {JobState.PROVED}
    assert place.proven == dict.fromkeys(SHORT, 1), "once each"
    assert [id for id in SHORT if (place.run(id) / "lock").exists()] == [SHORT[2]]


def test_a_process_writes_their_runs_as_the_service_does(place: Place) -> None:
    service = place.open(writer=WriterBeside)
    place.begin(service)
    place.let_short.set()
    assert {await_end(service, id, PATIENCE).state for id in SHORT} == {JobState.PROVED}
    service.close(drain=True)
    for id in SHORT:
        run = place.run(id)
        assert not (run / "lock").exists(), "it was proven together with the others"
        read_proof(run).verify(system(place))
        assert read_report(run)["status"] == "proved"
        assert [event["event"] for event in read_journal(run)][-2:] == ["proved", "proved"]
        (session,) = read_timeline(run)
        assert {s.stage for s in session.spans if s.partition == "p0"} == {"synthesise", "prove", "verify"}
        resume_job(run, settings=SETTINGS)


def test_a_writer_that_dies_costs_no_job(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The jobs that it was at are done again, by themselves, and another writer is started for the next ones."""
    service = place.open(writer=WriterBeside)
    real, deaths, first = WriterBeside.add, list[int](), threading.Semaphore()

    def dies(self: WriterBeside, common: Any, proven: Any) -> list[bytes]:
        if first.acquire(blocking=False):  # several threads write where the jobs were not proven at once
            self._process.start()
            child = self._process._living()
            deaths.append(child._process.pid)
            child._process.kill()
        return real(self, common, proven)

    monkeypatch.setattr(WriterBeside, "add", dies)
    place.begin(service)
    place.let_short.set()
    assert {await_end(service, id, PATIENCE).state for id in SHORT} == {JobState.PROVED}
    assert len(deaths) == 1
    for id in SHORT:
        read_proof(place.run(id)).verify(system(place))
    service.close(drain=True)


def test_a_writer_that_could_not_serve_is_started_again(tmp_path: Path) -> None:
    held = take_lock(Folder.open_ours(tmp_path), LOCK)
    writer = WriterBeside(tmp_path)
    try:
        for _ in range(2):
            with pytest.raises(ResourceError, match="the runs could not be written"):
                writer._serve()
        held.close()
        writer._serve()
        assert writer._process.call(Writer.add, None, []) == []
    finally:
        writer.close()


def test_a_service_waits_for_the_writer_of_the_one_before_it(place: Place) -> None:
    place.open().close(drain=True)
    held = take_lock(Folder.open_ours(place.folder / "service"), LOCK)
    opened: list[Service] = []
    opening = threading.Thread(target=lambda: opened.append(place.open()))
    opening.start()
    opening.join(0.3)
    assert not opened, "a run may still appear"
    held.close()
    opening.join(PATIENCE)
    assert opened


def test_a_writer_that_does_not_end_is_told_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.patience.SERVICE_WRITER", 0.0)
    place.open().close(drain=True)
    held = take_lock(Folder.open_ours(place.folder / "service"), LOCK)
    with pytest.raises(InUse, match="in use by process"):
        place.open()
    held.close()
    place.open()


def test_of_proofs_that_are_verified_together_a_bad_one_alone_does_not_count(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = InstantSlot.call

    def call(self: InstantSlot, verb: Any, *arguments: Any, **named: Any) -> Any:
        found = real(self, verb, *arguments, **named)
        if verb is Worker.load:
            prove = self.prover.prove_partition

            def lying(partition: Any, *more: Any) -> Any:
                proof, times = prove(partition, *more)
                if partition.job == SHORT[1] and place.proven[SHORT[1]] == 1:
                    proof = replace(proof, public=(proof.public[0] + 1, *proof.public[1:]))
                if partition.job == SHORT[3] and place.proven[SHORT[3]] == 1:
                    proof = replace(proof, name="other")
                return proof, times

            monkeypatch.setattr(self.prover, "prove_partition", lying, raising=False)
        return found

    monkeypatch.setattr(InstantSlot, "call", call)
    told_together(monkeypatch)
    verified: list[int] = []
    real_reasons = why_invalid
    monkeypatch.setattr(
        "cluster.scheduler.resident.why_invalid",
        lambda verifies, proofs: (verified.append(len(proofs)), real_reasons(verifies, proofs))[1],
    )
    kept: list[str] = []
    real_keep = Service._keep
    monkeypatch.setattr(
        Service,
        "_keep",
        lambda self, common, proven, jobs: (
            kept.extend(each.id for each in proven) or real_keep(self, common, proven, jobs)
        ),
    )
    service = place.open()
    place.begin(service)
    place.let_short.set()
    views = [await_end(service, id, PATIENCE) for id in SHORT]
    assert len(SHORT) - 1 in verified, "of the other one it was seen that the proof is of no partition of its"
    assert sorted(kept) == [SHORT[0], SHORT[2], SHORT[4]]
    for view in views:  # the others had drivers of their own
        assert view.state is JobState.PROVED
        read_proof(Path(view.run)).verify(system(place))
    assert [(place.run(id) / "lock").exists() for id in SHORT] == [False, True, False, True, False]
    told = samples(service.metrics.text())
    assert told["distprove_trouble_total", ("bad_proofs",)] == 2, "once, and not for each job of the group"
    assert told["distprove_run_partitions_total", ("proved", "toy")] == len(SHORT) + 1


def test_one_of_them_is_cancelled_and_the_others_are_proven(place: Place) -> None:
    service = place.open()
    place.begin(service)
    cancelled = service.cancel(SHORT[4])
    assert (cancelled.state, cancelled.exit_code) == (JobState.CANCELLED, 130)
    place.let_short.set()
    assert [await_end(service, id, PATIENCE).state for id in SHORT[:4]] == [JobState.PROVED] * 4
    service.close(drain=True)
    assert service.job(SHORT[4]) == cancelled
    assert not place.run(SHORT[4]).exists()
    again = place.open()
    assert again.job(SHORT[4]) == cancelled
    assert again.overview().counts == {"queued": 0, "running": 0, "proved": 5, "failed": 0, "cancelled": 1}


def stalled(monkeypatch: pytest.MonkeyPatch, fails: int = 0) -> tuple[threading.Event, threading.Event]:
    """Has the first runs wait to be written; the first ones that are cannot be, so many times. Events: it is at it; it
    may go on."""
    real, at_it, go_on, calls = Writer.add, threading.Event(), threading.Event(), itertools.count()

    def add(self: Writer, common: Any, proven: Any) -> list[bytes]:
        call = next(calls)  # they may come side by side
        at_it.set()
        assert go_on.wait(PATIENCE)
        if call < fails:
            raise ResourceError("the disk is full")
        return real(self, common, proven)

    monkeypatch.setattr(Writer, "add", add)
    return at_it, go_on


def counted(service: Service) -> tuple[int, int]:
    """Places that are taken, by jobs and by short ones; none once all are over."""
    return service._running.total(), service._light.total()


@pytest.mark.parametrize("fails", [0, 1])
def test_one_that_is_cancelled_while_it_is_kept_is_what_comes_of_that(
    fails: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its run cannot be written, it is cancelled; else it was over first."""
    service = place.open()
    place.warm(service)
    at_it, go_on = stalled(monkeypatch, fails)
    place.let_short.set()
    service.submit(place.ask(SHORT[0]))
    assert at_it.wait(PATIENCE)
    if fails:  # it stays at its driver's
        place.let_short.clear()
    told: list[JobState] = []
    cancelling = threading.Thread(target=lambda: told.append(service.cancel(SHORT[0]).state))
    cancelling.start()
    cancelling.join(0.2)
    assert not told, "nobody knows yet"
    go_on.set()
    cancelling.join(PATIENCE)
    assert told in ([[JobState.RUNNING], [JobState.CANCELLED]] if fails else [[JobState.PROVED]])
    place.let_short.set()
    ends = await_end(service, SHORT[0], PATIENCE).state
    assert ends is (JobState.CANCELLED if fails else JobState.PROVED)
    service.close(drain=True)
    assert counted(service) == (0, 0)
    assert place.open().job(SHORT[0]).state is ends


def test_one_that_is_cancelled_before_it_is_kept_costs_the_others_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were to be kept together with it could not be, and were proven again."""
    real, at_it, go_on = ShortJobs.keep, threading.Event(), threading.Event()

    def keep(self: ShortJobs, proofs: Any) -> None:
        at_it.set()
        assert go_on.wait(PATIENCE)
        real(self, proofs)

    told_together(monkeypatch)
    monkeypatch.setattr(ShortJobs, "keep", keep)
    service = place.open()
    place.begin(service)
    place.let_short.set()
    assert at_it.wait(PATIENCE)
    assert service.cancel(SHORT[1]).state is JobState.CANCELLED
    while SHORT[1] in service._shorts._shorts:  # the scheduler knows
        time.sleep(0.001)
    go_on.set()
    ends = [await_end(service, id, PATIENCE).state for id in SHORT]
    assert ends == [JobState.CANCELLED if id == SHORT[1] else JobState.PROVED for id in SHORT]
    assert place.proven == dict.fromkeys(SHORT, 1)
    assert not any((place.run(id) / "lock").exists() for id in SHORT)
    assert not place.run(SHORT[1]).exists()
    service.close(drain=True)
    assert counted(service) == (0, 0)


@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize("moment", ["before", "amid"])
def test_a_service_that_stops_while_they_are_kept_ends_and_goes_on(
    moment: str, fails: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`before`: it has the scheduler stop them a moment before they are to be kept, and hears of that while they are.
    Their places were given back twice, and the service did not end."""
    service = place.open()
    place.warm(service)
    at_it, go_on = stalled(monkeypatch, fails)
    add, written = Writer.add, set[str]()
    real, enters, enter = ShortJobs.keep, threading.Event(), threading.Event()

    def noted(self: Writer, common: Any, proven: Any) -> list[bytes]:
        found = add(self, common, proven)
        written.update(each.id for each in proven)
        return found

    def keep(self: ShortJobs, proofs: Any) -> None:
        enters.set()
        assert enter.wait(PATIENCE)
        real(self, proofs)

    ended = ShortJobs.take

    def take(self: ShortJobs, effects: Any) -> None:
        if moment == "before" and any(isinstance(effect, Ended) for effect in effects):
            assert at_it.wait(PATIENCE)
        ended(self, effects)

    monkeypatch.setattr(Writer, "add", noted)
    monkeypatch.setattr(ShortJobs, "keep", keep)
    monkeypatch.setattr(ShortJobs, "take", take)
    service.submit_all([place.ask(id) for id in SHORT])
    place.let_short.set()
    assert enters.wait(PATIENCE)
    if moment == "amid":
        enter.set()
        assert at_it.wait(PATIENCE)
    ending = threading.Thread(target=service.close, kwargs={"drain": False})
    ending.start()
    while not service._stopping:
        time.sleep(0.001)
    with service._lock:  # it has told the scheduler
        enter.set()
    if moment == "before":
        assert at_it.wait(PATIENCE)
        late = time.monotonic() + PATIENCE
        while service._shorts._shorts:
            assert time.monotonic() < late
            time.sleep(0.001)
    go_on.set()
    ending.join(PATIENCE)
    assert not ending.is_alive()
    assert counted(service) == (0, 0)
    kept = set(written)  # they are verified, and kept, in a batch or several
    assert kept < set(SHORT) if fails else kept
    again = place.open()
    assert [await_end(again, id, PATIENCE).state for id in SHORT] == [JobState.PROVED] * len(SHORT)
    assert all(place.proven[id] == 1 if id in kept else place.proven[id] in (1, 2) for id in SHORT)


def test_the_id_of_a_short_job_is_free_once_the_scheduler_is_done_with_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the scheduler tells of a job that is forgotten would be taken for another one's of the same id."""
    real, told, go_on = ShortJobs.take, threading.Event(), threading.Event()

    def take(self: ShortJobs, effects: Any) -> None:
        if any(isinstance(effect, Ended) for effect in effects):
            told.set()
            assert go_on.wait(PATIENCE)
        real(self, effects)

    service = place.open(kept_seconds=0.0)
    place.warm(service)
    monkeypatch.setattr(ShortJobs, "take", take)
    service.submit(place.ask(SHORT[0]))
    place.reach(1)
    assert service.cancel(SHORT[0]).state is JobState.CANCELLED
    assert told.wait(PATIENCE)
    service.tidy()
    assert [view.id for view in service.jobs()] == [SHORT[0]]
    go_on.set()
    place.let_short.set()
    while service.jobs():
        service.tidy()
    service.submit(place.ask(SHORT[0]))
    assert await_end(service, SHORT[0], PATIENCE).state is JobState.PROVED
    read_proof(place.run(SHORT[0])).verify(system(place))


def test_several_short_jobs_take_the_place_of_one_until_they_are_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while their runs are written, when no worker is at them: else workers would wait for the disk."""
    service = place.open(running=2)
    place.warm(service)
    at_it, go_on = stalled(monkeypatch)
    for number in range(LIGHT):
        service.submit(place.ask(f"kept-{number}"))
    assert at_it.wait(PATIENCE)
    for id in SHORT:
        service.submit(place.ask(id))
    place.reach()
    assert {service.job(id).state for id in SHORT} == {JobState.RUNNING}
    service.submit_all([place.ask(f"more-{number}") for number in range(2 * LIGHT)])
    late = time.monotonic() + PATIENCE
    while counted(service) != (2 * LIGHT, 2 * LIGHT):
        assert time.monotonic() < late, counted(service)
        time.sleep(0.001)
    assert service.overview().queued == len(SHORT) + LIGHT
    go_on.set()
    place.let_short.set()
    for number in range(2 * LIGHT):
        assert await_end(service, f"more-{number}", PATIENCE).state is JobState.PROVED
    service.close(drain=True)
    assert counted(service) == (0, 0)


def test_short_jobs_that_come_when_the_workers_were_lost_have_others_started(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their drivers. What comes for the key meanwhile is told the same, after which a job is begun again."""
    real, errors = ShortJobs.take, list[BaseException | None]()

    def take(self: ShortJobs, effects: Any) -> None:
        errors.extend(effect.error for effect in effects if isinstance(effect, Ended))
        real(self, effects)

    service = place.open()
    place.warm(service)
    place.let_short.set()
    service._scheduler.fleet.lose("its head does not answer")
    monkeypatch.setattr(ShortJobs, "take", take)
    service.submit(place.ask(SHORT[0]))
    assert await_end(service, SHORT[0], PATIENCE).state is JobState.PROVED
    assert errors == [service._scheduler.lost]
    service.submit(place.ask(SHORT[1]))
    assert await_end(service, SHORT[1], PATIENCE).state is JobState.PROVED
    assert [(place.run(id) / "lock").exists() for id in SHORT[:2]] == [True, False]


def test_a_service_that_stops_amid_them_goes_on(place: Place) -> None:
    service = place.open()
    place.begin(service)
    ending = threading.Thread(target=service.close, kwargs={"drain": False})
    ending.start()
    while not service._stopping:
        time.sleep(0.001)
    with service._lock:
        place.let_short.set()
    ending.join(PATIENCE)
    assert not ending.is_alive()
    again = place.open()
    assert [await_end(again, id, PATIENCE).state for id in SHORT] == [JobState.PROVED] * len(SHORT)


def test_a_run_that_cannot_be_written_fails_its_job_and_no_other(place: Place) -> None:
    service = place.open()
    (place.run(SHORT[2])).mkdir()
    (place.run(SHORT[2]) / "other").touch()
    place.begin(service)
    place.let_short.set()
    states = {id: await_end(service, id, PATIENCE).state for id in SHORT}
    assert states == {**dict.fromkeys(SHORT, JobState.PROVED), SHORT[2]: JobState.FAILED}
    assert "not empty and not a run" in str(service.job(SHORT[2]).error)


def test_a_link_that_was_laid_after_submission_leads_none_of_them_out_of_the_roots(place: Place) -> None:
    """Jobs that are proven together are never with a driver of their own, which looks at their files, too."""
    inside, outside = place.folder / "inside", place.folder / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        for id in ("before", *SHORT):
            (folder / id).write_text("one" if folder is inside else "two")
    place.let_short.set()
    service = place.open(roots=(inside,))

    def submit(id: str) -> None:
        job = {"system": "toy", "folder": str(inside), "count": 1, "input": id}
        service.submit(JobRequest(id, job, str(inside)))

    submit("before")  # has the key loaded
    assert await_end(service, "before", PATIENCE).state is JobState.PROVED
    with service._lock:
        service._ended_one.wait_for(lambda: not service._sorting, PATIENCE)
        service._sorting = True  # they wait to be sorted, which this thread does for them
    for id in SHORT:
        submit(id)
    (inside / SHORT[1]).unlink()
    (inside / SHORT[1]).symlink_to(outside / SHORT[1])
    service._sort()
    views = {id: await_end(service, id, PATIENCE) for id in SHORT}
    led = views.pop(SHORT[1])
    assert (led.state, led.error_kind) == (JobState.FAILED, "UsageError")
    assert "a link leads to a file that is not in a folder that this service takes files from" in str(led.error)
    assert {view.state for view in views.values()} == {JobState.PROVED}
    assert place.proven == dict.fromkeys(views, 1), "together"


def test_what_a_power_cut_took_of_their_runs_is_there_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = place.folder / "boot"
    boot.write_text("first")
    monkeypatch.setattr("cluster.service.store.BOOT", boot)
    service = place.open()
    place.begin(service)
    place.let_short.set()
    proofs = {id: Path(await_end(service, id, PATIENCE).run).joinpath(PROOF_FILE).read_bytes() for id in SHORT}
    service.close(drain=True)
    for file in place.run(SHORT[0]).iterdir():  # nothing of these was synced
        file.unlink()
    place.run(SHORT[0]).rmdir()
    for name in (PROOF_FILE, "job.json"):
        (place.run(SHORT[1]) / name).write_bytes(b"")
    place.open().close(drain=True)
    assert not place.run(SHORT[0]).exists()  # the machine is the same, and so is what is in its memory
    boot.write_text("second")
    place.open().close(drain=True)
    assert {id: (place.run(id) / PROOF_FILE).read_bytes() for id in SHORT} == proofs
    for id in SHORT:
        read_proof(place.run(id)).verify(system(place))
        resume_job(place.run(id), settings=SETTINGS)
        assert (place.run(id) / PROOF_FILE).read_bytes() == proofs[id]


def test_what_a_kill_left_of_a_run_in_the_making_is_removed(place: Place) -> None:
    service = place.open()
    service.close(drain=True)
    left = place.run(".short-1.0123456789ab.tmp")
    left.mkdir()
    (left / "job.json").touch()
    place.open()
    assert not left.exists()


def test_jobs_that_are_over_leave_no_object_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.patience.SERVICE_TIDY", 1e6)
    place.let_short.set()
    service = place.open(kept=8)

    def objects() -> Counter[str]:
        gc.collect()
        found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.get_objects())
        return Counter({name: n for name, n in found.items() if name.startswith(("cluster.", "distprove.", "actors."))})

    def do(first: int) -> None:
        for number in range(first, first + 60):
            service.submit(place.ask(f"many-{number}"))
        for number in range(first, first + 60):
            assert await_end(service, f"many-{number}", PATIENCE).state is JobState.PROVED
        service.tidy()

    do(0)  # caches fill, threads begin
    do(100)
    before, late = objects(), time.monotonic() + PATIENCE
    do(200)
    do(300)
    while sum((grown := objects() - before).values()) >= 60:  # less than one for two jobs
        assert time.monotonic() < late, grown  # the last driver may be at its end
        time.sleep(0.01)
        service.tidy()  # of the last jobs the scheduler may not have told yet that their ids are free
