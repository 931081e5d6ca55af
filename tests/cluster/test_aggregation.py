"""Where a job's proofs are aggregated: on a worker's device, on another if that fails, or on the driver's CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.driver import drive
from cluster.opening import open_scheduler
from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from distprove.errors import InvalidProof
from distprove.settings import ExecutorSettings
from tests.support.toy_aggregate import DEVICE, AggregatingToy
from tests.support.toy_system import Faults

Make = Callable[..., Faults]
PAIR = "tests.support.toy_system:TOY_PAIR"


class Aggregated:
    """What is left of a job: the kind of device, its process, and what the journal tells of aggregation."""

    def __init__(self, path: Path) -> None:
        kind, process = (path / "aggregate.msgpack").read_text().split()
        events = [event for event in read_journal(path) if event["event"].endswith("aggregated")]
        self.kind, self.here = kind, int(process) == os.getpid()
        self.failed = [(event["worker"], event["reason"]) for event in events if event["event"] == "not-aggregated"]
        self.worker = [event["worker"] for event in events if event["event"] == "aggregated"][-1]


@pytest.fixture
def proven(tmp_path: Path, run_toy: Callable[..., Any]) -> Callable[..., Aggregated]:
    def prove_toy(system: AggregatingToy, settings: ExecutorSettings, progress: Any = None, **kinds: Any) -> Aggregated:
        for name, value in kinds.items():
            setattr(system, name, value)
        run_toy(system, settings, progress)
        return Aggregated(tmp_path / "run")

    return prove_toy


def test_a_device_aggregates(settings: ExecutorSettings, faults: Make, proven: Callable[..., Aggregated]) -> None:
    made = proven(AggregatingToy(2, faults()), replace(settings, backend=DEVICE))
    assert (made.kind, made.failed) == ("toy", [])
    assert made.worker != "driver"
    assert made.here == (settings.local is True and settings.isolate is False)


def test_without_a_device_the_driver_does(local: ExecutorSettings, faults: Make, proven: Callable[..., Any]) -> None:
    made = proven(AggregatingToy(2, faults()), local)
    assert (made.kind, made.worker, made.here, made.failed) == ("cpu", "driver", True, [])


def test_what_is_small_is_done_at_once(local: ExecutorSettings, faults: Make, proven: Callable[..., Any]) -> None:
    made = proven(AggregatingToy(2, faults()), replace(local, backend=DEVICE), large=False)
    assert (made.kind, made.worker, made.failed) == ("cpu", "driver", [])


def test_a_worker_that_dies_leads_to_the_driver(
    isolated: ExecutorSettings, faults: Make, proven: Callable[..., Aggregated]
) -> None:
    made = proven(AggregatingToy(2, faults()), replace(isolated, backend=DEVICE), deaths=9)
    assert (made.kind, made.worker, made.here) == ("cpu", "driver", True)
    assert made.failed


def test_a_worker_that_dies_leads_to_another(
    local: ExecutorSettings, faults: Make, proven: Callable[..., Aggregated]
) -> None:
    given, ready = faults(holds={"": 0}), set[str | None]()

    def progress(event: Progress) -> None:
        if event.event == "worker-ready":
            ready.add(event.worker)
        if {"prover-0", "prover-1"} <= ready:  # both have loaded the key
            (given.folder / "go").touch()

    made = proven(AggregatingToy(16, given), replace(local, isolate=True, backend=PAIR), progress, deaths=1)
    assert (made.kind, made.here) == ("toy", False)
    ((died, _),) = made.failed
    assert {died, made.worker} == {"prover-0", "prover-1"}


def test_an_error_of_a_device_leads_to_the_driver(
    local: ExecutorSettings, faults: Make, proven: Callable[..., Aggregated]
) -> None:
    made = proven(AggregatingToy(2, faults()), replace(local, backend=DEVICE), errors=1)
    assert (made.kind, made.worker, made.failed) == ("cpu", "driver", [("prover-0", "the device is lost")])


def test_a_bad_aggregate_of_a_device_is_made_again(
    local: ExecutorSettings, faults: Make, proven: Callable[..., Aggregated]
) -> None:
    made = proven(AggregatingToy(2, faults()), replace(local, backend=DEVICE), bad="toy")
    assert (made.kind, made.worker) == ("cpu", "driver")
    assert made.failed == [("prover-0", "the aggregate does not verify")]


def test_a_bad_aggregate_of_the_driver_ends_the_job(
    local: ExecutorSettings, faults: Make, proven: Callable[..., Any]
) -> None:
    with pytest.raises(InvalidProof, match="does not verify"):
        proven(AggregatingToy(2, faults()), local, bad="cpu")


def test_a_resumed_job_that_is_proven_needs_no_worker(
    local: ExecutorSettings, faults: Make, tmp_path: Path, proven: Callable[..., Any]
) -> None:
    system, settings = AggregatingToy(2, faults()), replace(local, backend=DEVICE)
    assert proven(system, settings).worker == "prover-0"
    (tmp_path / "run" / "aggregate.msgpack").unlink()
    assert proven(system, settings).worker == "driver"


def test_workers_of_a_standing_scheduler_aggregate(local: ExecutorSettings, faults: Make, tmp_path: Path) -> None:
    settings = replace(local, backend=DEVICE)
    with open_scheduler(settings) as scheduler:
        for job in ("a", "b"):
            system = AggregatingToy(2, faults())
            with Run.create(tmp_path / job, system, system.plan()) as run, scheduler.lend(job=job) as executor:
                drive(system, executor, run, settings)
            made = Aggregated(tmp_path / job)
            assert (made.kind, made.worker, made.failed) == ("toy", "prover-0", [])
