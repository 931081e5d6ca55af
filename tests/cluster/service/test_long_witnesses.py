"""Programs that make witnesses for ever: who is cancelled is rid of them, and nobody waits behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from actors.rooms import RoomsHere
from cluster.executor.local import LocalFleet
from cluster.scheduler.resident import Resident
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobRequest, JobState, JobView, Priority
from distprove.circuits.builder import CircuitBuilder
from distprove.groth16.setup import setup
from distprove.settings import ExecutorSettings
from distprove.stark.programs.fibonacci import Fibonacci
from kernels.cpu.backend import CpuBackend
from kernels.maths.curves import BN254
from tests.support.await_end import await_end
from tests.support.toy_program import FOREVER, toy_program

PATIENCE = 120.0
"""Seconds, far below the 600 s of CPU time that a program has."""
LOOPS = 13
TRANSPORTS = {
    "threads": ExecutorSettings(local=True, isolate=False, threads=2, backend="cpu"),
    "processes": ExecutorSettings(local=True, isolate=True, threads=2, backend="cpu"),
}
FIBONACCI = {"system": "stark", "program": "fibonacci", "partitions": 1, "arguments": {"rows": 16}}


class Endless(Fibonacci):
    """A user's program that reads its inputs for ever, if it starts from 13."""

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        while source["left"] == LOOPS:
            time.sleep(0.01)
        return super().inputs(source)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key for the toy program, which runs for ever for inputs that begin with 13."""
    made = tmp_path_factory.mktemp("files")
    circuit = CircuitBuilder(BN254)
    x = circuit.public_input("x", 2)
    circuit.assert_product(x[0], circuit.constant(1), x[0], "it is what it is")
    with CpuBackend() as cpu:
        setup(circuit.build().r1cs, insecure_dev=True, backend=cpu, out=made / "toy.zkey")
    loop = f"(if (i32.eq (i32.load (i32.const 288)) (i32.const {LOOPS})) (then {FOREVER}))"
    (made / "toy.wasm").write_bytes(toy_program(run=loop))
    return made


@pytest.fixture(params=TRANSPORTS)
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "service", TRANSPORTS[request.param], Limits(running=8, allow_code=True))
    made.start()
    yield made
    made.close(drain=False)


def toy(folder: Path, *first: int) -> dict[str, Any]:
    inputs = [{"x": [each, 2]} for each in first]
    return {"system": "groth16", "zkey": str(folder / "toy.zkey"), "wasm": str(folder / "toy.wasm"), "inputs": inputs}


def submit(service: Service, id: str, job: dict[str, Any], priority: Priority = Priority.NORMAL) -> str:
    return service.submit(JobRequest(id, job, priority=priority)).id


def until(holds: Callable[[], bool], what: str) -> None:
    late = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < late, what
        time.sleep(0.02)


def threads_leased(service: Service) -> int:
    """Threads that hold leases to make witnesses."""
    fleet = service._scheduler.fleet
    assert isinstance(fleet, LocalFleet)
    return fleet.governor._state.threads


def residents(service: Service) -> dict[str, Resident]:
    """Keys that are resident, or to be."""
    return service._scheduler._residents


def proved(service: Service, id: str) -> JobView:
    view = await_end(service, id, PATIENCE)
    assert view.state is JobState.PROVED, (view.state, view.error)
    return view


def test_a_cancelled_job_is_rid_of_its_witness_program(service: Service, folder: Path) -> None:
    submit(service, "loop", toy(folder, LOOPS))
    until(lambda: threads_leased(service) > 0, "it is not at work")
    service.cancel("loop")
    assert await_end(service, "loop", PATIENCE).state is JobState.CANCELLED
    until(lambda: not threads_leased(service), "the program goes on")
    submit(service, "next", toy(folder, 1))
    assert proved(service, "next").cold is False


def test_no_job_waits_behind_the_witness_programs_of_others(service: Service, folder: Path) -> None:
    """Of the same key and of another one, which the programs kept from the threads that it needs."""
    for number in range(3):
        submit(service, f"loop-{number}", toy(folder, LOOPS, LOOPS), Priority.LOW)
    until(lambda: threads_leased(service) > 0, "they are not at work")
    submit(service, "other-key", FIBONACCI, Priority.URGENT)
    submit(service, "same-key", toy(folder, 1, 2))
    submit(service, "last", toy(folder, 3), Priority.LOW)
    for id in ("other-key", "same-key", "last"):
        proved(service, id)
    assert {service.job(f"loop-{number}").state for number in range(3)} == {JobState.RUNNING}


def test_a_thread_that_cannot_be_started_is_tried_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under a limit of processes: the worker's looks at its long witnesses go on."""
    begin, refused = threading.Thread.start, list[str]()

    def start(thread: threading.Thread) -> None:
        if thread.name == "distprove-prover-0-beside" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr("actors.patience.WITNESS_CANCELLED", 0.5)
    service = Service(tmp_path / "service", TRANSPORTS["threads"], Limits(running=8))
    service.start()
    try:
        submit(service, "loop", toy(folder, LOOPS, LOOPS), Priority.LOW)
        until(lambda: threads_leased(service) > 0, "it is not at work")
        submit(service, "next", toy(folder, 1))
        proved(service, "next")
        assert refused
    finally:
        service.close(drain=False)


