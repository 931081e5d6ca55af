"""The dispatcher alone, over workers that are made up: what it hands out, and whom it holds for hung."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster.executor.base import Executor, WorkerHandle
from cluster.executor.tasks import Finished, Kind
from cluster.hangs import FACTOR, FIRST, GRACE, LOOK, Hung, Watch

from actors.inflight import Timed
from actors.processes import WorkerDied
from actors.worker import Batch, Loaded, Order, Outcome, Stretch
from cluster.driver import drive
from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from distprove.errors import ClusterError, InputError, JobFailed, UnsatisfiedWitness
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof, ProofSystem
from kernels.errors import OutOfMemory
from tests.support.toy_system import Faults, ToySystem


class MadeUp(Executor):
    """Workers that do one step of one partition whenever they are waited for: begin to prove, or end it."""

    kind = "made up"

    def __init__(self, settings: ExecutorSettings, workers: int, system: ToySystem) -> None:
        super().__init__(settings)
        self._count = workers
        self._toy = system
        self.preparing: dict[str, tuple[WorkerHandle, Order]] = {}
        """Handed out, and not yet with a prover."""
        self._proving: dict[str, tuple[WorkerHandle, Order]] = {}
        self.most = 0
        self.together: Counter[str] = Counter()
        """The most orders that each worker may have in the making or ready."""

    def start(self, system: ProofSystem) -> list[WorkerHandle]:
        self._system = system
        return [WorkerHandle(f"prover-{i}", "here", (f"synthesiser-{i}",)) for i in range(self._count)]

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        timed = Timed({"device": "none"}, 0.0, 0.0)
        self._done.put(Finished(Kind.LOAD, worker.id, Loaded(timed, dict.fromkeys(worker.synthesisers, timed))))

    def check(self, worker: WorkerHandle) -> None:
        self._done.put(Finished(Kind.CHECK, worker.id, Timed(None, 0.0, 0.0)))

    def hand(
        self, worker: WorkerHandle, orders: Sequence[Order], began: float = 0.0, parallel: int | None = None
    ) -> None:
        assert parallel is not None
        self.together[worker.id] = parallel
        self.preparing |= {order.partition.name: (worker, order) for order in orders}
        by_worker = Counter(worker.id for worker, _ in self.preparing.values())
        self.most = max(self.most, sum(min(count, self.together[name]) for name, count in by_worker.items()))

    def wait(self, timeout: float) -> list[Finished]:
        found = super().wait(0.001)
        if found:
            return found
        if self.preparing and len(self._proving) < self._count:
            name, (worker, order) = next(iter(self.preparing.items()))
            del self.preparing[name]
            self._proving[name] = (worker, order)
            return [self._news(worker, [])]
        if not self._proving:
            return super().wait(timeout)
        name, (worker, order) = next(iter(self._proving.items()))
        del self._proving[name]
        public = (order.partition.index**2, 0)
        data = {"tag": self._toy.tag(name, public, None), "challenge": None}
        made = Stretch("synthesiser-0", "synthesise", 1.0, 2.0, "{")
        proven = Stretch(worker.id, "prove", 2.0, 3.0, "{")
        proof = PartitionProof(name, order.partition.digest, public, data)
        return [self._news(worker, [Outcome(name, order.ask, worker.id, proof, stretches=[made, proven])])]

    def _news(self, worker: WorkerHandle, outcomes: list[Outcome]) -> Finished:
        here = [(name, "proving", worker.id) for name, (who, _) in self._proving.items() if who == worker]
        return Finished(Kind.BATCH, worker.id, Batch(outcomes, here))


@pytest.mark.parametrize(("parallel", "workers"), [(1, 4), (3, 4), (4, 4), (7, 3), (2, 1)])
def test_no_more_witnesses_are_asked_for_at_once_than_is_said(parallel: int, workers: int, tmp_path: Path) -> None:
    """And, where there are enough partitions, no fewer, whatever the workers: the rest is shared out."""
    system = ToySystem(40, Faults(tmp_path))
    settings = ExecutorSettings(local=True, parallel=parallel)
    run = Run.create(tmp_path / "run", system, system.plan())
    with run, MadeUp(settings, workers, system) as executor:
        drive(system, executor, run, settings).verify(system)
    assert executor.most == parallel


class Spread(MadeUp):
    """Workers that are each on a node of its own, some of which come to nothing with some partitions."""

    def __init__(self, workers: int, system: ToySystem, errors: dict[tuple[str, str], BaseException]) -> None:
        super().__init__(ExecutorSettings(local=True, parallel=1, max_retries=9), workers, system)
        self._errors = errors
        self.asked: list[tuple[str, str]] = []

    def start(self, system: ProofSystem) -> list[WorkerHandle]:
        return [WorkerHandle(w.id, "one address", w.synthesisers, f"node-{w.id}") for w in super().start(system)]

    def _news(self, worker: WorkerHandle, outcomes: list[Outcome]) -> Finished:
        for outcome in outcomes:
            self.asked.append((worker.id, outcome.name))
            outcome.error = self._errors.get((worker.id, outcome.name))
            if isinstance(outcome.error, InputError):
                outcome.worker = worker.synthesisers[0]
        return super()._news(worker, outcomes)


def proven(tmp_path: Path, executor: Spread, system: ToySystem) -> dict[str, Any]:
    with Run.create(tmp_path / "run", system, system.plan()) as run, executor, suppress(JobFailed):
        drive(system, executor, run, executor.settings).verify(system)
    report: dict[str, Any] = json.loads((tmp_path / "run" / "report.json").read_text())
    return report


def test_an_input_that_one_node_lacks_is_that_nodes_fault(tmp_path: Path) -> None:
    """A node is set aside when others took three in a row; a partition fails once two nodes say the same."""
    system = ToySystem(30, Faults(tmp_path))
    gone = {("prover-1", f"p{i}"): InputError("p: no such file") for i in range(30)}
    bad = {(f"prover-{i}", "p7"): UnsatisfiedWitness("p7: it does not hold") for i in (0, 2)}
    executor = Spread(3, system, {**gone, **bad})
    report = proven(tmp_path, executor, system)
    failed = [p for p in report["partitions"] if p["status"] != "proved"]
    assert [(p["name"], p["error_kind"]) for p in failed] == [("p7", "UnsatisfiedWitness")]
    retired = [w for w in report["workers"] if w["status"] == "retired" and w["role"] == "prover"]
    assert [w["id"] for w in retired] == ["prover-1"]
    assert "inputs in a row were refused there and taken on another node, the last: InputError" in retired[0]["reason"]
    assert len(set(executor.asked)) == len(executor.asked), "no node is asked twice"
    assert 3 <= sum(worker == "prover-1" for worker, _ in executor.asked) < 30


def test_what_fits_no_device_is_not_tried_for_ever(tmp_path: Path) -> None:
    system = ToySystem(4, Faults(tmp_path))
    executor = Spread(3, system, {(f"prover-{i}", "p1"): OutOfMemory("9 GiB") for i in range(3)})
    report = proven(tmp_path, executor, system)
    (failed,) = [p for p in report["partitions"] if p["status"] != "proved"]
    assert (failed["error"], failed["error_kind"]) == ("it fits no device here: 9 GiB", "OutOfMemory")
    assert [name for _, name in executor.asked].count("p1") == 2
    assert JobFailed("it failed", [failed["error_kind"]]).exit_code == 3


def test_what_does_not_fit_for_once_is_tried_again(tmp_path: Path) -> None:
    system = ToySystem(4, Faults(tmp_path))
    executor = Spread(2, system, {("prover-0", "p1"): OutOfMemory("9 GiB")})
    assert {p["status"] for p in proven(tmp_path, executor, system)["partitions"]} == {"proved"}


class Hanging(MadeUp):
    """Workers that die when they are interrupted, of which one hangs in its check of the key."""

    def __init__(self, workers: int, system: ToySystem, checks: int = 1) -> None:
        super().__init__(ExecutorSettings(local=True, parallel=1, max_retries=20), workers, system)
        self._checks = itertools.count(1)
        self._answered = checks
        self._permitted = False
        self.interrupted: list[str] = []
        self.passed = 0.0
        """Seconds that the driver believes to have passed beyond those that have."""

    def permit(self, worker: WorkerHandle) -> None:
        self._permitted = True

    def wait(self, timeout: float) -> list[Finished]:
        return super().wait(timeout) if self._permitted else Executor.wait(self, 0.01)

    def check(self, worker: WorkerHandle) -> None:
        if next(self._checks) >= self._answered:
            super().check(worker)
        else:
            self.passed += self.settings.start_timeout + 1.0

    def interrupt(self, worker: WorkerHandle, who: str) -> None:
        self.interrupted.append(who)
        for held in (self.preparing, self._proving):
            for name in [name for name, (with_it, _) in held.items() if with_it == worker]:
                del held[name]
        self._done.put(Finished(Kind.BATCH, worker.id, error=WorkerDied("it was killed")))


@pytest.mark.parametrize(("workers", "interrupted"), [(2, 1), (1, 2)])
def test_a_worker_that_hangs_again_is_set_aside_if_there_is_another(
    workers: int, interrupted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, hung = itertools.count(), Watch.hung

    def hangs(watch: Watch, worker: str) -> Hung | None:
        now = worker == "prover-0" and worker in watch._seen and next(left) in (3, 9)
        return Hung(worker, "it said nothing for 61 s") if now else hung(watch, worker)

    monkeypatch.setattr(Watch, "hung", hangs)
    monkeypatch.setattr("cluster.dispatch.trouble.LOOK", 0.0)
    system = ToySystem(40, Faults(tmp_path))
    executor = Hanging(workers, system)
    with Run.create(tmp_path / "run", system, system.plan()) as run, executor:
        drive(system, executor, run, executor.settings).verify(system)
    assert executor.interrupted == ["prover-0"] * interrupted
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    retired = {w["id"]: w["reason"] for w in report["workers"] if w["status"] == "retired" and w["role"] == "prover"}
    assert retired == ({"prover-0": "hung 2 times, the last: it said nothing for 61 s"} if workers == 2 else {})


class Occupied(MadeUp):
    """Workers for which there is no room until somebody has been told so."""

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        self.waiting = worker

    def queued(self, worker: WorkerHandle) -> bool:
        return True


def test_a_job_on_an_occupied_cluster_waits_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.dispatch.trouble.LOOK", 0.0)
    system = ToySystem(3, Faults(tmp_path))
    settings = ExecutorSettings(local=True, parallel=1, start_timeout=0.5)
    seen: list[str] = []

    def progress(event: Progress) -> None:
        if event.event == "waiting" and "room on the cluster" in str(event.detail):
            seen.append(str(event.detail))
            if len(seen) == 3:  # that took longer than a worker may take to start
                MadeUp.load(executor, executor.waiting)

    with Run.create(tmp_path / "run", system, system.plan()) as run, Occupied(settings, 1, system) as executor:
        drive(system, executor, run, settings, progress).verify(system)
    assert seen[0] == "room on the cluster, for 1 of 1 provers"
    assert [event["event"] for event in read_journal(tmp_path / "run")].count("queued") == 1


class Stranded(MadeUp):
    """The only worker comes to nothing, and another one joins once that was looked for some times."""

    grows = True

    def __init__(self, settings: ExecutorSettings, system: ToySystem) -> None:
        super().__init__(settings, 1, system)
        self.looked = 0

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        if worker.id == "prover-0":
            self._done.put(Finished(Kind.LOAD, worker.id, error=ClusterError("its node left the cluster")))
        else:
            super().load(worker, permitted)

    def newcomers(self) -> list[WorkerHandle]:
        self.looked += 1
        return [WorkerHandle("prover-1", "there", ("synthesiser-0",))] if self.looked == 5 else []


@pytest.mark.parametrize("patience", [None, 600.0])
def test_a_job_without_a_worker_waits_for_a_node_if_it_is_told_to(
    patience: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.dispatch.trouble.LOOK", 0.0)
    system = ToySystem(3, Faults(tmp_path))
    settings = ExecutorSettings(local=True, parallel=1, wait_for_nodes=patience)
    run, executor = Run.create(tmp_path / "run", system, system.plan()), Stranded(settings, system)
    with run, executor, nullcontext() if patience else pytest.raises(JobFailed, match="its node left the cluster"):
        drive(system, executor, run, settings).verify(system)
    stranded = [event["reason"] for event in read_journal(tmp_path / "run") if event["event"] == "stranded"]
    why = "no prover is left (could not load the key: its node left the cluster); a node may join for 600 s"
    assert stranded == ([why] if patience else [])


def test_a_job_waits_no_longer_for_a_node_than_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stranded, "newcomers", lambda self: [])
    system = ToySystem(3, Faults(tmp_path))
    settings = ExecutorSettings(local=True, parallel=1, wait_for_nodes=0.01)
    run, executor = Run.create(tmp_path / "run", system, system.plan()), Stranded(settings, system)
    with run, executor, pytest.raises(JobFailed, match="its node left the cluster"):
        drive(system, executor, run, settings)


def test_a_check_of_the_key_that_hangs_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = ToySystem(3, Faults(tmp_path))
    executor = Hanging(1, system, checks=2)
    clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: time.monotonic() + executor.passed})
    for module in ("state", "trouble"):
        monkeypatch.setattr(f"cluster.dispatch.{module}.time", clock)
    with Run.create(tmp_path / "run", system, system.plan()) as run, executor:
        drive(system, executor, run, executor.settings).verify(system)
    assert executor.interrupted == ["prover-0"]


def test_time_limits_follow_from_what_was_seen() -> None:
    watch, now = Watch(60.0, 3), 0.0

    def until_hung(saying: list[tuple[str, str, str]] | None, most: float) -> float | None:
        """Seconds until w0 counts as hung, which all the time says that it is at something (None: nothing)."""
        nonlocal now
        passed = 0.0
        while passed < most:
            now, passed = now + 1.0, passed + 1.0
            watch.look(now)
            if saying is not None:
                watch.heard("w0", saying)
            if watch.hung("w0") is not None:
                return passed
        return None

    watch.look(now)
    assert until_hung(None, 1000) is None, "never loaded"
    watch.heard("w0")
    assert until_hung(None, 1000) == 61
    at = [("p0", "proving", "w0"), ("p1", "synthesising", "s0"), ("p2", "ready", "w0")]
    assert until_hung(at[2:], 9000) is None, "it waits for others"
    assert until_hung(at, 5000) is None, "who knows how long it takes"
    assert until_hung(at, 5000) == pytest.approx(60 * FIRST - 5000, abs=2), "but not for ever"
    watch.took("prove", 1.0)
    watch.took("prove", 0.5)
    assert until_hung(at, 1) == 1
    watch.heard("w0", [])
    assert until_hung(at, 1000) == pytest.approx(3 * FACTOR * GRACE * 1.0, abs=2), "once more, and more patiently"
    watch.forget("w0")
    assert until_hung(None, 1000) is None
    watch.heard("w0")
    watch.look(now := now + 3600.0)
    assert watch.hung("w0") is None, f"nobody looked; that counts as {LOOK} s"
    watch.took("synthesise", 0.01)
    watch.heard("w0", [])
    hung = None
    for _ in range(62):
        watch.look(now := now + 1.0)
        watch.heard("w0", at[1:])
        hung = watch.hung("w0")
    assert hung is not None
    assert hung.who == "s0"
