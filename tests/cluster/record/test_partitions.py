"""The partitions of a run as its folder tells of them: before, during and after a session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.record.partitions import PartitionState, PartitionView, partition_views
from cluster.record.report import Report, WorkerReport
from cluster.record.run import Run
from cluster.record.status import FILE, StatusFile, status_view
from distprove.errors import FormatError, JobFailed, UsageError
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem
from tests.support.toy_tree import TreeSystem, tree_of

Make = Callable[..., Faults]
Prove = Callable[..., Proof]

HERE = ExecutorSettings(local=True, isolate=False)
TREE = tree_of(16)


def states(views: list[PartitionView]) -> dict[str, str]:
    return {view.name: view.state.value for view in views}


def test_of_a_run_that_was_never_begun_all_wait(faults: Make, tmp_path: Path) -> None:
    system = TreeSystem(16, faults())
    Run.create(tmp_path / "run", system, system.plan()).close()
    views = partition_views(tmp_path / "run")
    assert {view.name: tuple(view.needs) for view in views} == TREE
    assert set(states(views).values()) == {"waiting"}
    with pytest.raises(UsageError, match="is not a run"):
        partition_views(tmp_path)


def test_of_a_session_at_work_journal_and_status_tell(faults: Make, tmp_path: Path) -> None:
    system = ToySystem(5, faults())
    with Run.create(tmp_path / "run", system, system.plan()) as run:
        run.note("session", executor="local", partitions=5)
        run.note("proved", partition="p0", worker="prover-0", prove_seconds=0.5, verify_seconds=True)
        run.note("bad-proof", partition="p1", worker="prover-1", reason="it does not verify")
        run.note("bad-proof", partition="p1", worker="prover-1", reason="nor this time")
        run.note("failed", partition="p2", reason="the input does not hold")
        run.note("proved", partition="p4", worker="prover-0")
        run.note("damaged", partition="p4", reason="its file is cut")
        worker = WorkerReport("prover-1", "prover", "node-1")
        report = Report("toy", {}, "local", "00", [], [worker])
        with StatusFile(run.folder, lambda: []) as status:
            status.finish(status_view(report, {}, tasks={"prover-1": [["p1", "proving"], ["p0", "proving"]]}))
            p0, p1, p2, p3, p4 = partition_views(tmp_path / "run")
    assert p0 == PartitionView("p0", PartitionState.PROVED, [], worker="prover-0", prove_seconds=0.5)
    assert (p1.state, p1.stage, p1.worker, p1.faults) == (PartitionState.RUNNING, "proving", "prover-1", 2)
    assert p1.error == "nor this time"
    assert (p2.state, p2.error, p3.state) == (PartitionState.FAILED, "the input does not hold", PartitionState.WAITING)
    assert (p4.state, p4.faults) == (PartitionState.WAITING, 1)


def test_of_a_session_that_is_over_the_report_tells(faults: Make, run_toy: Prove, tmp_path: Path) -> None:
    run_toy(TreeSystem(16, faults(bad_proof={"leaf-03": 1})), HERE)
    views = {view.name: view for view in partition_views(tmp_path / "run")}
    assert set(states([*views.values()]).values()) == {"proved"}
    root, third = views["root"], views["leaf-03"]
    assert list(root.needs) == list(TREE["root"])
    assert root.worker is not None
    assert root.prove_seconds is not None
    assert (third.faults, third.error) == (1, None)


def test_what_failed_says_why(faults: Make, run_toy: Prove, tmp_path: Path) -> None:
    with pytest.raises(JobFailed):
        run_toy(ToySystem(3, faults(unsatisfied={"p1": 1})), HERE)
    views = {view.name: view for view in partition_views(tmp_path / "run")}
    assert views["p1"].state is PartitionState.FAILED
    assert views["p1"].error


def test_a_record_with_other_needs_is_refused(faults: Make, tmp_path: Path) -> None:
    system = TreeSystem(16, faults())
    Run.create(tmp_path / "run", system, system.plan()).close()
    record = json.loads((tmp_path / "run/job.json").read_text())
    del record["sha256"]
    record["partitions"][0]["needs"] = ["leaf-00", 7]
    (tmp_path / "run/job.json").write_text(json.dumps(record))
    with pytest.raises(FormatError, match="needs are no names"):
        partition_views(tmp_path / "run")


def test_a_status_that_is_none_is_refused(faults: Make, tmp_path: Path) -> None:
    system = ToySystem(1, faults())
    Run.create(tmp_path / "run", system, system.plan()).close()
    (tmp_path / "run" / FILE).write_text("{}")
    with pytest.raises(FormatError):
        partition_views(tmp_path / "run")
