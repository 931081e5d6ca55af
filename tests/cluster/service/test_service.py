"""The standing service, on the toy system: what it promises, remembers, refuses and forgets."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import distprove.registry as registry
from actors.worker import Worker
from cluster.opening import open_scheduler
from cluster.record.journal import read_journal
from cluster.record.run import StoredRun
from cluster.record.story import read_report
from cluster.scheduler.loop import Client, Scheduler
from cluster.service import service as service_module
from cluster.service.requests import Limits, Looked, require_allowed_files
from cluster.service.service import RUNS, Service
from cluster.service.store import FILE
from cluster.service.systems import Systems
from cluster.service.views import JobRequest, JobState, Priority
from cluster.session import resume_job
from distprove.errors import (
    DistproveError,
    IdTaken,
    InputError,
    InUse,
    JobFailed,
    NoSuchJob,
    QueueFull,
    ResourceError,
    ServiceGone,
    UsageError,
)
from distprove.host.collector import collecting_seldom
from distprove.job import Job
from distprove.measure.campaign.service_kills import Campaign, make_key
from distprove.proof import PROOF_FILE, Proof
from distprove.settings import ExecutorSettings
from tests.support import riscv_asm as asm
from tests.support.await_end import await_end
from tests.support.circles import circles
from tests.support.instant_fleet import instant_scheduler
from tests.support.riscv_elf import code_file
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

SETTINGS = ExecutorSettings(local=True, isolate=False, threads=2, backend=TOY_BACKEND)
PATIENCE = 180.0
SECRET = "8271640355928173645"


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.SYSTEMS, "toy", "tests.support.toy_entry")


@dataclass
class Gate:
    """Partitions are proven one after the other as they are let; what was proven is counted."""

    is_open: threading.Event = field(default_factory=threading.Event)
    reached: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    proven: Counter[str] = field(default_factory=Counter)
    closed_at: Callable[[str, str], bool] = lambda job, name: True

    def __call__(self, job: str, name: str) -> None:
        if self.closed_at(job, name):
            self.reached.release()
            assert self.is_open.wait(PATIENCE)
        self.proven[f"{job}/{name}"] += 1


@dataclass
class Place:
    """A folder in which services come and go."""

    folder: Path
    stack: ExitStack
    gate: Gate = field(default_factory=Gate)

    def open(self, limits: Limits | None = None, *, scheduler: Any = None) -> Service:
        limits = limits or Limits(running=2, allow_code=True)
        instant: Any = lambda settings: instant_scheduler(settings, self.gate)  # noqa: E731
        service = Service(self.folder / "service", SETTINGS, limits, scheduler or instant)
        self.stack.callback(self.close, service)
        service.start()
        return service

    def close(self, service: Service) -> None:
        self.gate.is_open.set()
        if service._accepting:
            service.close(drain=False)

    def end(self, service: Service, *, drain: bool) -> None:
        """Close a service whose jobs stand at the gate, which opens once it has told them what to do."""
        ending = threading.Thread(target=service.close, kwargs={"drain": drain})
        ending.start()
        while not service._closing:
            time.sleep(0.001)
        with service._lock:
            self.gate.is_open.set()
        ending.join(PATIENCE)
        assert not ending.is_alive()

    def ask(self, id: str, count: int = 1, priority: Priority = Priority.NORMAL, **more: Any) -> JobRequest:
        job = {"system": "toy", "folder": str(self.folder), "count": count, "whole": True, **more.pop("job", {})}
        return JobRequest(id, job, priority=priority, **more)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path.resolve(), stack)


def reach(place: Place, count: int = 1) -> None:
    """Wait until partitions stand at the gate."""
    for _ in range(count):
        assert place.gate.reached.acquire(timeout=PATIENCE)


def told_order(service: Service, ids: Sequence[str]) -> list[str]:
    """Jobs by their place in the queue."""
    places = {id: service.job(id).place for id in ids}
    assert None not in places.values()
    return sorted(places, key=lambda id: places[id] or 0)


def system(place: Place, count: int) -> ToySystem:
    return ToySystem(count, Faults(place.folder))


# -- jobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["lock", "link"])
def test_a_job_whose_run_would_replace_its_input_is_refused_when_it_is_submitted(place: Place, way: str) -> None:
    """A run may be made in a folder that holds no more than the lock and the copy of one that was begun."""
    out = place.folder / "run"
    out.mkdir()
    (out / "lock").write_text("what is mine")
    (place.folder / "link").symlink_to(out / "lock")
    file = str(out / "lock" if way == "lock" else place.folder / "link")
    table = {"system": "stark", "program": "file-root", "partitions": 1, "arguments": {"file": file}}
    service = place.open()
    with pytest.raises(UsageError, match="would be replaced"):
        service.submit(JobRequest("a", table, out=str(out)))
    assert (out / "lock").read_text() == "what is mine"


def test_jobs_are_proved_as_runs_by_workers_that_stay(place: Place) -> None:
    service = place.open(scheduler=open_scheduler)
    told: list[str] = []
    service.listeners.append(lambda view: told.append(view.state.value))
    for number in range(6):
        assert service.submit(place.ask(f"job-{number}", count=3)).id == f"job-{number}"
    views = [await_end(service, f"job-{number}", PATIENCE) for number in range(6)]
    assert [(view.state, view.done, view.partitions, view.attempts, view.exit_code) for view in views] == [
        (JobState.PROVED, 3, 3, 1, 0)
    ] * 6
    assert sorted(view.cold is True for view in views)[:4] == [False] * 4  # two may have come for it at once
    for view in views:
        assert view.started is not None
        assert view.first_proof is not None
        assert view.ended is not None
        assert view.submitted <= view.started <= view.first_proof <= view.ended
        Proof.read(service.proof(view.id)).verify(system(place, 3))
        assert read_report(Path(view.run))["chosen"] == "without Ray: asked for"
    assert Counter(told)["proved"] == 6
    seen = service.overview()
    assert (seen.counts["proved"], seen.partitions, seen.queued, seen.running) == (6, 18, 0, 0)
    assert [(key.system, key.workers, key.jobs) for key in seen.keys] == [("toy", 1, 0)]
    assert [view.id for view in service.jobs()] == [f"job-{number}" for number in reversed(range(6))]
    assert [view.id for view in service.jobs(JobState.PROVED, limit=2, before="job-4")] == ["job-3", "job-2"]
    assert service.jobs(JobState.FAILED) == []


def test_the_same_job_under_one_id_is_one_job_and_another_is_refused(place: Place) -> None:
    service = place.open()
    views: list[str] = []
    threads = [threading.Thread(target=lambda: views.append(service.submit(place.ask("a")).run)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    place.gate.is_open.set()
    await_end(service, "a", PATIENCE)
    assert len(views) == 8
    assert place.gate.proven == {"a/p0": 1}
    assert service.submit(place.ask("a", priority=Priority.LOW)).state is JobState.PROVED
    for other in (place.ask("a", count=2), place.ask("a", out=str(place.folder / "other"))):
        with pytest.raises(IdTaken):
            service.submit(other)
    service.close(drain=True)
    again = place.open()
    assert again.submit(place.ask("a")).attempts == 1
    with pytest.raises(IdTaken):
        again.submit(place.ask("a", count=2))


def test_a_job_that_fails_says_why_and_the_next_one_is_served(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service = place.open(scheduler=open_scheduler)
    service.submit(place.ask("bad", job={"folder": str(place.folder / "none"), "count": 100}))
    service.submit(place.ask("good"))
    assert await_end(service, "good", PATIENCE).state is JobState.PROVED
    with pytest.raises(UsageError, match="not empty and not a run"):
        service.submit(place.ask("taken", out=str(place.folder)))
    monkeypatch.setattr(service_module, "require_creatable", lambda out: None)  # as if files came to lie there later
    service.submit(place.ask("taken", out=str(place.folder)))
    failed = await_end(service, "taken", PATIENCE)
    assert (failed.state, failed.exit_code, failed.error_kind) == (JobState.FAILED, 2, "UsageError")
    assert "not empty and not a run" in str(failed.error)
    for read in (service.proof, service.output):
        with pytest.raises(InputError, match="has no proof"):
            read("taken")
    with pytest.raises(InputError, match="good has no output"):
        service.output("good")
    assert {"proof.msgpack", "report.json"} <= {each.name for each in service.files("good")}
    assert service.files("taken") == []
    for ask in (
        service.job,
        service.cancel,
        service.proof,
        service.output,
        service.files,
        service.partitions,
        service.log,
        lambda id: await_end(service, id, 0.0),
    ):
        with pytest.raises(NoSuchJob):
            ask("unknown")


def test_a_job_whose_inputs_are_at_fault_says_so_by_its_exit_code(place: Place) -> None:
    """As `prove` ends, for which 2 says that trying again is useless."""
    service = place.open(scheduler=open_scheduler)
    service.submit(place.ask("bad", count=2, job={"bad_input": "p1"}))
    done = await_end(service, "bad", PATIENCE)
    assert (done.state, done.exit_code, done.error_kind) == (JobState.FAILED, 2, "JobFailed")


# -- order ------------------------------------------------------------------------------------------------------------


def test_the_most_urgent_begins_first_and_needs_no_place_of_a_less_urgent_one(place: Place) -> None:
    place.gate.closed_at = lambda job, name: job in ("first", "second")
    service = place.open(Limits(running=1, allow_code=True))
    begun: list[str] = []
    service.listeners.append(
        lambda view: view.state is JobState.RUNNING and view.id not in begun and begun.append(view.id)
    )
    service.submit(place.ask("first", priority=Priority.NORMAL))
    reach(place)
    for id, priority in (("d", Priority.LOW), ("b", Priority.NORMAL), ("c", Priority.NORMAL)):
        service.submit(place.ask(id, priority=priority))
    assert [service.job(id).place for id in "bcd"] == [0, 1, 2]
    assert service.submit(place.ask("second", priority=Priority.HIGH)).state is JobState.RUNNING
    reach(place)
    assert service.submit(place.ask("a", priority=Priority.HIGH)).place == 0
    assert service.submit(place.ask("now", priority=Priority.URGENT)).state is JobState.RUNNING
    assert await_end(service, "now", PATIENCE).state is JobState.PROVED
    place.gate.is_open.set()
    for id in "abcd":
        await_end(service, id, PATIENCE)
    assert begun == ["first", "second", "now", "a", "b", "c", "d"]


def test_one_job_of_each_client_begins_before_a_second_one_of_any(place: Place) -> None:
    """Who submits many at once does not have those that come later wait for them all, nor after a new start."""
    place.gate.closed_at = lambda job, name: job == "first"
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("first"))
    reach(place)
    fair = ["a0", "b0", "a1", "b1", "a2", "a3"]
    for id in sorted(fair):
        service.submit(place.ask(id), client=id[0])
    service.submit(place.ask("soon", priority=Priority.HIGH), client="a")
    assert service.job("soon").state is JobState.RUNNING
    assert told_order(service, fair) == fair
    place.end(service, drain=False)
    place.gate.is_open.clear()
    service = place.open(Limits(running=1, allow_code=True))
    reach(place)
    assert told_order(service, fair) == fair
    service.cancel("b0")
    service.submit(place.ask("c0"), client="c")  # begins where the others are
    assert told_order(service, ["c0", *fair[2:]]) == ["c0", *fair[2:]]
    place.gate.is_open.set()
    began = {id: await_end(service, id, PATIENCE).started or 0.0 for id in ("a0", "c0", *fair[2:])}
    assert sorted(began, key=began.__getitem__) == ["a0", "c0", *fair[2:]]


def test_jobs_submitted_together_are_taken_or_refused_one_by_one(place: Place) -> None:
    service = place.open(Limits(running=1, queued=5, allow_code=True))
    service.submit(place.ask("old", count=2))
    out = str(place.folder / "out")
    asked = [
        *(place.ask("a"), place.ask("a"), place.ask("a", count=3), place.ask("old", count=2), place.ask("old")),
        place.ask("bad", job={"count": 1000}),
        *(place.ask("b", out=out), place.ask("c", out=out)),
        *(place.ask(id) for id in ("d", "e", "f", "g")),
    ]
    told = service.submit_all(asked)
    kinds = [type(each).__name__ for each in told]
    taken, queued = "JobView", kinds[8:]
    assert kinds[:8] == [taken, taken, "IdTaken", taken, "IdTaken", "UsageError", taken, "UsageError"]
    assert queued == [taken, taken, taken, "QueueFull"]  # five may wait, and `old` runs
    ids = ["a", "b", "d", "e", "f", "old"]
    assert sorted(view.id for view in service.jobs()) == ids
    assert service.submit_all([]) == []
    place.gate.is_open.set()
    assert {await_end(service, id, PATIENCE).state for id in ids} == {JobState.PROVED}
    assert sum(place.gate.proven.values()) == 7  # each partition once


def test_clients_that_submit_the_same_jobs_together_at_once_submit_each_once(place: Place) -> None:
    service = place.open(Limits(running=64, allow_code=True))
    place.gate.is_open.set()
    asked = [place.ask(f"job-{number}") for number in range(40)]
    told: list[list[Any]] = []
    threads = [
        threading.Thread(target=lambda jobs: told.append(service.submit_all(jobs)), args=(jobs,))
        for jobs in (asked, asked[::-1], asked[20:] + asked[:20], asked + asked)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(len, told)) == [40, 40, 40, 80]
    assert not any(isinstance(each, DistproveError) for lot in told for each in lot)
    assert {await_end(service, each.id, PATIENCE).state for each in asked} == {JobState.PROVED}
    assert place.gate.proven == {f"job-{number}/p0": 1 for number in range(40)}


def test_jobs_submitted_together_that_cannot_be_written_were_not_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = place.open()
    with monkeypatch.context() as broken:
        broken.setattr("cluster.service.store._INSERT", "INSERT INTO no_such_table VALUES (?)")
        told = service.submit_all(
            [place.ask("a"), place.ask("b"), place.ask("a"), place.ask("bad", job={"count": 1000})]
        )
        assert [type(each) for each in told] == [ResourceError, ResourceError, ResourceError, UsageError]
    assert service.jobs() == []
    assert service._nbytes == 0
    place.gate.is_open.set()
    told = service.submit_all([place.ask("a"), place.ask("b")])
    assert not any(isinstance(each, DistproveError) for each in told)
    assert {await_end(service, id, PATIENCE).state for id in "ab"} == {JobState.PROVED}


def test_a_full_queue_says_when_to_ask_again(place: Place) -> None:
    service = place.open(Limits(running=1, queued=2, allow_code=True))
    for id in "abc":
        service.submit(place.ask(id))
    with pytest.raises(QueueFull) as full:
        service.submit(place.ask("d"))
    assert 1.0 <= full.value.retry_after <= 60.0
    assert service.submit(place.ask("c")).place == 1  # it has its place
    service.cancel("b")
    assert service.submit(place.ask("d")).place == 1


def test_a_job_that_is_refused_leaves_nothing_for_the_collector(place: Place) -> None:
    """What is in circles stays until the collector looks, which it does seldom here: 18 KB of a refusal did."""
    service = place.open(Limits(running=1, queued=2, allow_code=True))
    for id in "abc":
        service.submit(place.ask(id))
    reach(place)
    requests = [place.ask("a", 2), place.ask("new"), place.ask("new", job={"title": float("nan")})]
    told = [str(each) for each in service.submit_all(requests)]
    with circles() as count:
        for _ in range(200):
            assert [type(each) for each in service.submit_all(requests)] == [IdTaken, QueueFull, UsageError]
            for request in requests:
                with suppress(DistproveError):  # `pytest.raises` would keep it
                    service.submit(request)
    assert count() < 200, f"after 1,200 times {told}"


def test_a_job_that_is_over_leaves_nothing_for_the_collector(place: Place) -> None:
    """What its driver knew goes when it is over, whether it was proved or failed."""

    def before(job: str, name: str) -> None:
        if job.startswith("bad"):
            raise JobFailed(name)

    def end(*ids: str) -> list[JobState]:
        for id in ids:
            service.submit(place.ask(id, 2))
        return [await_end(service, id, PATIENCE).state for id in ids]

    service = place.open(scheduler=lambda settings: instant_scheduler(settings, before))
    end("good", "bad")
    with circles() as count:
        for n in range(10):
            assert end(f"good-{n}", f"bad-{n}") == [JobState.PROVED, JobState.FAILED]
    assert count() < 20


# -- an end, and another beginning ------------------------------------------------------------------------------------


def test_what_is_cancelled_stays_so_and_its_run_can_be_resumed(place: Place) -> None:
    place.gate.closed_at = lambda job, name: name == "p10"
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("running", count=12))
    service.submit(place.ask("queued"))
    reach(place)
    assert service.cancel("queued").state is JobState.CANCELLED
    assert service.cancel("running").cancelling
    place.gate.is_open.set()
    ended = await_end(service, "running", PATIENCE)
    assert (ended.state, ended.exit_code, ended.done < 12) == (JobState.CANCELLED, 130, True)
    assert service.cancel("running") == ended
    service.close(drain=True)
    again = place.open()
    assert {view.id: view.state for view in again.jobs()} == dict.fromkeys(("running", "queued"), JobState.CANCELLED)
    assert not (place.folder / "service" / RUNS / "queued").exists()
    proof = resume_job(Path(ended.run), settings=SETTINGS)
    proof.verify(system(place, 12))


def test_a_job_that_is_being_cut_is_cancelled_and_leaves_its_place(place: Place) -> None:
    """A guest that never ends was run for 2^14 segments, in a place that others waited for."""
    place.gate.is_open.set()
    guest = place.folder / "endless.elf"
    guest.write_bytes(code_file([asm.imm("addi", 5, 5, 1), asm.jal(0, -4)]))
    service = place.open(Limits(running=2, allow_code=True))
    job = {"system": "stark", "program": "riscv", "arguments": {"elf": str(guest)}}
    for id in ("endless", "waits-for-it"):
        service.submit(JobRequest(id, job))
    service.submit(place.ask("small", priority=Priority.LOW))
    while not service.job("waits-for-it").started:
        time.sleep(0.01)
    for id in ("endless", "waits-for-it"):
        service.cancel(id)
    ends = [await_end(service, id, PATIENCE) for id in ("endless", "waits-for-it", "small")]
    assert [view.state.value for view in ends] == ["cancelled", "cancelled", "proved"]
    assert [view.exit_code for view in ends] == [130, 130, 0]


def test_a_guest_that_cannot_be_proven_is_refused_when_it_is_submitted(place: Place) -> None:
    service = place.open(Limits(allow_code=True))
    for code, address, why in (
        ([0], 0x10000, "no word of its"),
        (asm.leave(), 2**32 - 12, "0xfffffffc cannot be proven"),
    ):
        (place.folder / "guest.elf").write_bytes(code_file(code, address))
        job = {"system": "stark", "program": "riscv", "arguments": {"elf": str(place.folder / "guest.elf")}}
        with pytest.raises(InputError, match=why):
            service.submit(JobRequest("guest", job))


def test_a_service_that_stops_goes_on_and_proves_nothing_twice(place: Place) -> None:
    place.gate.closed_at = lambda job, name: (job, name) == ("large", "p20")
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("large", count=30))
    reach(place)
    service.submit(place.ask("small", out="elsewhere", base=str(place.folder)))
    while not service.job("large").done:  # some are verified and on disk
        time.sleep(0.001)
    place.end(service, drain=False)
    with pytest.raises(ServiceGone):
        service.submit(place.ask("late"))
    on_disk = StoredRun.read(place.folder / "service" / RUNS / "large").stored()
    assert 0 < len(on_disk) < 30
    again = place.open()
    large, small = await_end(again, "large", PATIENCE), await_end(again, "small", PATIENCE)
    assert (large.state, large.done, large.attempts) == (JobState.PROVED, 30, 2)
    assert (small.state, small.attempts, small.run) == (JobState.PROVED, 1, str(place.folder / "elsewhere"))
    assert {name for name in on_disk if place.gate.proven[f"large/{name}"] > 1} == set()
    proved = [e["partition"] for e in read_journal(Path(large.run)) if e["event"] == "proved" and "partition" in e]
    assert len(proved) == len(set(proved))
    # The journal may not have come to tell of the last that were on disk.
    assert {*proved, *on_disk} == {f"p{number}" for number in range(30)}
    Proof.read(again.proof("large")).verify(system(place, 30))


def test_draining_ends_what_runs_and_keeps_what_waits(place: Place) -> None:
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("a"))
    reach(place)
    service.submit(place.ask("b"))
    place.end(service, drain=True)
    assert (service.job("a").state, service.job("b").state) == (JobState.PROVED, JobState.QUEUED)
    assert await_end(place.open(), "b", PATIENCE).state is JobState.PROVED


def test_who_drains_can_be_told_to_stop(place: Place) -> None:
    place.gate.closed_at = lambda job, name: name == "p1"
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("a", count=2))
    reach(place)
    draining = threading.Thread(target=service.close, kwargs={"drain": True})
    draining.start()
    while not service._closing:
        time.sleep(0.001)
    stopping = threading.Thread(target=service.close, kwargs={"drain": False})
    stopping.start()
    while not service._stopping:
        time.sleep(0.001)
    with service._lock:
        place.gate.is_open.set()
    for thread in (draining, stopping):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert service.job("a").state is JobState.RUNNING
    assert await_end(place.open(), "a", PATIENCE).attempts == 2


def test_one_service_at_a_time_is_at_work_in_a_folder(place: Place) -> None:
    place.open()
    with pytest.raises(InUse, match="in use by process"):
        place.open()
    assert (place.folder / "service").stat().st_mode & 0o777 == 0o700
    assert (place.folder / "service" / FILE).stat().st_mode & 0o777 == 0o600


def test_a_job_that_cannot_be_written_was_not_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service = place.open()
    with monkeypatch.context() as broken:
        broken.setattr("cluster.service.store._INSERT", "INSERT INTO no_such_table VALUES (?)")
        with pytest.raises(ResourceError, match="cannot write its books"):
            service.submit(place.ask("a"))
    assert service.jobs() == []
    with pytest.raises(NoSuchJob):
        service.job("a")
    place.gate.is_open.set()
    service.submit(place.ask("a", count=2))
    assert await_end(service, "a", PATIENCE).state is JobState.PROVED


def test_a_service_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, seed=5)
    assert campaign.run(3)["faults"] == []
    assert campaign.proofs
    # The campaign finds what it looks for.
    place = next(iter(campaign.proofs))
    run = tmp_path / "service" / RUNS / place[0]
    for file in [*(run / "partitions").iterdir(), run / PROOF_FILE]:
        file.unlink(missing_ok=True)
    campaign.look()
    assert f"{'/'.join(place)}: lost" in campaign.faults


# -- what clients may ask ---------------------------------------------------------------------------------------------


def test_jobs_begin_again_when_all_workers_are_lost_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the Ray that they run on ends. The fleet says so as the first orders are handed out, again and again in
    the second case: a job is not begun for ever."""
    reporting = sum(thread.name == "distprove-load" for thread in threading.enumerate())
    service = place.open(scheduler=open_scheduler)
    left, hand = 1, Worker.take

    def take(*arguments: Any, **named: Any) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            service._scheduler.fleet.lose("its head does not answer")
        hand(*arguments, **named)

    monkeypatch.setattr(Worker, "take", take)
    service.submit(place.ask("once", count=3))
    view = await_end(service, "once", PATIENCE)
    assert (view.state, view.done, view.attempts) == (JobState.PROVED, 3, 2)
    left = 10**6
    service.submit(place.ask("always"))
    view = await_end(service, "always", PATIENCE)
    assert (view.state, view.exit_code, view.attempts) == (JobState.FAILED, 3, 4)
    assert "Ray is lost" in (view.error or "")
    left = 0
    service.submit(place.ask("after"))
    assert await_end(service, "after", PATIENCE).state is JobState.PROVED
    late = time.monotonic() + PATIENCE
    while sum(thread.name == "distprove-load" for thread in threading.enumerate()) > reporting + 1:
        assert time.monotonic() < late, "threads ask workers for news that were lost"
        time.sleep(0.01)


