"""A standing scheduler: several keys, several jobs, one set of processes."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors.backends import BackendChoice
from actors.messages import HostSpec
from actors.rooms import RoomsHere
from cluster.driver import drive
from cluster.executor.fleet import Site
from cluster.executor.local import LocalFleet
from cluster.opening import open_scheduler
from cluster.record.run import Run
from cluster.record.story import read_report
from cluster.scheduler import batches
from cluster.scheduler.events import FleetLost, JobAdded, KeyOpened
from cluster.scheduler.jobs import Progress
from cluster.scheduler.keys import NO_ROOM, evict_oldest
from cluster.scheduler.loop import Client, Scheduler
from cluster.scheduler.machine import Machine
from cluster.scheduler.resident import Resident
from cluster.scheduler.rules import MAX_GIVEN_UP, PREPARING, Stage
from cluster.scheduler.views import identity
from cluster.scheduler.workers import WorkerHandle
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import ClusterError, InputError, JobFailed, ResourceError, UsageError
from distprove.groth16.setup import setup
from distprove.groth16.system import Groth16System
from distprove.groth16.wtns import write_wtns
from distprove.host.beside import in_background
from distprove.options import InputFile
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.stark.options import StarkOptions
from distprove.stark.system import StarkSystem
from distprove.system import Partition, ProofSystem
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254
from tests.cluster.scheduler.test_batches import NoThreads
from tests.support.instant_fleet import InstantFleet
from tests.support.toy_system import RESIDENT, TOY_BACKEND, Faults, ToySystem, step_by_step

Make = Callable[..., Faults]


class Jobs:
    """Jobs at work with one scheduler, each on a thread of its own."""

    def __init__(self, scheduler: Scheduler, folder: Path) -> None:
        self._scheduler = scheduler
        self._folder = folder
        self._threads: dict[str, threading.Thread] = {}
        self.clients: dict[str, Client] = {}
        self.proofs: dict[str, Proof] = {}
        self.errors: dict[str, BaseException] = {}
        self.waits: dict[str, list[str]] = {}
        """What each job said that it waits for."""

    def start(self, name: str, system: ProofSystem, done: threading.Event | None = None, *, rank: int = 2) -> Client:
        """`done`: its driver keeps its client until then."""
        client = self.clients[name] = self._scheduler.lend(job=name, rank=rank)
        self.waits[name] = []
        thread = self._threads[name] = threading.Thread(target=self._run, args=(name, system, client, done))
        thread.start()
        return client

    def _run(self, name: str, system: ProofSystem, client: Client, done: threading.Event | None) -> None:
        def seen(progress: Progress) -> None:
            if progress.event == "waiting":
                self.waits[name].append(progress.detail or "")

        try:
            with client, Run.create(self._folder / name, system, system.plan()) as run:
                self.proofs[name] = drive(system, client, run, self._scheduler.settings, seen)
                assert done is None or done.wait(120)
        except BaseException as error:
            self.errors[name] = error

    def ended(self, name: str) -> BaseException | None:
        """Wait for a job's end; its error."""
        self._threads[name].join(120)
        assert not self._threads[name].is_alive(), name
        return self.errors.get(name)

    def proven(self, name: str, system: ProofSystem) -> dict[str, Any]:
        """Wait for a job, which must have been proven; its report."""
        error = self.ended(name)
        assert error is None, repr(error)
        self.proofs[name].verify(system)
        report = read_report(self._folder / name)
        assert {p["status"] for p in report["partitions"]} == {"proved"}
        return report


@contextmanager
def standing(settings: ExecutorSettings) -> Iterator[Scheduler]:
    with open_scheduler(settings) as scheduler:
        scheduler.start()
        yield scheduler


def digests(scheduler: Scheduler) -> set[str]:
    resident = scheduler.keys()
    return {key.digest for key in resident}


def until(holds: Callable[[], bool], what: str) -> None:
    late = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < late, what
        time.sleep(0.005)


@pytest.fixture
def toy(faults: Make) -> Callable[..., ToySystem]:
    return lambda count, **given: ToySystem(count, faults(), **given)


