"""Small Ray nodes on this machine, for tests."""

from __future__ import annotations

import ctypes
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from cluster.executor.lean_ray import lean_ray

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds for which an agent of Ray may not be up on a busy machine."""


def raylet() -> dict[str, Any]:
    """Arguments of `Cluster.add_node` for a node of two CPUs and a small object store."""
    return {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 << 20}


def free_port() -> int:
    """A port that nobody listens on now, and that the system gives to nobody else: a Ray listens on ports together with
    whoever else asks for them, and on a busy machine seconds pass until it does."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(min(20_000, first - 1_000), first)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def told_by(processes: Iterable[psutil.Process], ask: Callable[[psutil.Process], T]) -> list[T]:
    """What is asked of each process, but for those that have ended meanwhile: Ray starts some that end soon."""
    told = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            told.append(ask(process))
    return told


def patiently(start: Callable[[], T]) -> T:
    """Start a node; again if it did not come up.

    A raylet gives its agents 15 s, whatever the settings, and so does a head its dashboard, which a machine that does
    much else overruns.
    """
    for _ in range(4):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error) and "dashboard" not in str(error):
                raise
            late = error
    raise late


def joined_node(cluster: Any) -> Any:
    """Add a node, and wait until it has run a task. It has no agents: on a busy machine they are not up in the 15 s
    that its raylet gives them, and it ends."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(num_cpus=0)
    def here() -> None: ...

    for _ in range(3):
        with lean_ray():
            node = patiently(lambda: cluster.add_node(**raylet()))
        try:
            ray.get(
                here.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False)).remote(),
                timeout=60,
            )
            return node
        except (RayError, GetTimeoutError):
            cluster.remove_node(node, allow_graceful=False)
    raise AssertionError("no node came up three times")


@contextmanager
def machine_without(inputs: Path, theirs: Path) -> Iterator[None]:
    """Inside the block, what this thread starts is as if on another machine, where the folder `theirs` is in place of
    `inputs`: in a mount namespace. Skips the test where none can be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    new, own_folder = 0x00020000, 0x00000200  # CLONE_NEWNS, CLONE_FS
    bind, private = 1 << 12, 1 << 18 | 1 << 14  # MS_BIND, MS_PRIVATE | MS_REC
    folder, before = Path.cwd(), os.open("/proc/thread-self/ns/mnt", os.O_RDONLY)
    try:
        if libc.unshare(new):
            pytest.skip(f"no mount namespace can be made here: {os.strerror(ctypes.get_errno())}")
        try:
            assert libc.mount(b"none", b"/", None, private, None) == 0
            assert libc.mount(os.fsencode(theirs), os.fsencode(inputs), None, bind, None) == 0
            yield
        finally:
            assert libc.unshare(own_folder) == 0  # threads that were started meanwhile share it
            assert libc.setns(before, new) == 0
            os.chdir(folder)
    finally:
        os.close(before)


def submit(cluster: Any, *command: object) -> subprocess.CompletedProcess[str]:
    """`ray job submit -- COMMAND` to the head node; again while its agent, which starts the job, is not up yet."""
    dashboard = f"http://{cluster.head_node.webui_url}"
    whole = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", dashboard, "--", *command]
    late = time.monotonic() + PATIENCE
    while True:
        done = subprocess.run([str(part) for part in whole], capture_output=True, text=True, timeout=250)
        if "No available agent to submit job" not in done.stderr or time.monotonic() > late:
            return done
        time.sleep(3)