def test_a_job_that_finds_no_memory_beside_others_has_the_workers_to_itself(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.gate.closed_at = lambda job, name: job == "held"
    service = place.open(Limits(running=8, allow_code=True))
    scheduler, left, begun = service._scheduler, 1, []

    def lend(*, job: str, **named: Any) -> Client:
        nonlocal left
        lent = Scheduler.lend(scheduler, job=job, **named)
        begun.append((job, service._running.total()))
        if job == "large" and left:
            left -= 1

            def begin(job: Any, *more: Any) -> None:
                lent._state = job
                job.crowded = True
                raise JobFailed("it fits no device here")

            lent.begin = begin  # type: ignore[method-assign]
        return lent

    monkeypatch.setattr(scheduler, "lend", lend)
    service.submit(place.ask("held"))
    reach(place)
    service.submit(place.ask("large"))
    while service.job("large").attempts == 0 or service.job("large").state is JobState.RUNNING:
        time.sleep(0.001)
    service.submit(place.ask("small"))
    assert [service.job(id).state for id in ("held", "large", "small")] == ["running", "queued", "queued"]
    place.gate.is_open.set()
    views = [await_end(service, id, PATIENCE) for id in ("held", "large", "small")]
    assert [(view.state, view.attempts) for view in views] == [
        (JobState.PROVED, 1),
        (JobState.PROVED, 2),
        (JobState.PROVED, 1),
    ]
    assert begun == [("held", 1), ("large", 2), ("large", 1), ("small", 1)]


def test_what_is_not_for_clients_to_choose_is_refused(place: Place) -> None:
    service = place.open(Limits())
    refused: list[tuple[str, dict[str, Any]]] = [
        ("workers of its own", {"executor": {"threads": 1}}),
        ("unknown key `base`", {"base": "/"}),
        ("no programs of its clients' own", {"system": "stark", "program": "evil:Program"}),
        ("unknown proof system", {"system": "none"}),
        ("both `system` and `title` are strings", {"system": ["toy"]}),
        ("service's own", {"folder": str(place.folder / "service" / FILE)}),
        ("service's own", {"folder": str(place.folder / "x" / ".." / "service")}),
        ("made of what JSON has", {"folder": float("nan")}),
        ("made of what JSON has", {"folder": object()}),
    ]
    for message, job in refused:
        request = JobRequest("a", {"system": "toy", "count": 1, "folder": str(place.folder)} | job)
        if job.get("system") == "stark":
            request = JobRequest("a", job)
        with pytest.raises(UsageError, match=message):
            service.submit(request)
    with pytest.raises(UsageError, match="absolute path"):
        service.submit(place.ask("a", base="relative"))
    with pytest.raises(UsageError, match="service's own"):
        service.submit(place.ask("a", out=str(place.folder / "service" / RUNS / "b")))
    with pytest.raises(UsageError, match="has up to 100"):
        place.ask("../a")
    small = Limits(request_bytes=100)
    service.close(drain=True)
    with pytest.raises(UsageError, match="at most 100 bytes"):
        place.open(small).submit(place.ask("a", job={"title": "x" * 100}))


def test_files_outside_of_the_roots_are_neither_read_nor_told_of(place: Place) -> None:
    inside, outside = place.folder / "inside", place.folder / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "there.zkey").write_bytes(b"")
    (inside / "link.zkey").symlink_to(outside / "there.zkey")
    service = place.open(Limits(roots=(inside,)))
    base = str(inside)
    tried = ["link.zkey", "../outside/there.zkey", str(outside / "there.zkey"), str(outside / "not-there.zkey")]
    told = set()
    for zkey in tried:
        (inside / "w.wtns").write_bytes(b"")
        job = {"system": "groth16", "zkey": zkey, "witnesses": "w.wtns"}
        with pytest.raises(UsageError) as refused:
            service.submit(JobRequest("a", job, base))
        told.add(str(refused.value).replace("not-there", "there"))
    assert told == {f"{outside / 'there.zkey'} is not in a folder that this service takes files from"}
    (inside / "gone.zkey").symlink_to(outside / "not-there.zkey")
    (inside / "way").symlink_to(outside)
    links = {"gone.zkey": outside / "not-there.zkey", "way/there.zkey": outside / "there.zkey", "way/x": outside / "x"}
    for zkey, leads in links.items():  # whether it is there was told
        with pytest.raises(UsageError) as refused:
            service.submit(JobRequest("a", {"system": "groth16", "zkey": zkey, "witnesses": "w.wtns"}, base))
        assert str(refused.value) == f"{leads} is not in a folder that this service takes files from"
    (inside / "wa[y].wtns").symlink_to(outside / "there.zkey")  # a file of that very name
    for pattern in ("way/*", "way/../outside/*", "wa?/t*", "wa[y].wtns"):  # what is there was told
        with pytest.raises(UsageError, match="not in a folder") as refused:
            service.submit(JobRequest("a", {"system": "groth16", "zkey": "w.wtns", "witnesses": [pattern]}, base))
        assert "there" not in str(refused.value)
    with pytest.raises(DistproveError, match="zero byte"):
        service.submit(JobRequest("a", {"system": "groth16", "zkey": "\0", "witnesses": "w.wtns"}, base))
    for pattern in ("../outside/*", str(outside), "w.wtns/../../outside/*"):
        with pytest.raises(UsageError, match="not in a folder"):
            service.submit(JobRequest("a", {"system": "groth16", "zkey": "z", "witnesses": [pattern]}, base))
    with pytest.raises(UsageError, match="not in a folder"):
        service.submit(JobRequest("a", {"system": "toy", "folder": base}, base, out=str(outside / "run")))
    with pytest.raises(UsageError, match="not in a folder"):
        service.submit(JobRequest("a", {"system": "toy", "folder": "x"}, str(outside)))