def test_a_users_program_that_does_not_end_costs_its_process(folder: Path, tmp_path: Path) -> None:
    """It asks nobody whether it is called off."""
    program = f"{__name__}:Endless"
    job = {**FIBONACCI, "program": program, "queries": 5, "security": 1}
    service = Service(tmp_path / "service", TRANSPORTS["processes"], Limits(running=8, allow_code=True))
    service.start()
    try:
        submit(service, "loop", {**job, "arguments": {"rows": 16, "first": LOOPS}})
        until(lambda: threads_leased(service) > 0, "it is not at work")
        service.cancel("loop")
        assert await_end(service, "loop", PATIENCE).state is JobState.CANCELLED
        until(lambda: not threads_leased(service), "the program goes on")
        submit(service, "next", {**job, "arguments": {"rows": 16, "first": 1}})
        proved(service, "next")
        assert [worker.lost for worker in service.overview().workers] == [None]
    finally:
        service.close(drain=False)


def endless_start(folder: Path, number: int) -> dict[str, Any]:
    """A job whose program runs for ever when it is loaded, under a key of its own."""
    program = folder / f"start-{number}.wasm"
    start = f"(func $start {FOREVER}) (start $start)"
    program.write_bytes(toy_program(imports=start, message=f"program {number}"))
    return {**toy(folder, 1), "wasm": str(program)}


def test_an_urgent_key_is_loaded_before_others_that_wait(folder: Path, service: Service) -> None:
    """Keys were loaded in the order in which they came: behind ten such programs an urgent job waited for 49 s."""
    loops = [submit(service, f"loop-{n}", endless_start(folder, n), Priority.LOW) for n in range(6)]
    until(lambda: service.job(loops[-1]).state is JobState.RUNNING, "they have not begun")
    submit(service, "urgent", FIBONACCI, Priority.URGENT)
    proved(service, "urgent")
    assert JobState.RUNNING in {service.job(id).state for id in loops}
    for id in loops:
        service.cancel(id)


def test_a_key_is_not_loaded_after_its_job_was_cancelled(folder: Path, tmp_path: Path) -> None:
    """It was, and stayed on the worker for ever, as it had been given back before."""
    service = Service(tmp_path / "service", TRANSPORTS["threads"], Limits(running=8))
    service.start()
    try:
        loop = submit(service, "loop", endless_start(folder, 0))
        until(lambda: len(residents(service)) == 1, "its key is not there")
        submit(service, "cancelled", FIBONACCI)
        until(lambda: len(residents(service)) == 2, "its key is not there")
        service.cancel("cancelled")
        assert await_end(service, "cancelled", PATIENCE).state is JobState.CANCELLED
        assert await_end(service, loop, PATIENCE).state is JobState.FAILED
        submit(service, "last", toy(folder, 1))
        proved(service, "last")
        (site,) = service._scheduler.fleet.sites.values()
        assert isinstance(site.host, RoomsHere)
        assert len(site.host._workers) == len(service._scheduler.keys()) == 1
    finally:
        service.close(drain=False)
