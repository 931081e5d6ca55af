"""A process of Ray stands by on each node, and an actor whose process was killed goes on in it. Where it is not known
yet how many provers there will be, processes stand by for those that are likely."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.executor.placement import Node
from cluster.executor.ray import RayFleet
from distprove.proof import Proof
from distprove.settings import ExecutorSettings
from tests.support import ROOT
from tests.support.toy_system import Faults, SharingSystem, ToySystem

JOB = """
import json, sys, time
from pathlib import Path
import psutil
from cluster.driver import drive
from cluster.executor import spares
from cluster.opening import open_client
from cluster.record.run import Run
from distprove.settings import ExecutorSettings
from tests.support.ray_nodes import told_by
from tests.support.toy_system import TOY_BACKEND, Faults, ToySystem

folder = Path(sys.argv[1])
spares.AFTER = 0.0
system = ToySystem(6, Faults(folder, kill_actor={"p3": 1}, holds={"": 3}))
settings = ExecutorSettings(local=False, backend=TOY_BACKEND, gpus=0, threads=1)

def of_ray(beginning):
    found = told_by(psutil.Process().children(recursive=True), lambda each: (each.pid, "".join(each.cmdline()[:1])))
    return [pid for pid, command in found if command.startswith(beginning)]

def spare():
    late = time.monotonic() + 100.0
    while not of_ray("ray::IDLE") and time.monotonic() < late:
        time.sleep(0.1)
    return of_ray("ray::IDLE")

def progress(event):
    if event.event == "proved" and not told:  # the actor is killed when "go" is there
        import ray

        told["spare"] = spare()
        told["imported"] = "numpy" in Path(f"/proc/{told['spare'][0]}/maps").read_text()
        told["cpus"] = ray.cluster_resources()["CPU"] - ray.available_resources().get("CPU", 0.0)
        (folder / "go").touch()

told = {}
with open_client(settings) as executor, Run.create(folder / "run", system, system.plan()) as run:
    drive(system, executor, run, settings, progress)
    told["actor"], told["another"] = of_ray("ray::RemoteWorker"), spare()
print(json.dumps(told))
"""

UNKNOWN = """
import json, multiprocessing, time
from pathlib import Path
import psutil, ray
from actors.backends import BackendChoice
from actors.messages import HostSpec
from cluster.executor import connection
from cluster.executor.ray import RayFleet, _actor
from distprove.settings import ExecutorSettings
from tests.support.ray_nodes import told_by
from tests.support.toy_system import Faults, SharingSystem

connection.usable_threads = multiprocessing.cpu_count = lambda: 16  # Ray starts so many processes at once
settings = ExecutorSettings(local=False, gpus=1)

def of_ray(beginning):
    found = told_by(psutil.Process().children(recursive=True), lambda each: (each.pid, "".join(each.cmdline()[:1])))
    return [pid for pid, command in found if command.startswith(beginning)]

with connection.connect(settings, 0):
    fleet = RayFleet(settings)
    fleet._nodes = connection.cluster_nodes()
    asked = time.monotonic()
    fleet._device_memory(SharingSystem(2, Faults(Path())))
    while len(of_ray("ray::IDLE")) < 4 and time.monotonic() < asked + 100.0:
        time.sleep(0.1)  # two provers', a governor's, and the one that looked at the device
    idle = of_ray("ray::IDLE")
    actors = [_actor(HostSpec(f"p{i}", BackendChoice("cpu", 1), 1), fleet._nodes[0], 0.5) for i in range(2)]
    ray.get([actor.identity.remote() for actor in actors])
    print(json.dumps({"idle": idle, "actors": of_ray("ray::RemoteWorker")}))
"""


def run(script: str, *arguments: str) -> Any:
    """What a script prints. The Ray is the test's own, and starts no process that nobody asked for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.ray
@pytest.mark.slow
def test_provers_that_share_a_gpu_find_processes_that_stand_by() -> None:
    """Their number follows from the GPU's memory, and until that was told none of their processes began."""
    told = run(UNKNOWN)
    assert len(told["actors"]) == 2
    assert set(told["actors"]) < set(told["idle"])


@pytest.mark.ray
@pytest.mark.parametrize(("gpus_there", "gpus_asked"), [(0, None), (2, 0)])
def test_without_gpus_no_process_begins_before_its_actor(
    gpus_there: int, gpus_asked: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[object, ...]] = []
    monkeypatch.setattr("cluster.executor.ray.start", lambda *given: begun.append(given))
    fleet = RayFleet(ExecutorSettings(local=False, gpus=gpus_asked))
    fleet._nodes = [Node("a", "10.0.0.1", 8.0, gpus_there, 1)]
    assert fleet._device_memory(SharingSystem(2, Faults(Path()))) == 0
    assert not begun


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_actor_goes_on_in_the_process_that_stood_by(tmp_path: Path) -> None:
    told = run(JOB, str(tmp_path))
    assert len(told["spare"]) == 1
    assert not told["imported"], "nothing of ours is in it, nor what that imports"
    assert told["cpus"] == 1.0, "the actor's"
    assert told["actor"] == told["spare"]
    assert len(told["another"]) == 1
    assert told["another"] != told["spare"]
    Proof.read(tmp_path / "run" / "proof.msgpack").verify(ToySystem(6, Faults(tmp_path)))
