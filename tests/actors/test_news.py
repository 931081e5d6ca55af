"""When a worker tells what came of a job's orders."""

from __future__ import annotations

from actors.worker import FEW, Ask, Order, Outcome, _Job, _Order
from cluster.dispatch.state import Partitions, Stage
from cluster.record.report import PartitionReport
from distprove.system import Partition


def partition(index: int) -> Partition:
    return Partition(index, f"p{index}", b"", {})


def job(done: int, under_way: int, waiting: int) -> _Job:
    """A job that was told of before, and of which so much is done and not told, at work, and waiting."""
    made = _Job("job", first=False)
    made.batch.outcomes = [Outcome(f"done-{index}", Ask.PROVE, "prover-0") for index in range(done)]
    made.under_way = {f"begun-{index}": ("proving", "prover-0") for index in range(under_way)}
    for index in range(waiting):
        order = Order(partition(index), Ask.PROVE)
        made.waiting.append(_Order(order, made, Outcome(order.partition.name, order.ask, "prover-0")))
    return made


def test_the_last_proofs_are_told_in_ever_smaller_batches() -> None:
    left, told = 200, []
    done = 0
    while left:
        left, done = left - 1, done + 1
        if job(done, min(3, left), left - min(3, left)).is_urgent:
            told.append(done)
            done = 0
    assert done == 0, "the last proof is told at once"
    assert told == [100, 50, 25, 13, FEW, 4]
    assert not job(0, 3, 0).is_urgent
    assert not job(FEW - 1, 1, 0).is_urgent


def test_verifying_and_keeping_wait_for_no_more_than_are_there() -> None:
    plan = [partition(index) for index in range(10)]
    partitions = Partitions(plan, [PartitionReport(each.name) for each in plan], {})
    found = []
    for each in partitions.values():
        partitions.move(each, Stage.VERIFYING)
        found.append((partitions.ends(Stage.VERIFYING), partitions.ends(Stage.KEEPING)))
    assert found == [(False, False)] * 4 + [(True, False)] * 6
    for each in list(partitions.values())[:6]:
        partitions.move(each, Stage.KEEPING)
        found.append((partitions.ends(Stage.VERIFYING), partitions.ends(Stage.KEEPING)))
    assert [keeps for _, keeps in found[10:]] == [False] * 4 + [True] * 2
    assert all(verifies for verifies, _ in found[10:])
