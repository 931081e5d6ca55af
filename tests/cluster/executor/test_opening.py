"""The choice between this machine alone and Ray, and the start of a Ray of a job's own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from cluster.executor.connection import Connection
from cluster.executor.local import LocalFleet
from cluster.opening import choose, open_client
from distprove.errors import ClusterError, InputError
from distprove.settings import ExecutorSettings, settings_from


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster is named, and this process is connected to none."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)


def test_a_job_stays_on_this_machine_unless_it_is_told_otherwise() -> None:
    assert choose(ExecutorSettings()) == (True, "no cluster was named")
    assert choose(ExecutorSettings(isolate=False)).local
    assert not choose(ExecutorSettings(local=False)).local
    assert not choose(ExecutorSettings(address="a:1")).local


def test_a_named_cluster_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "a:1")
    assert not choose(ExecutorSettings()).local
    assert choose(ExecutorSettings(local=True)) == (True, "asked for")
    assert choose(ExecutorSettings(isolate=True)).local


@pytest.mark.parametrize("connected", [False, True])
def test_a_process_that_is_connected_to_ray_uses_it(monkeypatch: pytest.MonkeyPatch, connected: bool) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: connected))
    assert choose(ExecutorSettings()).local is not connected


def test_what_was_written_before_means_what_it_meant() -> None:
    """Records used to say `local` always, job files where it was true."""
    assert not choose(settings_from({"local": False})).local
    assert choose(settings_from({"local": True})).local
    record = {name: value for name, value in asdict(ExecutorSettings()).items() if value is not None}
    assert "local" not in record


def test_the_choice_is_told() -> None:
    with open_client(ExecutorSettings(gpus=0, backend="cpu")) as client:
        client.scheduler.start()
        assert type(client.scheduler.fleet) is LocalFleet
        assert client.chosen == "without Ray: no cluster was named"


class Slow:
    """Stands in for `connection.connect`: it is up once it may be, and says what happens on which thread. Each ends
    once it may."""

    def __init__(self) -> None:
        self.may, self.may_end, self.told = threading.Event(), threading.Event(), list[str]()
        self.may_end.set()
        self.began = threading.Semaphore(0)
        self.error: Exception | None = None
        self.ended = threading.Event()

    @contextmanager
    def __call__(self, settings: ExecutorSettings, unwanted: Callable[[], bool]) -> Iterator[str]:
        self.thread = threading.current_thread()
        self.began.release()
        assert self.may.wait(60)
        self.told.append("unwanted" if unwanted() else "wanted")
        if self.error is not None:
            raise self.error
        try:
            yield "started"
        finally:
            assert threading.current_thread() is self.thread, "the thread that starts a Ray is the one that ends it"
            assert self.may_end.wait(60)
            self.told.append("ended")
            self.ended.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    found = Slow()
    monkeypatch.setattr("cluster.executor.connection.connect", found)
    monkeypatch.setattr("cluster.executor.connection.prepare", lambda settings: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return found


OWN = ExecutorSettings(local=False, gpus=0)


def test_a_connection_is_made_beside_its_maker_and_ends_on_its_own_thread(slow: Slow) -> None:
    """The system kills the processes of a Ray when the thread that forked them ends."""
    connection = Connection(OWN)
    assert slow.told == []
    slow.may.set()
    assert connection.how() == "started"
    assert slow.thread.is_alive()
    assert slow.thread is not threading.current_thread()
    connection.close()
    assert slow.told == ["wanted", "ended"]


def test_a_ray_that_does_not_come_up_is_told_where_it_is_waited_for(slow: Slow) -> None:
    slow.error = ClusterError("Ray does not start here")
    connection = Connection(OWN)
    slow.may.set()
    with pytest.raises(ClusterError, match="does not start here"):
        connection.how()
    connection.close()


def test_a_ray_that_nobody_wants_any_more_ends_as_soon_as_it_is_up(slow: Slow) -> None:
    connection = Connection(OWN)
    assert slow.began.acquire(timeout=60)
    connection.close()
    assert slow.told == [], "whoever gives it up does not wait"
    slow.may.set()
    assert slow.ended.wait(60)
    assert slow.told == ["unwanted", "ended"]


def test_nobody_waits_for_the_end_of_a_ray_that_was_not_used(slow: Slow) -> None:
    slow.may.set()
    slow.may_end.clear()
    connection = Connection(OWN)
    assert connection._begun.result(60) == "started"
    connection.close()
    assert slow.told == ["wanted"]
    slow.may_end.set()
    assert slow.ended.wait(60)


def test_the_next_job_waits_for_a_ray_that_nobody_wants(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """It took that for one that this process is connected to, or started its own beside it."""
    first = Connection(OWN)
    assert slow.began.acquire(timeout=60)
    first.close()
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    slow.may_end.clear()
    slow.may.set()
    assert choose(ExecutorSettings()) == (True, "no cluster was named")
    second = Connection(OWN)
    assert not slow.began.acquire(timeout=0.05), "two start at the same time"
    monkeypatch.delitem(sys.modules, "ray")
    slow.may_end.set()
    assert second.how() == "started"
    assert choose(ExecutorSettings()) == (False, "this process is connected to one")
    second.close()
    assert slow.told == ["unwanted", "ended", "wanted", "ended"]


def test_a_job_shares_the_ray_of_another_and_leaves_it(slow: Slow) -> None:
    first, second = Connection(OWN), Connection(OWN)
    slow.may.set()
    assert sorted((first.how(), second.how())) == ["joined", "started"]
    guest, host = (first, second) if first.how() == "joined" else (second, first)
    guest.close()
    assert slow.told == ["wanted"]
    host.close()
    assert slow.told == ["wanted", "ended"]


def test_a_job_that_is_not_loaded_ends_the_ray_that_was_begun_for_it(slow: Slow) -> None:
    slow.may.set()
    with pytest.raises(InputError, match="the key is not there"), open_client(OWN):
        raise InputError("the key is not there")
    assert slow.ended.wait(60)
