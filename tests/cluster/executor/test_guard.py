"""What ends, and what goes, when a driver with a Ray of its own is killed at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from cluster.executor import connection
from cluster.executor.guard import guarded
from distprove.measure.campaign.processes import marked
from tests.support import ROOT
from tests.support.ray_nodes import told_by

LATE = 300.0
"""Seconds after which a test gives up."""

ORPHAN = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1].split("=")[1])
while True:
    folder.mkdir(parents=True, exist_ok=True)  # as a worker does that is born into a Ray which is gone
    (folder / "log").write_text("still here")
    time.sleep(0.01)
"""

DRIVER = """
import subprocess, sys, time
from cluster.executor.connection import ray_folder
from cluster.executor.guard import guarded
with ray_folder() as folder, guarded(str(folder)):
    orphan = subprocess.Popen([sys.executable, "-c", sys.argv[1], f"--temp-dir={folder}/r"], start_new_session=True)
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print(folder, orphan.pid, other.pid, flush=True)
    time.sleep(600)
"""

BORN = """
import sys, time
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings
with connect(ExecutorSettings(local=False, gpus=0)):
    import ray
    class Born: pass
    kept = [ray.remote(Born).options(num_cpus=0).remote() for _ in range(3)]
    print("workers are born", flush=True)
    time.sleep(600)
"""


def ended(pid: int) -> bool:
    with suppress(psutil.Error):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True


def marked_with(word: str) -> list[psutil.Process]:
    """The children of this process with that word in their commands, as soon as there is one."""
    late = time.monotonic() + LATE
    while time.monotonic() < late:
        found = [
            child
            for child in psutil.Process().children()
            if any(word in command for command in told_by([child], psutil.Process.cmdline))
        ]
        if found:
            return found
        time.sleep(0.01)
    return []


@contextmanager
def killed(*command: str, environment: dict[str, str]) -> Iterator[str]:
    """A driver that was killed as soon as it had said a line; the line."""
    with subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True, env=environment) as one:
        assert one.stdout is not None
        said = one.stdout.readline().strip()
        one.kill()
        one.wait()
    yield said


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "PYTHONPATH": str(ROOT), "OF_THIS_TEST": str(tmp_path)}


def test_what_names_the_folder_ends_with_a_killed_driver_and_the_folder_goes(environment: dict[str, str]) -> None:
    with killed(DRIVER, ORPHAN, environment=environment) as said:
        folder, orphan, other = said.split()
        try:
            late = time.monotonic() + LATE
            while (not ended(int(orphan)) or Path(folder).exists()) and time.monotonic() < late:
                time.sleep(0.05)
            assert ended(int(orphan))
            assert not Path(folder).exists()
            assert not ended(int(other)), "it has nothing to do with that folder"
        finally:
            psutil.Process(int(other)).kill()


def test_a_guard_leaves_what_its_driver_does_not(tmp_path: Path) -> None:
    """It ends with the block, and removes nothing."""
    with guarded(str(tmp_path)):
        (guard,) = marked_with(str(tmp_path))
    assert ended(guard.pid)
    assert tmp_path.is_dir()


@pytest.mark.ray
@pytest.mark.slow
def test_workers_that_are_being_born_end_with_a_killed_driver(tmp_path: Path, environment: dict[str, str]) -> None:
    """They looked for the head that was killed with it, for half a minute and longer."""
    with killed(BORN, environment=environment) as said:
        assert said == "workers are born"
        late = time.monotonic() + LATE
        while (left := marked("OF_THIS_TEST", str(tmp_path))) and time.monotonic() < late:
            time.sleep(0.05)
        assert left == []


def test_only_processes_of_the_folder_are_of_its_ray(tmp_path: Path) -> None:
    """Children whose program lies in a folder named ray were taken for Ray's, and killed with it."""
    elsewhere = tmp_path / "ray" / "bin"
    elsewhere.mkdir(parents=True)
    (elsewhere / "sleep").symlink_to("/bin/sleep")
    ours = subprocess.Popen([elsewhere / "sleep", "600"])
    rays = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"--session_dir={tmp_path}/r"])
    try:
        late = time.monotonic() + LATE
        while not (found := connection._processes(tmp_path)) and time.monotonic() < late:
            time.sleep(0.01)  # until it has become another program
        assert [process.pid for process in found] == [rays.pid]
        assert connection._processes(None) == []
    finally:
        for child in (ours, rays):
            child.kill()
            child.wait()
