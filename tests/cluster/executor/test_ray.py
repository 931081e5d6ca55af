"""What only Ray has: several nodes, jobs that are submitted, tokens, a Ray started for the purpose."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.dispatch import Progress
from cluster.executor.connection import connect
from cluster.record.journal import read_journal
from distprove.errors import ClusterError, JobFailed
from distprove.host.provenance import Identity, identity
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support import ROOT
from tests.support.ray_nodes import joined_node, submit
from tests.support.toy_system import Faults, ToySystem

Make = Callable[..., Faults]
Prove = Callable[..., Proof]

SCRIPT = """
import sys
import time
from pathlib import Path
from cluster.driver import prove
from cluster.executor.opening import open_executor
from cluster.record.run import Run
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem
folder = Path(sys.argv[1])
system = ToySystem(3, Faults(folder))
settings = ExecutorSettings(local=False, backend="tests.support.toy_system:toy_backend", gpus=0)
with Run.create(folder / "run", system, system.plan()) as run, open_executor(settings) as executor:
    prove(system, executor, run, settings)
import os
print("mode", os.environ["RAY_AUTH_MODE"], "token", len(os.environ.get("RAY_AUTH_TOKEN", "")))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def check_proof(folder: Path, faults: Make) -> None:
    Proof.read(folder / "run" / "proof.msgpack").verify(ToySystem(3, faults()))
    assert json.loads((folder / "run" / "report.json").read_text())["executor"] == "ray"


