"""What other users of the machine find of a Ray that we started: a folder that they cannot enter, and no open port."""

from __future__ import annotations

import ipaddress
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cluster.executor.connection import ray_folder
from kernels.host.private import NotPrivate
from kernels.host.scratch import RAY
from tests.support.ray_nodes import told_by

NOBODY = 65534

OPEN = """
import contextlib, time
from pathlib import Path
import numpy as np
from cluster.executor import connection
from cluster.executor.connection import connect
from distprove.errors import ClusterError
from distprove.settings import ExecutorSettings
connection.MAX_STORE_SHARE = 0.0
with contextlib.ExitStack() as stack:
    for attempt in range(3):  # on a busy machine a node may not come up in Ray's own time
        try:
            stack.enter_context(connect(ExecutorSettings(threads=2, gpus=0)))
            break
        except ClusterError as error:
            if "timed out during startup" not in str(error) or attempt == 2:
                raise
    import ray
    kept = [ray.put(np.ones(5 << 20)) for _ in range(6)]  # 240 MB in a store of 128 MiB: it spills
    ray.get(ray.remote(lambda: None).remote())
    (node,) = ray.nodes()
    print(Path(node["RayletSocketName"]).parents[1], flush=True)
    time.sleep(600)
"""

HELD = """
import sys, time
from cluster.executor.connection import ray_folder
with ray_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""

FAILING = """
import sys
from pathlib import Path
import ray
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings
def init(**settings):
    assert Path(settings["_temp_dir"]).is_dir()
    raise {error}
ray.init = init
with connect(ExecutorSettings()):
    pass
"""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a path that is short enough for sockets, in a sticky folder as /tmp is."""
    with tempfile.TemporaryDirectory(prefix="dp", dir="/tmp") as path:
        Path(path).chmod(0o1777)
        monkeypatch.setenv("TMPDIR", path)
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path)


