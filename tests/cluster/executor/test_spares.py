"""A process of Ray stands by on each node, and an actor whose process was killed goes on in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distprove.proof import Proof
from tests.support import ROOT
from tests.support.toy_system import Faults, ToySystem

JOB = """
import json, sys, time
from pathlib import Path
import psutil
from cluster.driver import drive
from cluster.executor import spares
from cluster.executor.opening import open_executor
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
with open_executor(settings) as executor, Run.create(folder / "run", system, system.plan()) as run:
    drive(system, executor, run, settings, progress)
    told["actor"], told["another"] = of_ray("ray::RemoteWorker"), spare()
print(json.dumps(told))
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_killed_actor_goes_on_in_the_process_that_stood_by(tmp_path: Path) -> None:
    """The Ray is the test's own, and starts no process that nobody asked for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=250,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["spare"]) == 1
    assert not told["imported"], "nothing of ours is in it, nor what that imports"
    assert told["cpus"] == 1.0, "the actor's"
    assert told["actor"] == told["spare"]
    assert len(told["another"]) == 1
    assert told["another"] != told["spare"]
    Proof.read(tmp_path / "run" / "proof.msgpack").verify(ToySystem(6, Faults(tmp_path)))
