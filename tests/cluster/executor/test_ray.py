"""What only Ray has: several nodes, jobs that are submitted, tokens, a Ray started for the purpose."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.driver import drive
from cluster.executor.connection import connect
from cluster.opening import open_scheduler
from cluster.record.journal import read_journal
from cluster.record.run import Run
from cluster.scheduler.jobs import Progress
from distprove.errors import ClusterError, JobFailed
from distprove.host.provenance import Identity, identity
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support import LONG, ROOT
from tests.support.one_key import OneKey
from tests.support.ray_nodes import PATIENCE, joined_node, machine_without, submit
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

Make = Callable[..., Faults]
Prove = Callable[..., Proof]

OVER_RAY = ExecutorSettings(local=False, backend=TOY_BACKEND)

SCRIPT = """
import sys
import time
from pathlib import Path
from cluster.driver import drive
from cluster.opening import open_client
from cluster.record.run import Run
from distprove.settings import ExecutorSettings
from tests.support.toy_system import Faults, ToySystem
folder = Path(sys.argv[1])
system = ToySystem(3, Faults(folder))
settings = ExecutorSettings(local=False, backend="tests.support.toy_system:toy_backend", gpus=0)
with Run.create(folder / "run", system, system.plan()) as run, open_client(settings) as executor:
    drive(system, executor, run, settings)
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


