"""STARK jobs through the driver: the same proof whoever proves it, and whatever happens on the way."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from distprove.errors import InputError, JobFailed
from distprove.job import Job
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from distprove.stark.params import Parameters
from distprove.stark.plan import plans
from distprove.stark.programs import load_program
from distprove.stark.shape import ProofShape
from distprove.stark.statement import Statement
from distprove.stark.system import StarkSystem
from kernels.cpu.backend import CpuBackend
from tests.support.dying_stark import DyingSystem
from tests.support.ray_nodes import joined_node, submit

PARTITIONS = 5
PARAMS = Parameters(log_blowup=1, queries=20, grinding_bits=2, security_bits=1)
LOCAL = ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu")
RAY = ExecutorSettings(local=False, backend="cpu", threads=1)


def fibonacci(partitions: int = PARTITIONS) -> StarkSystem:
    return StarkSystem(load_program("fibonacci", {"rows": 16}), PARAMS, partitions)


def run_job(path: Path, system: StarkSystem, settings: ExecutorSettings) -> dict[str, Any]:
    """Prove, or resume, in `path`; the report."""
    opened = Run.open(path) if path.exists() else Run.create(path, system, system.plan())
    with opened as run, open_client(settings) as executor:
        drive(system, executor, run, settings).verify(system)
    return json.loads((path / "report.json").read_text())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """proof.msgpack of one prover in this process."""
    path = tmp_path_factory.mktemp("stark") / "run"
    run_job(path, fibonacci(), LOCAL)
    return (path / "proof.msgpack").read_bytes()


def provers_of(report: dict[str, Any]) -> list[int]:
    """Partitions that each prover proved."""
    return [w["partitions"] for w in report["workers"] if w["role"] == "prover"]


@pytest.mark.parametrize("count", [2, 4])
def test_any_number_of_provers_gives_the_same_proof(
    tmp_path: Path, expected: bytes, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.executor.local.local_devices", lambda settings: list(range(count)))
    monkeypatch.setattr("actors.prover.make_backend", lambda choice, *_: CpuBackend(threads=1))
    report = run_job(tmp_path / "run", fibonacci(), LOCAL)
    assert len(provers_of(report)) == count
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == expected


def test_workers_and_verifiers_in_processes_give_the_same_proof(tmp_path: Path, expected: bytes) -> None:
    report = run_job(tmp_path / "run", fibonacci(), replace(LOCAL, isolate=True))
    assert {p["attempts"] for p in report["partitions"]} == {1}
    assert len({w["facts"]["pid"] for w in report["workers"]} | {os.getpid()}) == len(report["workers"]) + 1
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == expected


@pytest.mark.parametrize(("room", "again"), [(0, PARTITIONS), (1, PARTITIONS - 1)])
def test_little_device_memory_gives_the_same_proof(
    tmp_path: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch, room: int, again: int
) -> None:
    """Streamed; what cannot be kept across the barrier is committed to again."""
    (plan,) = (p for p in plans(ProofShape(fibonacci().key, (4,)), key_streamed=False) if p.streamed)
    budget = (plan.peak + room * plan.held) * 64 // 63 + 1
    monkeypatch.setattr("actors.prover.make_backend", lambda choice, *_: CpuBackend(threads=1, budget=budget))
    report = run_job(tmp_path / "run", fibonacci(), LOCAL)
    assert sum("main_tree" in p["steps"] for p in report["partitions"]) == again
    assert "streamed" in {p["memory"]["plan"] for p in report["partitions"]}
    assert all(p["memory"]["predicted"] <= budget for p in report["partitions"])
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == expected


def test_partitions_that_do_not_fit_each_other_fail_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second does not go on where the first ended: that is seen before either is proven."""
    system = fibonacci(2)
    slices = system.program.slices(3)
    monkeypatch.setattr(system.program, "slices", lambda partitions: [slices[0], slices[2]])
    monkeypatch.setattr("distprove.stark.system.prove", lambda *given: pytest.fail("a partition is proven"))
    with pytest.raises(JobFailed, match="as one job: start of partition 1 is not end"):
        run_job(tmp_path / "run", system, LOCAL)
    assert not (tmp_path / "run" / "proof.msgpack").exists()


def test_a_false_statement_fails_its_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = fibonacci(2)
    honest = system.program.trace

    def lying(inputs: Any, backend: Any) -> Any:
        trace = honest(inputs, backend)
        if trace.public[0]:  # the last partition's
            trace.public = (*trace.public[:3], 7)
        return trace

    monkeypatch.setattr(system.program, "trace", lying)
    assert system.program.statement != Statement()
    with pytest.raises(JobFailed, match="1 of 2 partitions failed: part-0001"):
        run_job(tmp_path / "run", system, LOCAL)


def test_a_run_is_not_resumed_about_another_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(300))
    job = Job.from_options("stark", program="file-root", arguments={"file": "file"}, base=tmp_path)
    system = fibonacci()  # whichever: what counts here is the job's file
    with Run.create(tmp_path / "run", system, system.plan(), job) as run:
        run.check_plan(system, system.plan())
        (tmp_path / "file").write_bytes(bytes(301))
        with pytest.raises(InputError, match="changed since the run began: file"):
            run.check_plan(system, system.plan())


@pytest.mark.ray
@pytest.mark.slow
def test_ray_gives_the_same_proof_on_one_node_two_and_four(ray_cluster: Any, tmp_path: Path, expected: bytes) -> None:
    added: list[Any] = []
    try:
        for count in (1, 2, 4):
            while len(added) < count - 1:
                added.append(joined_node(ray_cluster))
            run = tmp_path / str(count)
            assert len(provers_of(run_job(run, fibonacci(), RAY))) == count
            assert (run / "proof.msgpack").read_bytes() == expected
    finally:
        for node in added:
            ray_cluster.remove_node(node, allow_graceful=False)


@pytest.mark.ray
@pytest.mark.slow
def test_a_prover_that_dies_after_the_barrier_costs_only_time(
    ray_cluster: Any, tmp_path: Path, expected: bytes
) -> None:
    system = DyingSystem(load_program("fibonacci", {"rows": 16}), PARAMS, PARTITIONS, tmp_path)
    report = run_job(tmp_path / "run", system, RAY)
    assert report["counters"]["deaths"] == 1
    assert (tmp_path / "run" / "proof.msgpack").read_bytes() == expected


@pytest.mark.ray
@pytest.mark.slow
def test_a_submitted_job_is_proven(ray_cluster: Any, tmp_path: Path) -> None:
    """As the README shows it: the driver runs on the cluster, and finds its Ray."""
    (tmp_path / "job.toml").write_text(
        'system = "stark"\nprogram = "fibonacci"\npartitions = 3\narguments = { rows = "2^4" }\n'
    )
    command = [sys.executable, "-m", "distprove", "prove", tmp_path / "job.toml", "--out", tmp_path / "run"]
    done = submit(ray_cluster, *command, "--backend", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout + done.stderr
    proof = Proof.read(tmp_path / "run" / "proof.msgpack")
    assert [p.name for p in proof.partitions] == ["part-0000", "part-0001", "part-0002"]
    assert json.loads((tmp_path / "run" / "report.json").read_text())["executor"] == "ray"
