"""The executors under test, and one Ray for all tests that need one."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from toy_system import Faults, ToySystem

from cluster.driver import prove
from cluster.executors import Executor, open_executor
from cluster.run import Run
from distprove.job import ExecutorSettings
from distprove.proof import Proof

TOY = {"backend": "toy_system:toy_backend"}


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """Two raylets of two CPUs each on this machine, with token authentication; small object stores."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    # Workers unpickle the toy system by its module's name.
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**raylet(), "include_dashboard": False})
    try:
        cluster.add_node(**raylet())
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def raylet() -> dict[str, Any]:
    """Arguments of a small node.

    Ports are given, because a raylet waits only 15 s for its agents to choose theirs, which a busy machine overruns.
    """
    sizes = {"num_cpus": 2, "num_gpus": 0, "object_store_memory": 100 << 20}
    names = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind(("", 0))
        return {**sizes, **{name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}}


@pytest.fixture(params=["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    """Settings of each executor, with the toy backend."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
        return ExecutorSettings(**TOY)
    return ExecutorSettings(local=True, threads=2, **TOY)


@pytest.fixture
def faults(tmp_path: Path) -> Callable[..., Faults]:
    """Makes a list of faults that counts in this test's folder."""
    folder = tmp_path / "faults"
    folder.mkdir()
    return lambda **kinds: Faults(folder, **kinds)


@pytest.fixture
def run_toy(tmp_path: Path) -> Callable[..., Proof]:
    """Proves a toy job in tmp_path/run: `run_toy(system, settings)`; resumes where the folder holds a run."""

    def prove_toy(system: ToySystem, settings: ExecutorSettings, progress: Any = None) -> Proof:
        path = tmp_path / "run"
        opened = Run.open(path) if path.exists() else Run.create(path, system, system.plan())
        with opened as run, executor(settings) as chosen:
            return prove(system, chosen, run, settings, progress)

    return prove_toy


def executor(settings: ExecutorSettings) -> Executor:
    return open_executor(settings)