@LONG
@pytest.mark.ray
@pytest.mark.slow
def test_a_node_joins_a_running_job_and_dies_and_one_returns_that_lacks_inputs(
    own_ray: Any, faults: Make, run_toy: Prove, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The first worker proves nothing before another node has proven a partition and died, and a third one has refused
    its inputs: of half of them it has no file, of the others one of the same size with another content."""
    monkeypatch.setattr("actors.patience.RAY_NODES", 0.5)
    given = faults(holds={"prover-0": 0, "": 1})
    inputs, theirs = tmp_path / "inputs", tmp_path / "theirs"
    for folder, content in ((inputs, "1"), (theirs, "2")):
        folder.mkdir()
        for index in range(0, 12, 1 + (folder == theirs)):
            (folder / f"p{index}").write_text(content)
    nodes: list[Any] = []

    def told(kind: str) -> list[dict[str, Any]]:
        return [event for event in read_journal(tmp_path / "run") if event["event"] == kind]

    def play(event: Progress) -> None:
        if event.event == "stage" and not nodes:  # the job runs
            nodes.append(joined_node(own_ray))
        elif event.event == "proved" and len(nodes) == 1:
            own_ray.remove_node(nodes[0], allow_graceful=False)
            with machine_without(inputs, theirs):
                nodes.append(joined_node(own_ray))
        elif len(nodes) == 2 and len(told("fault")) >= 3:
            (given.folder / "go").touch()

    def progress(event: Progress) -> None:
        try:
            play(event)
        except BaseException:
            (given.folder / "go").touch()
            raise

    with machine_without(inputs, theirs):
        assert not (inputs / "p1").exists()
    assert (inputs / "p1").read_text() == "1"
    system = ToySystem(12, given, inputs=inputs)
    try:
        # What is with a worker that waits counts as under way, for as long as nodes take to come up.
        run_toy(system, replace(OVER_RAY, hang_timeout=600.0), progress).verify(system)
    finally:
        for node in nodes[1:]:
            own_ray.remove_node(node, allow_graceful=False)
    facts = json.loads((tmp_path / "run" / "report.json").read_text())
    assert facts["status"] == "proved"
    first, *others = (worker for worker in facts["workers"] if worker["role"] == "prover")
    assert [worker["id"] for worker in others] == [event["worker"] for event in told("joined")]
    assert first["status"] == "ready"
    assert first["partitions"] in (11, 12)  # what a node had proven that died may not have been kept yet
    (second,) = (worker for worker in others if worker["partitions"])
    assert second["partitions"] == 1
    assert second["deaths"] >= 1
    (third,) = (worker for worker in others if "refused" in (worker["reason"] or ""))
    assert len({worker["facts"]["node"] for worker in (first, second, third)}) == 3
    assert third["status"] == "retired"
    assert re.fullmatch(
        r"3 inputs in a row were refused there and taken on another node, the last: InputError for p\d+",
        third["reason"],
    )
    reasons = {event["partition"]: event["reason"] for event in told("fault") if event["worker"] == third["id"]}
    assert len(reasons) >= 3
    for name, reason in reasons.items():
        lacks, other = "No such file", "another content than where the driver is"
        assert (lacks if int(name[1:]) % 2 else other) in reason
    assert facts["counters"]["faults"] == 0, "no partition and no device is to blame"


@LONG
@pytest.mark.ray
@pytest.mark.slow
def test_a_standing_scheduler_uses_nodes_that_join_and_gives_up_those_that_leave(
    own_ray: Any, faults: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.patience.RAY_NODES", 0.5)
    given = faults(holds={"prover-0": 0})

    def until(holds: Callable[[], bool]) -> None:
        late = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < late
            time.sleep(0.1)

    def job(name: str) -> None:
        system = ToySystem(6, given)

        def progress(event: Progress) -> None:
            if event.event == "proved":  # by the node that joined: the first worker holds
                (given.folder / "go").touch()

        with scheduler.lend(job=name) as client, Run.create(tmp_path / name, system, system.plan()) as run:
            drive(system, client, run, OVER_RAY, progress).verify(system)

    with open_scheduler(OVER_RAY) as scheduler:
        scheduler.start()
        node = joined_node(own_ray)
        try:
            until(lambda: len(scheduler.workers()) == 2)
            job("first")
        finally:
            own_ray.remove_node(node, allow_graceful=False)
        until(lambda: scheduler.workers()[1].lost is not None)
        job("second")
        first, second = scheduler.workers()
        assert (first.lost, second.lost) == (None, "its node left the cluster")
        assert min(first.proven, second.proven) >= 1


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
        ray_cluster.remove_node(node, allow_graceful=False)


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
def test_a_wrong_token_is_told_and_leaves_no_folder(ray_cluster: Any, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("distprove"), "prove", "stark", "fibonacci", "--rows", "8"]
    command += ["--out", "run", "--address", ray_cluster.address, "--backend", "cpu"]
    environment = {**os.environ, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 3, done.stderr
    told = " ".join(done.stderr.split())
    assert f"no Ray to join at {ray_cluster.address}" in told
    assert "it may refuse our token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's" in told
    assert os.environ["RAY_AUTH_TOKEN"] not in told
    assert list(tmp_path.iterdir()) == []


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
        connect(ExecutorSettings(address="10.0.0.1:6379")),
    ):
        pass


KILLED = """
import os, signal, sys
from pathlib import Path
import ray
from cluster.executor.ray import RayFleet
from distprove.settings import ExecutorSettings
from tests.support.one_key import OneKey
from tests.support.toy_system import Faults, ToySystem
ray.init(address=sys.argv[2], log_to_driver=False, logging_level="error")
fleet = RayFleet(ExecutorSettings(backend="tests.support.toy_system:toy_backend", gpus=0))
OneKey(fleet, ToySystem(3, Faults(Path(sys.argv[1]))))
os.kill(os.getpid(), signal.SIGKILL)
"""


@LONG
@pytest.mark.ray
@pytest.mark.slow
def test_jobs_share_a_node_and_its_governor_and_one_that_finds_no_room_waits(
    own_ray: Any, faults: Make, run_toy: Prove, tmp_path: Path
) -> None:
    import ray

    from actors.leases import NAMESPACE, governor_name
    from cluster.executor.ray import RayFleet  # not before the fixture: Ray reads its environment then

    def governor() -> Any:
        return ray.get_actor(governor_name(ray.get_runtime_context().get_node_id()), namespace=NAMESPACE)

    def until(holds: Callable[[], bool]) -> bool:
        return any(holds() or time.sleep(0.1) for _ in range(int(10 * PATIENCE)))

    def ended() -> bool:
        try:
            governor()
        except ValueError:
            return True
        return False

    # A driver that is killed leaves its governor, with its settings, behind. The next job ends it and makes its own.
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    subprocess.run([sys.executable, str(script), str(tmp_path), own_ray.address], timeout=200, check=False)
    left = governor()
    assert until(lambda: ray.available_resources().get("CPU") == 2.0), "its actors have ended"

    one = OneKey(RayFleet(OVER_RAY), ToySystem(3, faults()))
    two = None
    try:
        before = governor()
        assert before._actor_id != left._actor_id, "the governor of a killed job is used"
        two = OneKey(RayFleet(OVER_RAY), ToySystem(3, faults()))
        assert governor()._actor_id == before._actor_id, "the governor of a job that lives was ended"
        (report,) = one.fleet.governor_report(0.0)
        assert report["keys"]["resident"] == 2
        assert report["memory"] >= report["keys"]["memory"] > 0

        # Each takes one of the node's two CPUs. A third job waits in Ray's queue, and says so, until one of them ends.
        assert until(lambda: not ray.available_resources().get("CPU"))
        waits: list[str | None] = []

        def progress(event: Progress) -> None:
            if event.event == "waiting":
                waits.append(event.detail)
            if event.event == "queued":
                one.close()

        system = ToySystem(3, faults())
        run_toy(system, OVER_RAY, progress).verify(system)
        assert "room on the cluster, for 1 of 1 prover" in waits
        (queued,) = (event for event in read_journal(tmp_path / "run") if event["event"] == "queued")
        assert "others have the CPUs or GPUs" in queued["reason"]
        (report,) = two.fleet.governor_report(0.0)
        assert report["keys"]["memory"] > 0
    finally:
        one.close(now=True)
        if two is not None:
            two.close(now=True)
    assert until(ended), "nobody uses it any more"


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
