"""What a job leaves on a node that is cut off, or on others when its head is lost, ends by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distprove.measure.campaign.processes import can_cut
from tests.support import LONG, ROOT

LEAVING = """
import importlib, json, os, sys, time
from pathlib import Path
import psutil
from distprove.measure.campaign.fault_schedules import Schedule
from distprove.measure.campaign.faults import Outside, Sessions, report, scratch
from tests.support.lossy_cluster import LossyCluster

kind, words = sys.argv[1], sys.argv[2:]
cluster = LossyCluster(apart=True)
os.environ |= {name: value for name, value in cluster.environment.items() if name.startswith("RAY_")}
importlib.import_module("cluster.executor.ray")
slow = tuple(("slow", f"p{number}") for number in range(4, 24))  # a driver waits for its head for ten seconds
schedule = Schedule(0, "ray", 24, 1, False, False, ((kind, "p3"), *(slow if kind == "lost_head" else ())), 0.0, 2)
with scratch() as folder:
    for name in ("faults", "tmp"):
        (folder / name).mkdir(mode=0o700)
    outside = Outside(schedule, folder, cluster)
    outside._chance.choice = lambda of: of[0]  # of a head its `gcs_server`
    cluster.mend(2)
    sessions = Sessions(schedule, folder, cluster)
    end = sessions.wait(sessions.start(), None, outside)
    ended = time.monotonic()

    def left():
        found = []
        for process in cluster.processes(1):
            try:
                found += [word for word in process.cmdline()[:1] if word.startswith(tuple(words))]
            except psutil.Error:
                pass
        return found

    found, raylets = left(), True
    while found and time.monotonic() < ended + 40.0:
        time.sleep(0.1)
        found = left()
        raylets = raylets and any(process.name() == "raylet" for process in cluster.processes(1))
    print(json.dumps({"end": end, "left": found, "raylet": raylets, "after": round(time.monotonic() - ended, 1)}))
cluster.close()
"""


def leaving(kind: str, *words: str) -> dict[str, Any]:
    """What is left on the second of two nodes of a job that met this: processes whose names begin with these words,
    40 s after its end. Ray itself ends them after 60."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, kind, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@LONG
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not can_cut(), reason="no network namespaces can be made here")
def test_the_governor_of_a_node_that_is_cut_off_ends_with_its_job(tmp_path: Path) -> None:
    """Nobody can tell it of that, and the network stays cut."""
    told = leaving("cut_for_good", "ray::NodeGovernor")
    assert told["end"] == "done"
    assert told["left"] == [], told
    assert told["raylet"], "it did not end with its node's Ray"


@LONG
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not can_cut(), reason="no network namespaces can be made here")
def test_workers_end_with_a_job_that_lost_its_head(tmp_path: Path) -> None:
    """Their node's Ray would end them after a minute."""
    told = leaving("lost_head", "ray::NodeGovernor", "ray::RemoteWorker")
    assert told["end"] == "ClusterError"
    assert told["left"] == [], told
    assert told["raylet"], "they did not end with their node's Ray"
