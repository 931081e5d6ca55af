"""What serves a job ends when its driver cannot be reached any more."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from actors.driver_liveness import DriverAddress, by_number, taking

SERVING = """
import sys, time
from actors import driver_liveness, patience

patience.DRIVER_LOOK, patience.DRIVER_UNREACHED = 0.02, 0.3
head, raylet, seconds = sys.argv[1:]
where = driver_liveness.DriverAddress(("127.0.0.1", int(head)), ("127.0.0.1", int(raylet)))
driver_liveness.end_without(where, lambda: print("ended", flush=True))
time.sleep(1.0)
print("serves", flush=True)
time.sleep(float(seconds))
print("stays", flush=True)
"""


def serving(head: int, raylet: int, seconds: float) -> subprocess.Popen[str]:
    """A process that serves a driver there, for so long at most."""
    command = [sys.executable, "-c", SERVING, str(head), str(raylet), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_worker_ends_when_neither_head_nor_driver_can_be_reached() -> None:
    with ExitStack() as stack:
        head, raylet = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        ports = head.getsockname()[1], raylet.getsockname()[1]
        process = serving(*ports, 600)
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n", "both answered for longer than it waits"
        raylet.close()
        assert process.stdout.readline() == "ended\n", "one of them is enough"
        assert process.wait(60) == 1


def test_where_a_driver_was_never_reached_its_silence_says_nothing() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        dead = deaf.getsockname()[1]
        process = serving(dead, dead, 0.5)
        out, _ = process.communicate(timeout=200)
    assert (out, process.returncode) == ("serves\nstays\n", 0)


def test_a_driver_is_reached_where_both_take_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        with socket.create_server(("127.0.0.1", 0)) as driver:
            address = DriverAddress(head.getsockname(), driver.getsockname())
            assert address.answers()
        assert not address.answers()
        assert taking(address[:2], 1.0) == {address.head}


def test_a_head_that_is_given_by_name_is_looked_for_by_number() -> None:
    """A node that is cut off looks up no names, or for longer than it takes to be sure that it is cut off."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        port = head.getsockname()[1]
        assert by_number(("localhost", port)) == ("127.0.0.1", port)
    assert by_number(("localhost", port)) == ("localhost", port), "nothing answers there"


def test_a_name_that_means_nothing_takes_no_connection() -> None:
    """It raised on threads that nobody looked after, which ended with it."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        assert taking([("no name", 1), head.getsockname()], 1.0) == {head.getsockname()}


def test_what_answered_while_a_process_was_stopped_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        clock = iter((0.0, 100.0, 200.0))
        monkeypatch.setattr("actors.driver_liveness.time", SimpleNamespace(monotonic=lambda: next(clock)))
        assert taking([head.getsockname()], 1.0) == {head.getsockname()}
