"""Faults of processes that no signal ends, of processes that hang again, and of what waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest

from actors import processes
from actors.grants import Ungoverned
from actors.messages import VerifierSpec
from actors.processes import HostProcess, Started
from actors.protocol import WorkerDied, WorkerStuck
from actors.server import VerifierServer
from distprove.errors import JobFailed
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

Make = Callable[..., Faults]
Prove = Callable[..., Proof]


class Unkillable:
    """A process as the system shows one in an uninterruptible state: killed, and there."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid

    def wait(self, timeout: float | None = None) -> int:
        return self.process.wait(timeout)

    def kill(self) -> None:
        """Do nothing."""


@pytest.fixture
def unkillable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Has the first process of that name be unkillable; it is ended after the test."""
    start, wanted, held = processes.start_process, [""], []

    def started(name: str, **options: Any) -> Started:
        made = start(name, **options)
        if name != wanted[0]:
            return made
        wanted[0] = ""
        held.append(made.process)
        return made._replace(process=Unkillable(made.process))

    monkeypatch.setattr("actors.patience.PROCESS_ENDS", 0.5)
    for where in ("actors.processes", "cluster.executor.local"):
        monkeypatch.setattr(f"{where}.start_process", started)
    yield lambda name: wanted.__setitem__(0, name)
    for process in held:
        process.kill()
        process.wait()


def answered(call: Callable[..., Any], *arguments: Any) -> list[BaseException | None]:
    """What `call` raises, once it is over: it must be within a minute."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            call(*arguments)
            found.append(None)
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it still waits"
    return found


def stop(pid: int) -> None:
    """Stop a process, and wait until the system has: it may go on for a moment after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)


def test_a_process_that_no_signal_ends_holds_up_nobody(unkillable: Callable[[str], None], faults: Make) -> None:
    unkillable("v")
    process = HostProcess("v", VerifierSpec("v", ToySystem(1, faults())), Ungoverned())
    process.start()
    process.call(VerifierServer.load)
    assert process._child is not None
    stop(process._child._process.pid)
    threading.Timer(0.2, process.kill).start()
    (error,) = answered(process.call, VerifierServer.load)
    assert isinstance(error, WorkerStuck)
    assert answered(process.end) == [None]


def test_a_process_that_reads_nothing_does_not_hold_up_who_tells_it(
    faults: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of orders is more than the connection holds, and the dispatcher's own thread sends it."""
    monkeypatch.setattr("actors.patience.PROCESS_READS", 1.0)
    monkeypatch.setattr("actors.patience.PROCESS_ENDS", 0.5)
    process = HostProcess("v", VerifierSpec("v", ToySystem(1, faults())), Ungoverned())
    process.start()
    process.call(VerifierServer.load)
    assert process._child is not None
    stop(process._child._process.pid)
    assert answered(process.tell, VerifierServer.load, bytes(8 << 20)) == [None]
    (error,) = answered(process.call, VerifierServer.load)
    assert isinstance(error, WorkerDied)
    process.end()


def test_a_job_whose_worker_no_signal_ends_says_so_and_ends(
    unkillable: Callable[[str], None], faults: Make, run_toy: Prove
) -> None:
    unkillable("prover-0")
    settings = ExecutorSettings(local=True, isolate=True, threads=2, backend=TOY_BACKEND, max_retries=9)
    system = ToySystem(4, faults(stop_worker={"prover-0": 1}))
    with pytest.raises(JobFailed, match=r"no prover is left \(the process of prover-0 was killed and does not end\)"):
        run_toy(system, replace(settings, hang_timeout=3.0))
    run_toy(system, settings).verify(system)
