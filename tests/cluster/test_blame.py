"""Which workers are given up for their failures, over sequences that are made up: by the rules of
`cluster.dispatch.trouble`, however often a worker succeeds in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cluster.executor.base import Executor, WorkerHandle
from cluster.executor.tasks import Finished, Kind

from actors.processes import WorkerDied
from actors.worker import Ask
from cluster.driver import drive
from cluster.record.run import Run
from distprove.errors import JobFailed
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof
from tests.cluster.test_dispatch import MadeUp
from tests.support.toy_system import Faults, ToySystem

HELD = 8
"""Orders that a worker here has at once: what of them it fails at before the first is judged comes on top."""
Fails = Callable[[str, str, int], bool]
"""Whether a worker fails at a partition, which is its so many-th order."""


class Failing(MadeUp):
    """Workers that fail as they are told, in one way: they die, come to a fault or give a bad proof."""

    def __init__(self, workers: int, system: ToySystem, how: str, fails: Fails) -> None:
        super().__init__(ExecutorSettings(local=True, parallel=64, in_flight=3), workers, system)
        self._how, self._fails = how, fails
        self.asked: Counter[str] = Counter()
        """Orders that each worker took to an end."""
        self.failed: Counter[str] = Counter()
        self._unverified = 0

    def verify(self, proofs: Sequence[PartitionProof], worker: WorkerHandle, *, last: bool = False) -> None:
        self._unverified += len(proofs)
        super().verify(proofs, worker, last=True)

    def wait(self, timeout: float) -> list[Finished]:
        """One step of one worker, after all that was proven before is verified: it takes seconds to prove."""
        found = Executor.wait(self, 0.5) if self._unverified else super().wait(timeout)
        self._unverified -= sum(len(each.value) for each in found if each.kind is Kind.VERIFY)
        return found

    def retire(self, worker: WorkerHandle) -> None:
        """Drop what a worker has."""
        for held in (self.preparing, self._proving):
            for name in [name for name, (with_it, _) in held.items() if with_it == worker]:
                del held[name]

    def _news(self, worker: WorkerHandle, outcomes: list[Any]) -> Finished:
        for outcome in outcomes:
            if outcome.ask is Ask.DIAGNOSE:
                continue
            self.asked[worker.id] += 1
            if not self._fails(worker.id, outcome.name, self.asked[worker.id]):
                continue
            self.failed[worker.id] += 1
            if self._how == "dies":
                self.retire(worker)
                return Finished(Kind.BATCH, worker.id, error=WorkerDied("it crashed", ("", outcome.name)))
            if self._how == "fault":
                outcome.error = RuntimeError("device fault")
            else:
                outcome.value = replace(outcome.value, data={**outcome.value.data, "tag": "of another"})
        return super()._news(worker, outcomes)


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a proof takes seconds."""
    monkeypatch.setattr("cluster.dispatch.handing.CHUNK", 0.0)


HOW = pytest.mark.parametrize("how", ["dies", "fault", "bad proof"])


def of(one: str, every: int) -> Fails:
    """One worker fails at every so many-th order."""
    return lambda worker, name, number: worker == one and number % every == 0


def proven(tmp_path: Path, workers: int, partitions: int, how: str, fails: Fails) -> tuple[dict[str, Any], Failing]:
    """The report of a job with these failures."""
    system = ToySystem(partitions, Faults(tmp_path))
    executor = Failing(workers, system, how, fails)
    with Run.create(tmp_path / "run", system, system.plan()) as run, executor, suppress(JobFailed):
        drive(system, executor, run, executor.settings).verify(system)
    return json.loads((tmp_path / "run" / "report.json").read_text()), executor


def retired(report: dict[str, Any]) -> list[str]:
    return [w["id"] for w in report["workers"] if w["status"] == "retired" and w["role"] == "prover"]


@HOW
@pytest.mark.parametrize("every", [2, 4, 6])
def test_a_worker_that_fails_again_and_again_is_given_up_whatever_it_proves_in_between(
    how: str, every: int, tmp_path: Path
) -> None:
    """Three failures in a row never come where every other proof is good: 22 of 96 were bad before it was given up."""
    report, executor = proven(tmp_path, 4, 200, how, of("prover-1", every))
    assert report["status"] == "proved"
    assert retired(report) == ["prover-1"]
    assert 3 <= executor.failed["prover-1"] <= HELD
    (reason,) = [w["reason"] for w in report["workers"] if w["id"] == "prover-1"]
    assert "in a row" in reason or "which another proved" in reason


@HOW
def test_a_worker_that_fails_seldom_is_kept(how: str, tmp_path: Path) -> None:
    report, executor = proven(tmp_path, 4, 600, how, of("prover-1", 30))
    assert report["status"] == "proved"
    assert executor.failed["prover-1"] >= 3
    assert retired(report) == []


@pytest.mark.parametrize(
    ("how", "poison"),
    [
        *((how, range(5, 200, 10)) for how in ("dies", "fault", "bad proof")),
        ("dies", range(100, 106)),  # what a death takes with it goes to others: faults in a row are one worker's
    ],
)
def test_partitions_at_which_every_worker_fails_cost_no_worker(how: str, poison: range, tmp_path: Path) -> None:
    """They fail, after as many attempts as the settings allow; all others are proven, by all workers."""
    names = {f"p{i}" for i in poison}
    report, _ = proven(tmp_path, 4, 200, how, lambda worker, name, number: name in names)
    assert retired(report) == []
    assert {p["name"] for p in report["partitions"] if p["status"] == "failed"} == names


@HOW
def test_a_bad_worker_is_found_among_partitions_at_which_every_worker_fails(how: str, tmp_path: Path) -> None:
    names, bad = {f"p{i}" for i in range(7, 300, 40)}, of("prover-1", 3)
    fails: Fails = lambda worker, name, number: name in names or bad(worker, name, number)  # noqa: E731
    report, _ = proven(tmp_path, 4, 300, how, fails)
    assert retired(report) == ["prover-1"]
    assert {p["name"] for p in report["partitions"] if p["status"] == "failed"} == names


@HOW
def test_the_last_worker_is_kept_while_it_proves(how: str, tmp_path: Path) -> None:
    report, _ = proven(tmp_path, 1, 60, how, of("prover-0", 4))
    assert (report["status"], retired(report)) == ("proved", [])


@HOW
def test_what_failed_is_not_tried_again_where_it_failed(how: str, tmp_path: Path) -> None:
    """A partition did not survive a worker that always dies: that one was given it up to the last attempt."""
    seen: Counter[tuple[str, str]] = Counter()

    def fails(worker: str, name: str, number: int) -> bool:
        seen[worker, name] += 1
        return worker == "prover-1"

    report, executor = proven(tmp_path, 3, 30, how, fails)
    assert report["status"] == "proved"
    assert executor.failed["prover-1"] <= HELD
    assert max(seen.values()) == 1
