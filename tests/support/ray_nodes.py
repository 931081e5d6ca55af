"""Small Ray nodes on this machine, for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds for which an agent of Ray may not be up on a busy machine."""


def raylet() -> dict[str, Any]:
    """Arguments of `Cluster.add_node` for a node of two CPUs and a small object store."""
    return {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 << 20}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    """Add a node, and wait until it has run a task: by then its agents are up, without which it ends after a while."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    @ray.remote(num_cpus=0)
    def here() -> None: ...

    for _ in range(3):
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
