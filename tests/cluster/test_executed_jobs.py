"""Jobs whose program runs once to know its partitions: on one machine, over processes and Ray, and on resume."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import distprove
from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from distprove.errors import InputError, UsageError
from distprove.job import Job
from distprove.settings import ExecutorSettings
from distprove.stark.options import StarkOptions
from distprove.stark.plan import fits, plans
from distprove.stark.programs import load_program
from distprove.stark.shape import ProofShape
from distprove.stark.system import StarkSystem
from distprove.stark.verifying_key import compile_program
from tests.cluster.test_stark_jobs import LOCAL, PARAMS, RAY
from tests.support.collatz import Collatz

COLLATZ = "tests.support.collatz:Collatz"
SEGMENTS = 7
"""Collatz's steps from 27 are 111."""


def options(log: Path | None = None, **given: Any) -> StarkOptions:
    arguments = {"log": str(log)} if log is not None else {}
    return StarkOptions(COLLATZ, arguments=arguments, security=20, grinding=2, **given)


def run_job(path: Path, system: StarkSystem, settings: ExecutorSettings) -> bytes:
    opened = Run.open(path) if path.exists() else Run.create(path, system, system.plan())
    with opened as run, open_client(settings) as executor:
        drive(system, executor, run, settings).verify(system)
    return (path / "proof.msgpack").read_bytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return run_job(tmp_path_factory.mktemp("collatz") / "run", StarkSystem.from_options(options()), LOCAL)


def test_execution_says_how_many_partitions_there_are() -> None:
    system = StarkSystem.from_options(options())
    plan = system.plan()
    assert system.partitions == len(plan) == SEGMENTS
    heights = system.log_heights
    assert heights is not None
    assert [h for _, h in heights].count(None) < SEGMENTS
    with pytest.raises(UsageError, match="7 segments, not 3"):
        StarkSystem.from_options(options(partitions=3))
    assert len(StarkSystem.from_options(options(partitions=SEGMENTS)).plan()) == SEGMENTS


def test_it_runs_once_for_a_job_in_the_drivers_process(tmp_path: Path, expected: bytes) -> None:
    log = tmp_path / "log"
    system = StarkSystem.from_options(options(log))
    assert run_job(tmp_path / "run", system, replace(LOCAL, isolate=True)) == expected
    assert log.read_text().split() == [str(os.getpid())]


def test_workers_get_no_other_partitions_slices(expected: bytes) -> None:
    system = StarkSystem.from_options(options())
    system.plan()
    carried = pickle.loads(pickle.dumps(system))
    assert carried._cut is None
    assert "_plan" not in vars(carried)
    assert carried.log_heights == system.log_heights


def test_what_was_proven_is_kept_when_a_run_is_resumed(tmp_path: Path, expected: bytes) -> None:
    """The program is executed again, as nothing of what it gave is in the run."""
    path, log = tmp_path / "run", tmp_path / "log"
    assert run_job(path, StarkSystem.from_options(options()), LOCAL) == expected
    (path / "proof.msgpack").unlink()
    kept = sorted((path / "partitions").iterdir())
    for file in kept[: len(kept) // 2]:
        file.unlink()
    assert run_job(path, StarkSystem.from_options(options(log)), LOCAL) == expected
    assert len(log.read_text().split()) == 1
    other = StarkSystem(Collatz(26), PARAMS, 1)
    with pytest.raises(InputError), Run.open(path) as run:
        run.check_plan(other, [])


def test_ray_gives_the_same_proof(ray_cluster: Any, tmp_path: Path, expected: bytes) -> None:
    assert run_job(tmp_path / "run", StarkSystem.from_options(options()), RAY) == expected


def test_it_is_verified_as_any_other(tmp_path: Path, expected: bytes) -> None:
    (tmp_path / "proof.msgpack").write_bytes(expected)
    verified = distprove.verify(tmp_path / "proof.msgpack", program=COLLATZ, least_security=20)
    assert verified.partitions == SEGMENTS


# -- the number of partitions, where nothing is executed --------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(50_000))
    return path


def test_memory_decides_where_any_number_would_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on every machine: the prover's own memory is not asked."""
    program = load_program("file-root", {"file": str(file)})
    key = compile_program(program, PARAMS)
    assert fits(key, program.log_heights(1))
    made = StarkSystem.from_options(StarkOptions("file-root", arguments={"file": str(file)}))
    assert made.partitions == 1
    peaks = {
        count: max(plans(ProofShape(key, tuple(h)), key_streamed=False)[0].peak for h in program.log_heights(count))
        for count in range(1, 17)
    }
    least = {room: min(n for n in peaks if peaks[n] <= room) for room in (peaks[n] for n in range(1, 9))}
    assert set(least.values()) - {1, 2, 4, 8}  # partitions may be filled where halves are half empty
    for room, count in (*least.items(), (0, program.counts[-1])):
        monkeypatch.setattr("distprove.stark.plan.PARTITION_BYTES", room)
        assert StarkSystem.from_options(StarkOptions("file-root", arguments={"file": str(file)})).partitions == count


def test_programs_whose_partitions_multiply_are_not_cut_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distprove.stark.plan.PARTITION_BYTES", 0)
    for name in ("fibonacci", "range-check", "keccak-f"):
        assert StarkSystem.from_options(StarkOptions(name)).partitions == 1


def test_a_job_says_nothing_of_the_number_and_is_resumed_all_the_same(file: Path, tmp_path: Path) -> None:
    job = Job.from_options("stark", program="file-root", arguments={"file": str(file)}, base=tmp_path)
    assert job.options.partitions is None  # type: ignore[attr-defined]
    record = json.loads(json.dumps(job.to_record()))
    assert Job.from_record(record).load().plan()[0].digest == job.load().plan()[0].digest