def test_a_root_bounds_files_and_not_where_a_job_is_submitted(place: Place) -> None:
    """From outside of `--root` nothing could be submitted: a job without files, or with absolute paths inside."""
    inside, outside, link = place.folder / "inside", place.folder / "outside", place.folder / "link"
    inside.mkdir()
    (outside / "deep").mkdir(parents=True)
    (outside / "w.wtns").write_bytes(b"")
    link.symlink_to(inside)
    for name in ("z.zkey", "w.wtns"):
        (inside / name).write_bytes(b"")
    service = place.open(Limits(roots=(inside,)))
    place.gate.is_open.set()
    stark = {"system": "stark", "program": "fibonacci", "prefer": "speed", "arguments": {"rows": "2^4"}}
    service.submit(JobRequest("none", stark, str(outside)))
    for number, zkey in enumerate((inside / "z.zkey", link / "z.zkey", "../inside/z.zkey", "../link/z.zkey")):
        job = {"system": "groth16", "zkey": str(zkey), "witnesses": [str(inside / "*.wtns")]}
        service.submit(JobRequest(f"in-{number}", job, str(outside)))
    said = f"{outside}/w.wtns is not in a folder that this service takes files from"
    note = f": paths of this job are relative to {outside}"
    for base, witness in ((outside, "w.wtns"), (link, "../outside/w.wtns"), (inside, f"{outside}/w.wtns")):
        job = {"system": "groth16", "zkey": str(inside / "z.zkey"), "witnesses": witness}
        with pytest.raises(UsageError) as refused:
            service.submit(JobRequest("out", job, str(base)))
        assert str(refused.value) == said + (note if base == outside else "")


