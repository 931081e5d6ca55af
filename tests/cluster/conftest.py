"""The executors under test, and one Ray for all tests that need one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.driver import drive
from cluster.executor.opening import open_executor
from cluster.record.run import Run
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from kernels.host.scratch import scratch_folder
from tests.support import ROOT
from tests.support.ray_nodes import free_port, patiently, raylet
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

TOY = {"backend": TOY_BACKEND}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
"""How tests connect to a Ray."""


@contextmanager
def _ray_of_tests() -> Iterator[Any]:
    """A Ray of one small node, with token authentication, that this process is connected to.

    In a folder of its own: Ray's usual one names the Ray that was started last on the machine, and the jobs that are
    submitted to any of them are told to join that one.
    """
    with scratch_folder(longest=40) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        yield from _cluster()


def _cluster() -> Iterator[Any]:
    # Workers unpickle the toy system by its module's name.
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))
    import ray
    from ray.cluster_utils import Cluster

    def start() -> Any:
        # The dashboard takes jobs, for the tests that submit one, and an agent starts them. Another Ray of this machine
        # may hold the usual ports, or an attempt that failed, and then no job can be submitted.
        names = ("gcs_server_port", "dashboard_port", "dashboard_agent_listen_port")
        ports = {name: free_port() for name in names}
        head = {**raylet(), **ports, "include_dashboard": True}
        return Cluster(initialize_head=True, head_node_args=head)

    cluster = patiently(start)
    try:
        ray.init(address=cluster.address, **QUIET)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A Ray for all tests that need one; they add nodes and take them away again."""
    with _ray_of_tests() as cluster:
        yield cluster


@pytest.fixture
def own_ray() -> Iterator[Any]:
    """A Ray that no other test has used or uses: for tests of what nodes, drivers and governors leave behind. Meanwhile
    this process is not connected to the one of all tests."""
    import ray

    shared = ray.get_runtime_context().gcs_address if ray.is_initialized() else None
    ray.shutdown()
    try:
        with _ray_of_tests() as cluster:
            yield cluster
    finally:
        if shared is not None:
            ray.init(address=shared, **QUIET)


@pytest.fixture(params=["local", "processes", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def settings(request: pytest.FixtureRequest) -> ExecutorSettings:
    """Settings of each executor, with the toy backend."""
    if request.param == "ray":
        return request.getfixturevalue("ray_settings")
    return ExecutorSettings(local=True, isolate=request.param == "processes", threads=2, **TOY)


@pytest.fixture(params=["processes", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])])
def isolated(request: pytest.FixtureRequest) -> ExecutorSettings:
    """Settings of the executors whose workers are processes: for what takes those."""
    if request.param == "ray":
        return request.getfixturevalue("ray_settings")
    return ExecutorSettings(local=True, isolate=True, threads=2, **TOY)


@pytest.fixture
def local() -> ExecutorSettings:
    """On threads: for what has nothing to do with the executor."""
    return ExecutorSettings(local=True, isolate=False, threads=2, **TOY)


@pytest.fixture
def ray_settings(ray_cluster: Any) -> ExecutorSettings:
    """Over Ray only: for what takes processes."""
    return ExecutorSettings(local=False, **TOY)


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
        with opened as run, open_executor(settings) as executor:
            return drive(system, executor, run, settings, progress)

    return prove_toy