@pytest.fixture
def clean(root: Path) -> dict[str, str]:
    """The environment of a process that starts a Ray of its own, which others' settings of Ray do not reach."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def as_nobody(*command: object) -> int:
    """The exit status of a command that another user runs."""
    words = [str(word) for word in command]
    return subprocess.run(words, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True).returncode


@pytest.mark.ray
@pytest.mark.slow
def test_others_cannot_reach_the_sockets_logs_and_spilled_witnesses(
    root: Path, clean: dict[str, str], interruptible: None
) -> None:
    spill = root / "elsewhere"
    spill.mkdir(mode=0o777)
    clean |= {"RAY_object_spilling_directory": str(spill), "RAY_TMPDIR": str(spill)}
    with subprocess.Popen([sys.executable, "-c", OPEN], stdout=subprocess.PIPE, text=True, env=clean) as driver:
        try:
            assert driver.stdout is not None
            session = Path(driver.stdout.readline().strip())

            # One folder, which only we may enter, holds all that is left on disk.
            (folder,) = root.glob(f"{RAY}*")
            facts = folder.lstat()
            assert stat.S_ISDIR(facts.st_mode)
            assert (stat.S_IMODE(facts.st_mode), facts.st_uid) == (0o700, os.geteuid())
            assert list(spill.iterdir()) == []
            assert folder in session.parents
            assert (folder / "r" / "session_latest").resolve() == session
            sockets = [session / "sockets" / name for name in ("raylet", "plasma_store")]
            assert all(stat.S_ISSOCK(path.lstat().st_mode) for path in sockets)
            assert all(len(os.fsencode(path)) <= 107 for path in sockets)
            spilled = [path for path in (folder / "s").rglob("*") if path.is_file()]
            assert sum(path.stat().st_size for path in spilled) > 40 << 20
            assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o700

            # The attack: another user puts a socket of his own in the place of the raylet's.
            if os.geteuid() == 0:
                for path in (*sockets, session / "logs" / "raylet.out", spilled[0], session):
                    assert as_nobody("stat", path) != 0, path
                assert as_nobody("mv", sockets[0], f"{sockets[0]}.real") != 0
                assert as_nobody("mv", folder, f"{folder}.real") != 0

            # No process of this Ray listens where another machine could reach it, or has the token in its command line.
            me = psutil.Process(driver.pid)
            processes = [me, *me.children(recursive=True)]
            heard = {
                connection.laddr.ip
                for connections in told_by(processes, lambda process: process.net_connections(kind="inet"))
                for connection in connections
                if connection.status == psutil.CONN_LISTEN
            }
            assert heard
            assert all(ipaddress.ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in heard), heard
            (token,) = {each.get("RAY_AUTH_TOKEN") for each in told_by(processes[1:], psutil.Process.environ)} - {None}
            words = [word for command in told_by(processes, psutil.Process.cmdline) for word in command]
            assert not any(token in word for word in words)
            assert any(word.endswith("gcs_server") for word in words)

            # Nothing is started that a job has no use for, and for which it would wait.
            assert not any(word.endswith("dashboard.py") for word in words)

            driver.send_signal(signal.SIGINT)
            driver.wait(600)
            assert not folder.exists()
        finally:
            driver.kill()


def test_a_driver_that_is_killed_leaves_a_folder_that_the_next_one_removes(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HELD], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        left = Path(driver.stdout.readline().strip())
        (left / "r" / "session").mkdir()
        with ray_folder() as own:
            assert own != left
            assert left.is_dir(), "its driver lives"
        assert not own.exists()
        driver.kill()
    assert left.is_dir()
    with ray_folder():
        assert not left.exists()
    assert list(root.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_what_is_not_ours_is_not_removed(root: Path) -> None:
    theirs = root / f"{RAY}theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    ours = root / "ours"
    ours.mkdir()
    (ours / "file").touch()
    (root / f"{RAY}link").symlink_to(ours)
    (root / f"{RAY}file").touch()
    with ray_folder():
        pass
    assert theirs.is_dir()
    assert (ours / "file").exists()


def test_a_root_that_others_can_change_or_that_is_too_long_is_passed_over(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.chmod(0o777)  # not sticky: others may move our folder there
    with ray_folder() as folder:
        assert root not in folder.parents
    root.chmod(0o700)
    long = root / ("x" * 40)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with ray_folder() as folder:
        assert long not in folder.parents
    monkeypatch.setattr("kernels.host.private.require_private", _refuse)
    with pytest.raises(NotPrivate, match="no folder for temporary files is safe from others"), ray_folder():
        pass


def _refuse(folder: Path, **_options: bool) -> None:
    raise NotPrivate(f"{folder} is anybody's")


NEEDS_DASHBOARD = """
import logging, ray, socket, sys
from cluster.executor.connection import connect
from distprove.settings import ExecutorSettings
asked = []
def init(**settings):
    asked.append(settings.get("dashboard_port"))
    logging.getLogger("ray.services").error("an error that is no news")
    if asked[-1] is not None:
        try:
            socket.create_server((settings["dashboard_host"], asked[-1]))
        except OSError:
            raise ValueError(f"Failed to bind to {asked[-1]} because it's already occupied.")
ray.init = init
with connect(ExecutorSettings()) as how:
    logging.getLogger("ray.services").error("an error of later")
print(how, len(asked), asked[-1])
"""


def test_a_ray_that_cannot_do_without_a_dashboards_process_gets_a_port_for_it(clean: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEEDS_DASHBOARD], capture_output=True, text=True, env=clean, timeout=200
    )
    assert done.stdout == "started 2 None\n", done.stderr
    assert "an error that is no news" not in done.stderr
    assert "an error of later" in done.stderr


@pytest.mark.parametrize("error", ["RuntimeError('no')", "KeyboardInterrupt"])
def test_nothing_is_left_when_ray_does_not_start(root: Path, clean: dict[str, str], error: str) -> None:
    code = FAILING.format(error=error)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=clean, timeout=200)
    assert ("ClusterError: Ray does not start here" in done.stderr) is error.startswith("Runtime"), done.stderr
    assert "AssertionError" not in done.stderr
    assert done.returncode != 0
    assert list(root.iterdir()) == []