@pytest.mark.parametrize("way", ["outside/{}/../../inside/z.zkey", "inside/../outside/{}/../../inside/z.zkey"])
def test_no_path_tells_which_folders_are_outside_of_the_roots(way: str, place: Place) -> None:
    """`OUTSIDE/guess/../../INSIDE/file` was there if `guess` was a folder, and else was not."""
    inside, outside = place.folder / "inside", place.folder / "outside"
    inside.mkdir()
    (outside / "folder").mkdir(parents=True)
    (outside / "file").touch()
    (inside / "z.zkey").touch()
    (inside / "w.wtns").touch()
    service = place.open(Limits(roots=(inside,)))
    for guess in ("folder", "file", "nothing"):
        job = {"system": "groth16", "zkey": str(place.folder / way.format(guess)), "witnesses": "w.wtns"}
        assert service.submit(JobRequest(guess, job, str(inside))).id == guess


@pytest.mark.parametrize(
    "path",
    [
        *("{out}/f/", "{out}/./f", "{out}//f", "{in}/../outside/f", "/proc/self/root{out}/f", "/proc/self/cwd/f"),
        *(
            "{in}/to-f",
            "{in}/to-folder/f",
            "{in}/to-folder/../outside/f",
            "{IN}/f",
            "/proc/self/fd/{fd}",
            "/dev/fd/{fd}",
        ),
        *("{in}/to-link", "{out}/to-in-and-out/f", "{in}-f", "{in}\n/f"),
    ],
)
def test_no_path_leads_out_of_the_roots(path: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = place.folder / "inside", place.folder / "outside"
    inside.mkdir()
    outside.mkdir()
    for file in (outside / "f", place.folder / "inside-f", inside / "w.wtns"):
        file.write_text("secret")
    (inside / "to-f").symlink_to(outside / "f")
    (inside / "to-link").symlink_to("to-f")
    (inside / "to-folder").symlink_to(outside)
    (outside / "to-in").symlink_to(inside)
    (outside / "to-in-and-out").symlink_to("to-in/to-folder")
    monkeypatch.chdir(outside)
    service = place.open(Limits(roots=(inside,)))
    with open(outside / "f") as opened:
        places = {"in": inside, "out": outside, "IN": str(inside).upper(), "fd": opened.fileno()}
        named = path.format(**places)
        for base in ("/", str(inside)):
            for job in ({"zkey": named, "witnesses": "w.wtns"}, {"zkey": f"{inside}/w.wtns", "witnesses": [named]}):
                with pytest.raises(UsageError, match="not in a folder that this service takes files from"):
                    service.submit(JobRequest("a", {"system": "groth16", **job}, base))
            stark = {"system": "stark", "program": "file-root", "arguments": {"file": named}}
            with pytest.raises(UsageError, match="not in a folder that this service takes files from"):
                service.submit(JobRequest("a", stark, base))


def test_files_are_looked_at_again_when_a_job_begins(place: Place) -> None:
    """A link that was laid while the job waited was followed, and so were paths of before `--root` was given."""
    inside, outside = place.folder / "inside", place.folder / "outside"
    inside.mkdir()
    outside.mkdir()
    for name in ("a.zkey", "w.wtns"):
        (inside / name).write_bytes(b"good")
        (outside / name).write_bytes(b"other")
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("blocks"))
    reach(place)
    job = {"system": "groth16", "zkey": "a.zkey", "witnesses": "w.wtns"}
    service.submit(JobRequest("before", job, str(outside)))
    service.submit(JobRequest("linked", job, str(inside)))
    place.end(service, drain=False)
    (inside / "a.zkey").rename(inside / "b.zkey")
    (inside / "a.zkey").symlink_to(outside / "a.zkey")
    service = place.open(Limits(running=1, allow_code=True, roots=(inside, place.folder / "service")))
    for id in ("before", "linked"):
        assert "not in a folder that this service takes files from" in str(await_end(service, id, PATIENCE).error)
    looked = Looked()
    refused = Job.from_options("groth16", base=inside, zkey="a.zkey", witnesses=["w.wtns"])
    for _ in range(2):  # of jobs that begin together, one that is refused lets no other one pass
        with pytest.raises(UsageError, match="not in a folder"):
            require_allowed_files(refused, service.limits, service.folder, looked)


