"""When a worker tells what came of a job's orders."""

from __future__ import annotations

from typing import Any

from actors.protocol import Batch, Outcome, WorkKind
from actors.worker import FEW, _News
from cluster.record.report import PartitionReport, Report
from cluster.record.timeline import Session
from cluster.scheduler.jobs import Job
from cluster.scheduler.rules import Stage
from distprove.system import Partition, PartitionId


def partition(index: int) -> Partition:
    return Partition(index, f"p{index}", b"", {})


def news(done: int, *, prompt: bool = False) -> _News:
    """News of so many proofs, of a job that was told of before, unless they are `prompt`."""
    outcomes = [Outcome(PartitionId("job", f"p{index}"), WorkKind.PROVE, "prover-0") for index in range(done)]
    return _News(Batch(outcomes), prompt=prompt)


def test_the_last_proofs_are_told_in_ever_smaller_batches() -> None:
    left, told = 200, []
    done = 0
    while left:
        left, done = left - 1, done + 1
        if news(done).is_urgent(left, 1):
            told.append(done)
            done = 0
    assert done == 0, "the last proof is told at once"
    assert told == [100, 50, 25, 13, FEW, 4]
    assert not news(0).is_urgent(3, 1)
    assert not news(FEW - 1).is_urgent(1, 1)


def test_the_first_and_last_proofs_of_a_job_are_told_at_once_unless_many_jobs_are_at_work() -> None:
    """A thousand jobs of one partition each would be told one by one."""
    assert news(1, prompt=True).is_urgent(500, 2)
    assert not news(1).is_urgent(500, 2)
    assert not news(1, prompt=True).is_urgent(500, 500)


def test_verifying_and_keeping_wait_for_no_more_than_are_there() -> None:
    plan = [partition(index) for index in range(10)]
    report = Report("toy", {}, "local", "", [PartitionReport(each.name) for each in plan])
    system: Any = None
    job = Job("", "key", system, plan, report, Session(executor="local"), max_retries=3)
    partitions = list(job.partitions.values())
    found = []
    for each in partitions:
        job.move(each, Stage.VERIFYING)
        found.append((job.ends(Stage.VERIFYING), job.ends(Stage.KEEPING)))
    assert found == [(False, False)] * 4 + [(True, False)] * 6
    for each in partitions[:6]:
        job.move(each, Stage.KEEPING)
        found.append((job.ends(Stage.VERIFYING), job.ends(Stage.KEEPING)))
    assert [keeps for _, keeps in found[10:]] == [False] * 4 + [True] * 2
    assert all(verifies for verifies, _ in found[10:])
