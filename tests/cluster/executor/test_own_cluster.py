"""`--address auto`: the one cluster of this user on this machine, and nobody else's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from cluster.executor.connection import connect
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings

NOBODY = 65534
Start = Callable[..., None]


@pytest.fixture
def raylet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts what looks like a Ray at an address, of a user; no other processes are seen."""
    started: list[subprocess.Popen[bytes]] = []

    def start(address: str, user: int | None = None, folder: str = "/tmp/ray") -> None:
        node, worker = f"--session_dir={folder}/session", f"worker --gcs-address={address}"
        command = ["/x/raylet", "-c", "echo there; read line", node, worker]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, executable="/bin/sh", stdin=pipe, stdout=pipe, user=user)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"  # Popen returns before the kernel has set the command line

    def found(*_: Any) -> Iterator[psutil.Process]:
        for process in started:
            seen = psutil.Process(process.pid)
            seen.info = {"cmdline": seen.cmdline()}  # as Ray asks for it
            yield seen

    monkeypatch.setattr(psutil, "process_iter", found)
    yield start
    for process in started:
        process.communicate()


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that Ray would have been joined at, in place of that."""
    import ray
    from ray._private import services

    addresses: list[str] = []

    def init(address: str, **_: Any) -> None:
        services.find_gcs_addresses.cache_clear()
        addresses.append(services.canonicalize_bootstrap_address(address, None) or address)

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr("cluster.executor.connection.require_ray", lambda address: None)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return addresses


def join(address: str = "auto") -> None:
    with connect(ExecutorSettings(address=address), 0):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="runs a process as another user")
def test_a_cluster_of_another_user_is_not_joined(raylet: Start, joined: list[str]) -> None:
    """It would be given the token, the job's code and the witnesses, and its messages are unpickled."""
    raylet("192.0.2.1:6379", user=NOBODY)
    with pytest.raises(ClusterError, match="--address HOST:PORT"):
        join()
    assert joined == []
    raylet("192.0.2.2:6379")
    join()
    assert joined == ["192.0.2.2:6379"]


def test_the_one_cluster_of_this_user_is_joined_and_two_are_told(raylet: Start, joined: list[str]) -> None:
    raylet("192.0.2.3:6379", folder="/tmp/dp-ray-abcd1234/r")
    with pytest.raises(ClusterError, match="no Ray of this user"):
        join()  # what another job started for itself has a token of its own
    raylet("192.0.2.4:6379")
    raylet("192.0.2.4:6379")
    join()
    assert joined == ["192.0.2.4:6379"]
    raylet("192.0.2.5:6379")
    with pytest.raises(ClusterError, match=r"192\.0\.2\.4:6379, 192\.0\.2\.5:6379"):
        join()


def test_an_address_that_the_user_gives_is_taken_as_it_is(
    raylet: Start, joined: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    join("192.0.2.6:6379")
    monkeypatch.setenv("RAY_ADDRESS", "192.0.2.7:6379")
    join()
    assert joined == ["192.0.2.6:6379", "192.0.2.7:6379"]