@pytest.mark.parametrize("led", ["x.input", "private", "guest.elf", "a.zkey"])
@pytest.mark.parametrize("secret", ["secret", "service/tokens"])
def test_a_file_is_where_it_may_be_when_it_is_opened(
    led: str, secret: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write in a root lays a link after the last look at where the file leads, and before it is opened: a
    guest that tells its private input would tell the content of any file."""
    inside, target = place.folder / "inside", place.folder / secret
    (inside / "numbers").mkdir(parents=True)
    guest = code_file([asm.imm("addi", 17, 0, 93), asm.imm("addi", 10, 0, 0), asm.ECALL])
    for name in ("x.input", "private", "a.zkey", "w.wtns"):
        (inside / name).write_text("1")
    (inside / "guest.elf").write_bytes(guest)
    jobs: dict[str, dict[str, Any]] = {
        "x.input": {"system": "toy", "folder": str(inside / "numbers"), "input": "x.input"},
        "private": {"system": "stark", "program": "riscv", "arguments": {"elf": "guest.elf", "input": "private"}},
        "a.zkey": {"system": "groth16", "zkey": "a.zkey", "witnesses": "w.wtns"},
    }
    place.gate.is_open.set()
    service = place.open(Limits(running=1, allow_code=True, roots=(inside,)))
    target.write_bytes(guest)
    content = (inside / led).read_bytes()

    def lay(*looked: Any) -> None:
        (inside / led).unlink()
        (inside / led).write_bytes(content)
        require_allowed_files(*looked)
        (inside / led).unlink()
        (inside / led).symlink_to(target)

    monkeypatch.setattr(service_module, "require_allowed_files", lay)
    service.submit(JobRequest("led", jobs[led if led in jobs else "private"], str(inside)))
    done = await_end(service, "led", PATIENCE)
    assert (done.state, done.exit_code) == (JobState.FAILED, 2)
    assert "a link leads to a file that is not in a folder that this service takes files from" in str(done.error)
    assert secret not in str(done.error)


def test_a_run_that_was_led_elsewhere_is_not_written(place: Place) -> None:
    inside, outside = place.folder / "inside", place.folder / "outside"
    (inside / "runs").mkdir(parents=True)
    outside.mkdir()
    service = place.open(Limits(running=1, allow_code=True, roots=(inside,)))
    service.submit(JobRequest("blocks", {"system": "toy", "folder": "x"}, str(inside)))
    reach(place)
    service.submit(JobRequest("led", {"system": "toy", "folder": "x"}, str(inside), out="runs/r"))
    (inside / "runs").rmdir()
    (inside / "runs").symlink_to(outside)
    place.gate.is_open.set()
    assert "not in a folder" in str(await_end(service, "led", PATIENCE).error)
    assert not list(outside.iterdir())


def test_a_run_that_was_led_elsewhere_is_not_read(place: Place) -> None:
    """A link above a run at `--out`, laid once it was over, had a run outside of the roots read in its place."""
    inside, outside = place.folder / "inside", place.folder / "outside"
    (inside / "runs").mkdir(parents=True)
    place.gate.is_open.set()
    service = place.open(Limits(running=1, allow_code=True, roots=(inside,)))
    service.submit(JobRequest("a", {"system": "toy", "folder": "x"}, str(inside), out="runs/r"))
    assert await_end(service, "a", PATIENCE).state is JobState.PROVED
    assert service.log("a")[0]
    assert service.proof("a").exists()
    (inside / "runs").rename(outside)
    (inside / "runs").symlink_to(outside)
    for ask in (service.log, service.proof, service.output, service.run):
        with pytest.raises(UsageError, match="not in a folder that this service takes files from"):
            ask("a")


@pytest.mark.parametrize("out", ["..", "runs/.."])
def test_a_run_has_a_name_of_its_own(out: str, place: Place) -> None:
    """`..` at the end led above a root: what was there could be read as a report or a log."""
    service = place.open(Limits(roots=(place.folder,)))
    with pytest.raises(UsageError, match="ends in the name of a folder"):
        service.submit(JobRequest("a", {"system": "toy", "folder": "x"}, str(place.folder), out=out))


def test_text_that_cannot_be_kept_is_refused_and_harms_nobody(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others submitted and what had ended at the same moment was undone with it."""
    service = place.open()
    for request in (place.ask("a", job={"title": "\ud800"}), place.ask("a", out=f"{place.folder}/\udcff")):
        with pytest.raises(UsageError, match="strings of UTF-8"):
            service.submit(request)
    assert service.submit(place.ask("a", job={"title": "\U0001f600"})).title == "\U0001f600"
    monkeypatch.setattr("cluster.service.service.public_message", lambda error: "\udcff.zkey: no such file")
    place.gate.is_open.set()
    service.submit(JobRequest("b", {"system": "groth16", "zkey": "z", "witnesses": "w"}, str(made(place))))
    assert await_end(service, "b", PATIENCE).state is JobState.FAILED
    place.end(service, drain=True)
    assert place.open().job("b").error == "\\udcff.zkey: no such file"


@pytest.mark.parametrize("path", ["/a" * 400_000, "a/../" * 200_000, "./" * 400_000 + "z"])
def test_a_path_is_none_that_takes_hours_to_look_at(path: str, place: Place) -> None:
    """To find out where one of 800 KB leads took 216 s of a thread that nobody could stop, and 16 MiB may be sent."""
    service = place.open()
    stark = {"system": "stark", "program": "file-root", "arguments": {"file": path}}
    groth16 = {"system": "groth16", "zkey": "z", "witnesses": "w"}
    for job, base in (
        (groth16, f"/{path}"),
        ({**groth16, "zkey": path}, "/"),
        ({**groth16, "witnesses": ["w", path]}, "/"),
        (stark, "/"),
    ):
        with pytest.raises(UsageError, match="at most 4096 characters"):
            service.submit(JobRequest("a", job, base))


def test_jobs_of_many_named_files_fill_neither_memory_nor_the_books(place: Place) -> None:
    """A pattern of ten characters stood for a million files: 1 KB of memory each while the job waited, which nothing
    bounded, and 110 bytes each in the books until it was forgotten."""
    service = place.open(Limits(running=1, allow_code=True, queued_bytes=50_000))
    service.submit(place.ask("blocks"))
    reach(place)
    base = made(place)
    for index in range(40):
        (base / f"{index}.wtns").write_bytes(b"none")
    job = {"system": "groth16", "zkey": "z", "witnesses": "*.wtns"}
    service.submit(JobRequest("a", job, str(base)))
    with pytest.raises(QueueFull, match="bytes of inputs"):
        service.submit(JobRequest("b", job, str(base)))
    service.submit(JobRequest("one", {**job, "witnesses": "0.wtns"}, str(base)))
    service.cancel("a")
    service.submit(JobRequest("b", job, str(base)))
    place.end(service, drain=False)
    with sqlite3.connect(place.folder / "service" / FILE) as books:
        kept = dict(books.execute("SELECT id, record FROM jobs"))
    assert kept["a"] == "{}"
    assert "39.wtns" in kept["b"]  # it goes on


def test_what_waits_fills_no_memory(place: Place) -> None:
    """10,000 jobs of 16 MiB were in memory at a time, and again at each start; titles were in every list besides."""
    service = place.open(Limits(running=1, allow_code=True, queued_bytes=1000))
    for request in (place.ask("a", job={"title": "x" * 1001}), place.ask("a", out="/" + "x" * 4096)):
        with pytest.raises(UsageError, match=r"characters|bytes"):
            service.submit(request)
    service.submit(place.ask("blocks"))
    reach(place)
    base = str(made(place))
    job = {"system": "groth16", "zkey": "z", "wasm": "w", "inputs": [{"x": "1" * 400}]}
    for id in ("a", "b"):
        service.submit(JobRequest(id, job, base))
    with pytest.raises(QueueFull, match="bytes of inputs"):
        service.submit(JobRequest("c", job, base))
    service.submit(place.ask("small"))
    service.cancel("a")
    service.submit(JobRequest("c", job, base))
    place.end(service, drain=False)
    service = place.open(Limits(running=1, queued_bytes=100))
    assert {await_end(service, id, PATIENCE).state for id in "bc"} == {JobState.FAILED}
    assert service._nbytes == 0


def made(place: Place) -> Path:
    """A folder with a key and a witness that are none."""
    folder = place.folder / "made"
    folder.mkdir()
    for name in ("z", "w"):
        (folder / name).write_bytes(b"none")
    return folder


def test_inputs_given_as_values_are_kept_until_the_job_is_over_and_then_nowhere(place: Place) -> None:
    service = place.open(Limits(running=1, allow_code=True))
    service.submit(place.ask("blocks"))
    reach(place)
    for name in ("key.zkey", "program.wasm"):
        (place.folder / name).write_bytes(b"none")
    inputs = [{"x": [SECRET, i]} for i in range(2)]
    job = {"system": "groth16", "zkey": "key.zkey", "wasm": "program.wasm", "inputs": inputs}
    request = JobRequest("secret", job, str(place.folder))
    told = [repr(service.submit(request)), repr(request)]
    with pytest.raises(IdTaken) as other:
        service.submit(JobRequest("secret", {**job, "inputs": [{"x": [SECRET + "0", 0]}]}, str(place.folder)))
    told.append(str(other.value))
    place.end(service, drain=False)
    assert SECRET in everything(place.folder / "service")
    place.gate.is_open.clear()
    service = place.open(Limits(running=1, allow_code=True))
    recalled = service._tickets["secret"].job
    assert recalled is not None
    assert [source.content for source in recalled.sources] == [f'{{"x": ["{SECRET}", {i}]}}'.encode() for i in range(2)]
    place.gate.is_open.set()
    told.append(repr(await_end(service, "secret", PATIENCE)))  # it fails: what is there is no key
    assert service.job("secret").state is JobState.FAILED
    assert service.submit(request).state is JobState.FAILED
    service.close(drain=True)
    assert SECRET not in everything(place.folder / "service")
    assert not [text for text in told if SECRET in text]


def everything(folder: Path) -> str:
    """All bytes of all files in a folder."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


def test_a_record_on_disk_cannot_bring_the_content_of_an_input(tmp_path: Path) -> None:
    (tmp_path / "k").write_bytes(b"")
    given = {"zkey": str(tmp_path / "k"), "wasm": str(tmp_path / "k"), "witnesses": []}
    options = {**dict.fromkeys(("params", "r1cs", "circuit", "vk", "aggregate")), **given}
    item = {"name": "a", "path": "", "content": "{}"}
    record = {"system": "groth16", "title": "", "options": {**options, "inputs": [item]}, "executor": {}}
    with pytest.raises(InputError, match="kept nowhere"):
        Job.from_record(record)


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_read_once_until_its_file_changes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    make_key(place.folder)
    loads: list[str] = []
    load = Job.load
    monkeypatch.setattr(Job, "load", lambda job: (loads.append(job.system), load(job))[1])
    systems = Systems()

    def loaded(*witnesses: str) -> Any:
        files = [str(place.folder / f"{name}.wtns") for name in witnesses]
        return systems.load(Job.from_options("groth16", zkey=place.folder / "key.zkey", witnesses=files))[0]

    first, second = loaded("w0"), loaded("w1", "w2")
    assert loads == ["groth16"]
    assert [[p.name for p in each.plan()] for each in (first, second, loaded("w0"))] == [["w0"], ["w1", "w2"], ["w0"]]
    alone = Job.from_options(
        "groth16", zkey=place.folder / "key.zkey", witnesses=[str(place.folder / "w0.wtns")]
    ).load()
    assert [p.digest for p in first.plan()] == [p.digest for p in alone.plan()]
    loads.clear()
    content = (place.folder / "key.zkey").read_bytes()
    (place.folder / "key.zkey").unlink()
    with pytest.raises(InputError):
        loaded("w0")
    (place.folder / "key.zkey").write_bytes(content)
    assert loaded("w0").key_digest() == first.key_digest()
    assert loads == ["groth16"]


# -- books ------------------------------------------------------------------------------------------------------------


def test_old_jobs_are_forgotten_with_the_runs_that_are_the_services_own(place: Place) -> None:
    place.gate.is_open.set()
    service = place.open(Limits(kept=2, allow_code=True))
    for id in "abcd":
        service.submit(place.ask(id, out=str(place.folder / "b") if id == "b" else None))
        await_end(service, id, PATIENCE)
    service.tidy()
    assert [view.id for view in service.jobs()] == ["d", "c"]
    runs = place.folder / "service" / RUNS
    assert sorted(path.name for path in runs.iterdir()) == ["c", "d"]
    assert (place.folder / "b" / "proof.msgpack").exists()
    service.close(drain=True)
    service = place.open(Limits(kept_seconds=0.0, allow_code=True))
    assert [view.id for view in service.jobs()] == ["d", "c"]
    service.tidy()
    assert service.jobs() == []
    assert service.submit(place.ask("a")).attempts == 1


def test_the_log_of_a_job_is_told_from_where_it_was_left(place: Place) -> None:
    place.gate.is_open.set()
    service = place.open()
    service.submit(place.ask("a", count=3))
    await_end(service, "a", PATIENCE)
    lines, after = service.log("a")
    assert [event["event"] for event in read_journal(Path(service.job("a").run))] == [
        line.split('"event":"')[1].split('"')[0] for line in lines
    ]
    assert service.log("a", after) == ([], after)
    first = len(lines[0]) + 1
    assert service.log("a", first) == (lines[1:], after)
    for wrong in (-1, after + 1):
        with pytest.raises(DistproveError, match="no line begins"):
            service.log("a", wrong)


def test_drivers_of_one_process_leave_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    one, other = collecting_seldom(), collecting_seldom()
    one.__enter__()
    seldom = gc.get_threshold()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold() == seldom != before
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before
