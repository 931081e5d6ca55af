"""The choice between this machine alone and Ray."""

from __future__ import annotations

import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from cluster.executor.local import LocalFleet
from cluster.opening import choose, open_client
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