Toy = Callable[..., ToySystem]


class Gate:
    """Holds the first partition that comes to a prover on threads, and notes in which order all of them came."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.held = threading.Event()
        self.open = threading.Event()

    def __call__(self, partition: Partition) -> None:
        self.came.append(f"{partition.job} {partition.name}")
        if len(self.came) == 1:
            self.held.set()
            assert self.open.wait(120)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


def waiting(scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Orders that wait for a synthesiser, and witnesses that wait for the prover, by job."""
    found: dict[str, tuple[int, int]] = {}
    for site in scheduler.fleet.sites.values():
        assert isinstance(site.host, RoomsHere)
        for worker in list(site.host._workers.values()):
            with worker._lock:
                made = Counter(order.id.job for order in worker._waiting), Counter(o.id.job for o in worker._ready)
                found |= {name: (made[0][name], made[1][name]) for name in worker._jobs}
    return found


def at_the_prover(scheduler: Scheduler) -> list[int]:
    """Ranks of the orders that are with a prover."""
    found = []
    for site in scheduler.fleet.sites.values():
        assert isinstance(site.host, RoomsHere)
        with site.host._threads.lock:
            found += site.host._threads._computing
    return found


# -- keys ---------------------------------------------------------------------------------------------------------


def test_two_keys_and_three_jobs_at_once_with_equal_names(settings: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:
    """Each key is loaded once, also for a job that comes later."""
    one, other = toy(4, capacity=2), toy(5, key=b"another key", capacity=2, needs_barrier=True)
    with standing(settings) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        for name, system in (("a", one), ("b", other), ("c", one)):
            jobs.start(name, system)
        for name, system in (("a", one), ("b", other), ("c", one)):
            jobs.proven(name, system)
        assert sorted(jobs.clients[name].cold or False for name in ("a", "c")) == [False, True]
        assert jobs.clients["b"].cold
        jobs.start("d", other)
        jobs.proven("d", other)
        assert jobs.clients["d"].cold is False
        assert sorted((one.faults.folder / "log").read_text().splitlines()) == ["load another key", "load toy key"]
        resident = scheduler.keys()
        assert sorted((key.digest, key.workers, key.jobs) for key in resident) == sorted(
            (system.key_digest().hex(), 1, 0) for system in (one, other)
        )
        (worker,) = scheduler.workers()
        assert worker.proven == 4 + 5 + 4 + 5
        assert (worker.device, worker.lost) == ("toy", None)
        assert 0 < worker.busy < 1
    assert not RESIDENT


def test_a_job_has_a_name_of_its_own(local: ExecutorSettings, toy: Toy) -> None:
    with standing(local) as scheduler, scheduler.lend(job="a"):
        with pytest.raises(UsageError, match="at work already"):
            scheduler.lend(job="a")
        with pytest.raises(UsageError, match="needs a name"):
            scheduler.lend(job="")


def test_systems_of_one_key_share_its_rooms_only_where_their_programs_and_files_agree(toy: Toy) -> None:
    class Described(ToySystem):
        def describe(self) -> dict[str, Any]:
            return {"program": "another"}

    one = toy(3)
    assert identity(one) == identity(toy(7))
    assert identity(one) != identity(toy(3, key=b"another"))
    assert identity(one) != identity(Described(3, one.faults))


@pytest.mark.parametrize("apart", [False, True], ids=["local", "processes"])
def test_a_key_that_does_not_fit_takes_the_place_of_the_one_used_longest_ago(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, apart: bool
) -> None:
    systems = {name: toy(2, key=name.encode(), capacity=2) for name in ("one", "two", "three")}
    with standing(replace(local, isolate=apart)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        for number, (name, cold) in enumerate([("one", 1), ("two", 1), ("one", 0), ("three", 1), ("one", 0)]):
            jobs.start(f"{name}-{number}", systems[name])
            jobs.proven(f"{name}-{number}", systems[name])
            assert jobs.clients[f"{name}-{number}"].cold == bool(cold), number
        assert digests(scheduler) == {systems[n].key_digest().hex() for n in ("one", "three")}
        assert scheduler.evicted == 1, "the second one"
        assert scheduler.ask(evict_oldest)
        assert scheduler.evicted == 2
        assert digests(scheduler) == {systems["one"].key_digest().hex()}
        log = (systems["one"].faults.folder / "log").read_text().splitlines()
        assert log == ["load one", "load two", "load three"]
        if not apart:
            until(lambda: RESIDENT == [b"one"], "its memory is not given back")
    assert not RESIDENT


def test_a_job_waits_for_room_while_every_key_is_in_use(local: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:
    """A job that is proven uses its key until its driver is done with it."""
    one, other = toy(2, capacity=1), toy(2, key=b"another", capacity=1)
    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", one, done := threading.Event())
        until(lambda: "a" in jobs.proofs, "it is not proven")
        jobs.start("b", other)
        until(lambda: NO_ROOM in jobs.waits["b"], "it does not say why it waits")
        assert not scheduler.ask(evict_oldest), "a key in use is not evicted"
        done.set()
        jobs.proven("a", one)
        jobs.proven("b", other)
        assert digests(scheduler) == {other.key_digest().hex()}
        jobs.start("c", other, done := threading.Event())
        until(lambda: "c" in jobs.proofs, "it is not proven")
        client = jobs.start("d", one)
        until(lambda: NO_ROOM in jobs.waits["d"], "it does not say why it waits")
        client.stop(KeyboardInterrupt())
        assert isinstance(jobs.ended("d"), KeyboardInterrupt)
        done.set()
        jobs.proven("c", other)
        assert digests(scheduler) == {other.key_digest().hex()}


def test_a_key_whose_file_was_replaced_is_told_as_others_are(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(system: ToySystem) -> Any:
        raise InputError("another file than when the job began")

    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", toy(1))
        jobs.proven("a", toy(1))
        monkeypatch.setattr(ToySystem, "shared", replaced)
        (resident,) = scheduler.keys()
        assert resident.jobs == 0


def test_a_key_that_does_not_fit_the_nodes_budget_takes_the_place_of_an_idle_one(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate
) -> None:
    big = {name: toy(1, key=name.encode() * (9 << 20)) for name in ("a", "b")}
    with standing(replace(local, memory=32 << 20)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        for name, system in big.items():
            jobs.start(name, system)
            jobs.proven(name, system)
        assert len(scheduler.keys()) == 2
        huge = toy(1, key=b"c" * (20 << 20))
        jobs.start("c", huge)
        jobs.proven("c", huge)
        assert digests(scheduler) == {system.key_digest().hex() for system in (big["b"], huge)}
        (report,) = scheduler.governor_report(0.0)
        assert report["keys"]["resident"] == 2
        jobs.start("d", toy(1, key=b"d" * (40 << 20)))
        assert isinstance(jobs.ended("d"), ClusterError)


# -- order --------------------------------------------------------------------------------------------------------


def test_the_lowest_rank_goes_first_and_jobs_of_one_rank_take_turns(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate
) -> None:
    """Over keys as well: the jobs meet where they wait for the prover."""
    systems = {
        name: toy(9 if name == "large" else 2, key=name.encode(), gate=gate) for name in ("large", "small", "first")
    }
    with standing(replace(local, in_flight=1)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("large", systems["large"])
        assert gate.held.wait(120)
        jobs.start("small", systems["small"])
        jobs.start("first", systems["first"], rank=0)
        # The prover is held in its line, so that the others cannot be loaded: their keys wait there, too.
        gate.open.set()
        for name, system in systems.items():
            jobs.proven(name, system)
        gate.open.clear()
        gate.came.clear()
        gate.held.clear()
        # Now all keys are resident.
        jobs.start("large again", systems["large"])
        assert gate.held.wait(120)
        jobs.start("small again", systems["small"])
        jobs.start("first again", systems["first"], rank=0)
        # One of what is urgent is with the prover already, beside the one that it is at.
        ready = {"large again": 1, "small again": 2, "first again": 1}
        until(
            lambda: (
                0 in at_the_prover(scheduler)
                and all(waiting(scheduler).get(name, (0, 0))[1] >= count for name, count in ready.items())
            ),
            "it gets not ready",
        )
        gate.open.set()
        for name, system in systems.items():
            jobs.proven(f"{name} again", system)
    order = [place.split()[0] for place in gate.came]
    assert order[:4] == ["large", "first", "first", "small"]
    assert sorted(order[4:6]) == ["large", "small"], "they have the same turn"


def test_jobs_of_one_key_take_turns_too(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the synthesisers and at the prover: a small job does not wait for a large one."""
    # Witnesses one by one: a row of the large job's would pass what has the same turn, on fast threads alone.
    monkeypatch.setattr("actors.pace.MOST", 1)
    large, small = toy(40, gate=gate), toy(2, gate=gate)
    with standing(replace(local, in_flight=1)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("large", large)
        assert gate.held.wait(120)
        jobs.start("small", small)
        jobs.start("first", small, rank=0)
        # One is with the prover then, the other is ready.
        until(
            lambda: 0 in at_the_prover(scheduler) and waiting(scheduler).get("first") == (0, 1),
            "what is urgent does not get ready beside what is not",
        )
        # The gate stays shut until the small job is there: a busy machine begins it late.
        until(lambda: scheduler.ask(lambda state: "small" in state.jobs), "it is not added")
        assert waiting(scheduler).get("small", (0, 0))[1] == 0, "what waits has made more than there is room for"
        handed = scheduler.ask(lambda state: state.jobs["large"].count(*PREPARING, Stage.PROVING))
        gate.open.set()
        for name, system in (("large", large), ("small", small), ("first", small)):
            jobs.proven(name, system)
    names = [place.split()[0] for place in gate.came]
    assert names[:3] == ["large", "first", "first"]
    # Of the large job only what the worker had goes before the small one, and then at most one for each of its two.
    assert handed < 8
    assert names.index("small") <= 2 + handed
    assert len(names) - 1 - names[::-1].index("small") <= 2 + handed + 2


# -- nodes that come and go ---------------------------------------------------------------------------------------


class Growing(LocalFleet):
    """Workers on threads, of which some join, not smoothly, and leave as if they were on nodes of a cluster."""

    joining: list[str] = []  # noqa: RUF012 (the test fills it)
    leaving: list[str] = []  # noqa: RUF012

    def grow(self) -> list[Site]:
        new: list[Site] = []
        while self.joining:
            name, choice = self.joining.pop(), BackendChoice(TOY_BACKEND)
            worker, host = WorkerHandle(name, "node", (f"maker-{name}",)), self._host(HostSpec(name, choice, 1))
            new.append(Site(worker, choice, 1, host))
        self.sites |= {site.worker.id: site for site in new}
        if new:
            raise ClusterError("something went wrong when the workers were there already")
        return new

    def left(self) -> list[str]:
        return [name for name in self.sites if name in self.leaving]


def test_nodes_that_join_are_used_by_jobs_at_work_and_to_come_and_those_that_leave_by_none(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.opening.open_fleet", Growing)
    monkeypatch.setattr(Growing, "joining", [])
    monkeypatch.setattr(Growing, "leaving", [])
    one, two = toy(8, gate=gate, key=b"one"), toy(2, key=b"two")
    with standing(replace(local, in_flight=1)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("two", two)  # a key that is resident, and that no job is at work with
        jobs.proven("two", two)
        jobs.start("one", one)
        assert gate.held.wait(120)  # on the only worker
        Growing.joining.append("late")
        until(lambda: len(gate.came) >= 7, "the worker that joined proves the others")
        gate.open.set()
        facts = jobs.proven("one", one)
        proven = {worker["id"]: worker["partitions"] for worker in facts["workers"] if worker["role"] == "prover"}
        assert proven["late"] >= 6
        assert {worker.id: worker.lost for worker in scheduler.workers()} == {"prover-0": None, "late": None}
        Growing.leaving.append("prover-0")
        until(lambda: scheduler.workers()[0].lost is not None, "the scheduler notes that the node left")
        for name, system in (("one again", one), ("two again", two)):
            jobs.start(name, system)
            facts = jobs.proven(name, system)
            assert {worker["id"] for worker in facts["workers"]} == {"late", "maker-late"}
        assert [worker.lost for worker in scheduler.workers()] == ["its node left the cluster", None]
        Growing.leaving.append("late")
        until(lambda: scheduler.workers()[1].lost is not None, "the scheduler notes that the node left")
        jobs.start("none", one)
        assert "no prover is left (its node left the cluster" in str(jobs.ended("none"))
        Growing.joining.append("another")
        until(lambda: len(scheduler.workers()) == 3, "the scheduler notes that another joined")
        jobs.start("last", one)
        jobs.proven("last", one)


# -- trouble ------------------------------------------------------------------------------------------------------


def test_jobs_end_right_although_their_worker_dies(isolated: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:
    """Only the job at whose partition it died is charged; its partition fails in the end, where it kills for ever."""
    poison, other = toy(6), toy(6, key=b"another")
    poison.faults.kill_prover["p3"] = 99
    other = replace(other, faults=replace(other.faults, kill_prover={}, folder=tmp_path))
    settings = replace(isolated, max_retries=1, in_flight=1)
    with standing(settings) as scheduler:
        jobs = Jobs(scheduler, tmp_path / "runs")
        (tmp_path / "runs").mkdir()
        jobs.start("poison", poison)
        jobs.start("a", other)
        jobs.start("b", other)
        for name in ("a", "b"):
            report = jobs.proven(name, other)
            assert all(worker["status"] != "retired" for worker in report["workers"])
        error = jobs.ended("poison")
        assert isinstance(error, JobFailed)
        assert "p3" in str(error)
        report = read_report(tmp_path / "runs" / "poison")
        assert {p["name"]: p["status"] for p in report["partitions"] if p["status"] != "proved"} == {"p3": "failed"}
        assert report["counters"]["deaths"] == 2
        assert [worker.lost for worker in scheduler.workers()] == [None]
        jobs.start("c", other)
        jobs.proven("c", other)


def test_a_job_that_gives_up_a_worker_does_not_end_the_others(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate
) -> None:
    """A worker that several give up in a row is given up for all."""
    bad = toy(3, key=b"bad")
    bad.faults.fault.update(dict.fromkeys(("p0", "p1", "p2"), 99))
    good = replace(toy(3, key=b"good", gate=gate), faults=replace(bad.faults, fault={}))
    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("good", good)
        assert gate.held.wait(120)
        gate.open.set()
        jobs.start("bad", bad)
        assert isinstance(jobs.ended("bad"), JobFailed)
        jobs.proven("good", good)
        assert [worker.lost for worker in scheduler.workers()] == [None]
        jobs.start("good again", good)
        jobs.proven("good again", good)
        for number in range(MAX_GIVEN_UP):
            assert [worker.lost for worker in scheduler.workers()] == [None]
            jobs.start(f"bad-{number}", bad)
            assert isinstance(jobs.ended(f"bad-{number}"), JobFailed)
        assert [worker.lost for worker in scheduler.workers()] == [f"{MAX_GIVEN_UP} jobs in a row gave it up"]
        jobs.start("late", good)
        assert "no prover is left (3 jobs in a row gave it up" in str(jobs.ended("late"))


def test_a_job_that_is_stopped_leaves_nothing_behind(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, gate: Gate
) -> None:
    system = toy(20, gate=gate)
    with standing(replace(local, in_flight=1)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        client = jobs.start("a", system)
        assert gate.held.wait(120)
        client.stop(KeyboardInterrupt())
        assert isinstance(jobs.ended("a"), KeyboardInterrupt)
        assert "a" not in waiting(scheduler)
        gate.open.set()
        jobs.start("b", system)
        jobs.proven("b", system)
        assert [place.split()[0] for place in gate.came] == ["a", *["b"] * 20]


@pytest.mark.parametrize("isolate", [False, True])
def test_a_partition_of_a_job_that_is_stopped_is_given_up_at_its_next_step(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, isolate: bool
) -> None:
    """A worker was lost to all others for as long as its proof took. Nobody is to blame for it."""
    system = toy(2, gate=partial(step_by_step, tmp_path))
    with standing(replace(local, in_flight=1, isolate=isolate)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        client = jobs.start("long", system)
        until((tmp_path / "at-it").exists, "it is not begun")
        client.stop(KeyboardInterrupt())
        assert isinstance(jobs.ended("long"), KeyboardInterrupt)
        jobs.start("next", system)
        report = jobs.proven("next", system)
        assert not (tmp_path / "at-its-end").exists()
        assert report["counters"]["retries"] == 0
        assert [worker.lost for worker in scheduler.workers()] == [None]


@pytest.mark.parametrize(
    ("fault", "kind", "told"),
    [
        (RuntimeError("can't start new thread"), ResourceError, "can't start new thread; raise the limit"),
        (KeyError("no such slot"), ClusterError, "the scheduler failed: "),
    ],
)
def test_a_fault_of_the_scheduler_fails_its_jobs_and_the_next_are_proven(
    local: ExecutorSettings,
    toy: Toy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Exception,
    kind: type[Exception],
    told: str,
) -> None:
    """It does not run on with half of its effects."""
    system = toy(2)
    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system)
        jobs.proven("a", system)
        until(lambda: scheduler.ask(evict_oldest), "its key stays in use")

        epochs, handle = scheduler.ask(lambda state: state.epochs), Machine.handle

        def fails(machine: Machine, events: list[Any], *times: float) -> Any:
            if not any(isinstance(event, JobAdded) for event in events):
                return handle(machine, events, *times)
            monkeypatch.undo()
            raise fault

        monkeypatch.setattr(Machine, "handle", fails)
        jobs.start("b", system)
        error = jobs.ended("b")
        assert type(error) is kind
        assert told in str(error)
        assert scheduler.keys() == []
        jobs.start("c", system)
        jobs.proven("c", system)
        assert scheduler.evicted == 1, "a count that goes back reads as a restart"
        again = scheduler.ask(lambda state: [s.epoch for w in state.workers.values() for s in w.slots.values()])
        assert min(again) > epochs, "a late report of a former worker's death would count for the one of now"


def test_what_a_lost_fleet_says_of_a_key_comes_before_its_loss(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later the key may be that of the next fleet, which has not opened it."""
    system, posted, lost = toy(1), [], []
    with standing(local) as scheduler:
        post = scheduler._post

        def posts(event: Any) -> None:
            if isinstance(event, KeyOpened) and not lost:
                lost.append(in_background(lambda: scheduler._lost(scheduler.fleet, "it is gone")))
                wait(lost, 0.5)
            posted.append(type(event))
            post(event)

        monkeypatch.setattr(scheduler, "_post", posts)
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system)
        assert "it is gone" in str(jobs.ended("a"))
        lost[0].result()
        assert posted.index(KeyOpened) < posted.index(FleetLost)
        jobs.start("b", system)
        jobs.proven("b", system)


def test_a_worker_can_be_given_up_while_its_slot_is_made(local: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:
    """By a thread that hears of the workers' loss. That ended the jobs with a KeyError of the scheduler."""
    fleet = InstantFleet(local)
    system = toy(1)
    fleet.open(system)
    resident, site = Resident("key", system, fleet, lambda event: None, 5.0), fleet.sites["prover-0"]
    make = fleet.slot

    def makes(*args: Any) -> Any:
        resident.stop(wait=False)
        fleet.close(now=True)
        return make(*args)

    fleet.slot = makes  # type: ignore[method-assign]
    assert resident.slot(site) is fleet.slots[-1]
    fleet.slots[-1].end()


@pytest.mark.parametrize("threads", [0, 1])
def test_a_job_whose_proof_no_thread_can_verify_or_keep_fails_and_the_next_is_proven(
    local: ExecutorSettings, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Nothing waits for that thread afterwards: neither the next job nor the end."""
    system = toy(1)
    with standing(local) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(batches, "_IDLE", NoThreads(threads))
            jobs.start("a", system)
            error = jobs.ended("a")
        assert type(error) is ResourceError
        assert "can't start new thread" in str(error)
        jobs.start("b", system)
        jobs.proven("b", system)


def test_a_scheduler_that_is_closed_leaves_no_process_memory_or_thread(
    local: ExecutorSettings, toy: Toy, tmp_path: Path
) -> None:
    idle = "distprove-background"  # they wait for the next scheduler of this process

    def left() -> set[Any]:
        processes = {p.pid for p in psutil.Process().children(recursive=True)}
        threads = {t.ident for t in threading.enumerate() if t.name.startswith("distprove") and t.name != idle}
        shared = {name for name in os.listdir("/dev/shm") if "distprove" in name}
        return processes | threads | shared

    before, system, other = left(), toy(3), toy(3, key=b"another", verifies_in_python=True)
    with standing(replace(local, isolate=True)) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system)
        jobs.start("b", other)
        jobs.proven("a", system)
        jobs.proven("b", other)
        assert len(left() - before) > 4
    until(lambda: left() <= before, f"these are left: {left() - before}")
    with pytest.raises(ClusterError, match="was closed"):
        scheduler.start()


def test_a_fleet_that_opens_while_its_scheduler_is_closed_is_closed_too(local: ExecutorSettings) -> None:
    opens, go_on, closed, errors = threading.Event(), threading.Event(), list[bool](), list[BaseException]()

    class Slow(LocalFleet):
        def _open(self, *given: Any) -> None:
            opens.set()
            assert go_on.wait(60)
            super()._open(*given)

        def close(self, *, now: bool = False) -> None:
            super().close(now=now)
            closed.append(now)

    def starts() -> None:
        try:
            scheduler.start()
        except ClusterError as error:
            errors.append(error)

    scheduler = Scheduler(local, lambda: Slow(local), standing=True, kind=Slow.kind)
    starting = threading.Thread(target=starts)
    starting.start()
    assert opens.wait(60)
    scheduler.close()
    go_on.set()
    starting.join(60)
    assert [str(error) for error in errors] == ["the scheduler was closed"]
    assert closed == [True]
    assert scheduler.unopened


def test_a_run_names_the_fleet_that_proved_it(settings: ExecutorSettings, toy: Toy, tmp_path: Path) -> None:
    system = toy(1)
    with standing(settings) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        jobs.start("a", system)
        report = jobs.proven("a", system)
        assert report["executor"] == scheduler.fleet.kind == ("local" if settings.local else "ray")


def test_two_proof_systems_share_a_device(tmp_path: Path) -> None:
    """Groth16 and the STARK, on the CPU backend, each verified under its own key."""
    cpu = CpuBackend()
    circuit = synthetic_circuit(BN254, 50, cpu, public_inputs=2)
    setup(circuit.r1cs, insecure_dev=True, backend=cpu, out=tmp_path / "key.zkey")
    write_wtns(tmp_path / "w.wtns", BN254, circuit.witness)
    inputs = [InputFile(f"w{i}", tmp_path / "w.wtns") for i in range(3)]
    groth16 = Groth16System(tmp_path / "key.zkey", inputs)
    stark = StarkSystem.from_options(StarkOptions(program="fibonacci", arguments={"rows": 64}, partitions=2))
    with standing(ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")) as scheduler:
        jobs = Jobs(scheduler, tmp_path)
        for name, system in (("a", groth16), ("b", stark), ("c", stark), ("d", groth16)):
            jobs.start(name, system)
        for name, system in (("a", groth16), ("b", stark), ("c", stark), ("d", groth16)):
            jobs.proven(name, system)
        assert digests(scheduler) == {groth16.key_digest().hex(), stark.key_digest().hex()}