@pytest.mark.ray
@pytest.mark.slow
def test_a_node_that_joins_a_running_job_works_and_may_die_and_return(
    ray_cluster: Any, ray_settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The job's first worker proves nothing before workers on nodes that joined have proven something."""
    monkeypatch.setattr("cluster.executor.ray.BEAT", 0.5)
    given = faults(holds_worker=("prover-0",))
    nodes: list[Any] = []

    def progress(event: Progress) -> None:
        if (event.event, event.worker) == ("worker-ready", "prover-0"):
            nodes.append(joined_node(ray_cluster))
        elif (event.event, event.worker) == ("proved", "prover-1") and len(nodes) == 1:
            ray_cluster.remove_node(nodes[0], allow_graceful=False)
            nodes.append(joined_node(ray_cluster))
        elif (event.event, event.worker) == ("proved", "prover-2"):
            (given.folder / "go").touch()

    system = ToySystem(24, given)
    try:
        # What is with the one that waits counts as under way, for as long as nodes take to come up.
        run_toy(system, replace(ray_settings, hang_timeout=600.0), progress).verify(system)
    finally:
        for node in nodes[1:]:
            ray_cluster.remove_node(node)
    facts = json.loads((tmp_path / "run" / "report.json").read_text())
    assert facts["status"] == "proved"
    provers = {worker["id"]: worker for worker in facts["workers"] if worker["role"] == "prover"}
    assert list(provers) == ["prover-0", "prover-1", "prover-2"]
    assert all(worker["partitions"] for worker in provers.values())
    assert len({worker["facts"]["node"] for worker in provers.values()}) == 3
    joined = [event["worker"] for event in read_journal(tmp_path / "run") if event["event"] == "joined"]
    assert joined == ["prover-1", "prover-2"]
    assert facts["counters"]["deaths"] + facts["counters"]["retired"] >= 1


@pytest.mark.ray
@pytest.mark.slow
def test_a_node_with_another_version_is_told_before_anything_is_sent(
    ray_settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Identity("0.0.9", "0123456789abcdef")
    monkeypatch.setattr("cluster.executor.ray.identity", lambda: ours)
    with pytest.raises(JobFailed) as raised:
        run_toy(ToySystem(2, faults()), ray_settings)
    assert (
        f"{platform.node()} has {identity()}, and the driver distprove 0.0.9 (commit 0123456789ab): install the same on"
        in str(raised.value)
    )
    facts = json.loads((tmp_path / "run" / "report.json").read_text())
    assert {p["error_kind"] for p in facts["partitions"]} == {"ClusterError"}


@pytest.mark.ray
@pytest.mark.slow
def test_no_node_verifies_what_it_proved(
    ray_cluster: Any, ray_settings: ExecutorSettings, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    """Also where a proof is bad, and where a verifier dies of one."""
    node = joined_node(ray_cluster)
    try:
        given = faults(bad_proof={"p1": 1}, kill_verifier={"p2": 1})
        proof = run_toy(ToySystem(6, given, verifies_in_python=True), ray_settings)
        log = [line.split() for line in (given.folder / "log").read_text().splitlines()]
        homes: dict[str, str] = {}
        verified = set()
        for step, name, _, where in log:
            if step == "prove":
                homes[name] = where
            else:
                assert where not in ("none", homes[name])
                verified.add(name)
        assert verified == {f"p{i}" for i in range(6)}
        proof.verify(ToySystem(6, given, verifies_in_python=True))
        counters = json.loads((tmp_path / "run" / "report.json").read_text())["counters"]
        assert counters["bad_proofs"] == 1
    finally:
        ray_cluster.remove_node(node)


@pytest.mark.ray
@pytest.mark.slow
def test_a_job_is_submitted(ray_cluster: Any, faults: Make, script: Path, tmp_path: Path) -> None:
    """As the README shows it: the driver runs on the cluster, finds its Ray, and the same proof comes out."""
    done = submit(ray_cluster, sys.executable, script, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout + done.stderr
    check_proof(tmp_path, faults)


@pytest.mark.ray
@pytest.mark.slow
def test_a_wrong_token_is_told(ray_cluster: Any, tmp_path: Path) -> None:
    code = (
        "from cluster.executor.connection import connect\n"
        "from distprove.settings import ExecutorSettings\n"
        f"with connect(ExecutorSettings(address={ray_cluster.address!r}), 0): pass"
    )
    environment = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250, env=environment)
    assert "distprove.errors.ClusterError" in done.stderr
    assert os.environ["RAY_AUTH_TOKEN"] not in done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_ray_started_for_the_purpose_has_its_own_token_and_ends(faults: Make, script: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mode token token 64\n"
    assert "Traceback" not in done.stderr
    check_proof(tmp_path, faults)


def test_joining_without_a_token_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        pytest.raises(ClusterError, match="needs its token"),
        connect(ExecutorSettings(address="10.0.0.1:6379"), 0),
    ):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
import ray
from cluster.executor.ray import RayExecutor
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem
ray.init(address=sys.argv[2], log_to_driver=False, logging_level="error")
executor = RayExecutor(ExecutorSettings(backend="tests.support.toy_system:toy_backend", gpus=0))
executor.start(ToySystem(3, Faults(Path(sys.argv[1]))))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_jobs_share_the_governor_of_a_node_and_the_last_one_ends_it(
    ray_cluster: Any, ray_settings: ExecutorSettings, faults: Make, tmp_path: Path
) -> None:
    import ray

    from actors.leases import NAMESPACE, governor_name
    from cluster.executor.ray import RayExecutor  # not before the fixture: Ray reads its environment then

    def governor() -> Any:
        return ray.get_actor(governor_name(ray.get_runtime_context().get_node_id()), namespace=NAMESPACE)

    def ended() -> bool:
        for _ in range(100):
            try:
                governor()
            except ValueError:
                return True
            time.sleep(0.1)
        return False

    # A driver that is killed leaves its governor behind; the job that comes upon it makes itself one of its own, once
    # it is known to be dead, and until then they share it.
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    subprocess.run([sys.executable, str(script), str(tmp_path), ray_cluster.address], timeout=200, check=False)
    left = governor()
    left.__ray_call__.options(max_task_retries=0).remote(lambda self: setattr(self, "PATIENCE", 0.0))
    assert ended(), "its governor outlived a killed driver"

    one, two = RayExecutor(ray_settings), RayExecutor(ray_settings)
    try:
        one.start(ToySystem(3, faults()))
        before = governor()
        two.start(ToySystem(3, faults()))
        assert governor()._actor_id == before._actor_id
        (report,) = one.governor_report(0.0)
        assert report["keys"]["resident"] == 2
        assert report["memory"] >= report["keys"]["memory"] > 0
        one.close()
        (report,) = two.governor_report(0.0)
        assert report["keys"]["memory"] > 0
    finally:
        one.close(now=True)
        two.close(now=True)
    assert ended(), "nobody uses it any more"


@pytest.mark.ray
@pytest.mark.slow
def test_workers_do_not_import_from_the_folder_of_the_command(ray_cluster: Any, tmp_path: Path) -> None:
    """Ray would put that folder before all else; what lies there may be a run that was sent, called like a library."""
    for name in ("actors", "kernels"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')")
    command = [Path(sys.executable).with_name("distprove"), "prove", "stark", "fibonacci", "--rows", "8"]
    command += ["--out", "run", "--address", ray_cluster.address, "--backend", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert not (tmp_path / "marker").exists()
    assert done.returncode == 0, done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_workers_import_a_program_beside_the_command(ray_cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from distprove.stark.programs.fibonacci import Fibonacci\nclass Mine(Fibonacci):\n    name = 'mine'\n"
    )
    command = [Path(sys.executable).with_name("distprove"), "prove", "stark", "mine:Mine", "--with", "rows=8"]
    command += ["--out", "run", "--address", ray_cluster.address, "--backend", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["executor"] == "ray"
