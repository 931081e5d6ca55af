"""The throttle word: believed for a while, obeyed by loops, never for ever."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.governor.service import LocalGovernor, NodeGovernor
from cluster.governor.state import Budget
from kernels.cpu.backend import CpuBackend
from kernels.cpu.native import native
from kernels.host.private import NotPrivate
from kernels.host.throttle import LIFE, PREFIX, Brake, Throttle, believed, encode
from kernels.maths.curves import BN254, Group


def test_a_word_is_believed_until_its_time_and_only_with_a_count() -> None:
    word = encode(3, 10.0)
    assert believed(word, 9.99)
    assert not believed(word, 10.0)
    assert not believed(encode(0, 10.0), 9.0)
    assert believed(encode(1 << 20, 10.0), 9.0), "more than fits in 16 bits is not none"


def test_readers_see_the_word_raised_and_lowered(tmp_path: Path) -> None:
    with Throttle(tmp_path) as throttle:
        brake = Brake(throttle.path)
        assert not brake.raised
        throttle.write(2)
        assert brake.raised
        throttle.write(0)
        assert not brake.raised
        throttle.write(1)
    assert not brake.raised, "whoever is gone holds nobody up"
    assert not list(tmp_path.iterdir())
    brake.close()


def test_waiting_ends_with_the_word_or_with_patience(tmp_path: Path) -> None:
    with Throttle(tmp_path) as throttle:
        brake = Brake(throttle.path)
        throttle.write(1)
        assert brake.wait(0.02) >= 0.02
        threading.Timer(0.05, throttle.write, [0]).start()
        assert brake.wait(60.0) < 30.0


def test_a_dead_writer_is_believed_for_its_life_only(tmp_path: Path) -> None:
    with Throttle(tmp_path) as throttle:
        brake = Brake(throttle.path)
        throttle.write(1)
        assert 0 < brake.wait(10 * LIFE) < 9 * LIFE


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kernels.host.throttle import Throttle\n"
        "word = Throttle(Path(sys.argv[1])); print(word.path, flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    left = Path(writer.stdout.readline().strip())
    with Throttle(tmp_path) as living:
        assert left.exists(), "its writer lives"
        writer.kill()
        writer.wait()
        with Throttle(tmp_path) as throttle:
            assert not left.exists()
            assert living.path.exists()
            assert throttle.path.exists()


def test_only_plain_files_of_our_own_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / f"{PREFIX}link").symlink_to(target)
    (tmp_path / f"{PREFIX}folder").mkdir()
    os.mkfifo(tmp_path / f"{PREFIX}pipe")
    other = tmp_path / "distprove-other"
    other.write_text("kept")
    with Throttle(tmp_path):
        pass
    assert len(list(tmp_path.iterdir())) == 5


def test_a_file_that_is_taken_for_left_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer looks between the making of the file and its lock."""
    real, calls = fcntl.flock, []

    def flock(handle: int, operation: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            next(tmp_path.glob(f"{PREFIX}*")).unlink()
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Throttle(tmp_path) as throttle:
        assert throttle.path.exists()
        throttle.write(1)
        assert Brake(throttle.path).raised
    assert len(calls) == 2


def test_loops_give_the_same_under_a_raised_word(tmp_path: Path) -> None:
    """They make way and still come to their end, whoever raised the word."""
    field = BN254.fr
    a = np.arange(4 * 20000, dtype=np.uint64).reshape(-1, 4)
    a[:, 3] = 0
    free, held = CpuBackend(threads=2), CpuBackend(threads=2)
    with Throttle(tmp_path) as throttle:
        held.pool.yield_to(throttle.path)
        throttle.write(1)
        assert np.array_equal(held.vectors.mul(field, a, a), free.vectors.mul(field, a, a))
        held.pool.limit_threads(1)
        assert np.array_equal(held.vectors.mul(field, a, a), free.vectors.mul(field, a, a))


def test_loops_make_way_and_group_sums_do_not(tmp_path: Path) -> None:
    """By how long the process slept: parking is sleeping, and a loop on one thread does nothing else of the kind."""

    def naps(call: Callable[[], Any]) -> int:
        before = _voluntary_switches()
        call()
        return _voluntary_switches() - before

    a = np.ones((1 << 15, 4), dtype=np.uint64)
    a[:, 3] = 0
    points = np.zeros((1 << 10, 8), dtype=np.uint64)
    with Throttle(tmp_path) as throttle:
        backend = CpuBackend(threads=1)
        backend.pool.yield_to(throttle.path)
        throttle.write(1)
        assert naps(lambda: backend.vectors.mul(BN254.fr, a, a)) >= 5
        table = backend.groups.load_points(BN254, Group.G1, points)
        throttle.write(1)
        assert naps(lambda: backend.groups.msm(table, a[: 1 << 10]).result()) < 5


def _voluntary_switches() -> int:
    for line in Path("/proc/thread-self/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("no count of context switches")


def spoiled(path: Path, kind: str) -> None:
    """Puts what is no throttle word of ours at `path`."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind in ("short", "long"):
        path.write_bytes(bytes(3 if kind == "short" else 9))
        path.chmod(0o600)
    elif kind != "absent":
        path.write_bytes(encode(1, 1e9).to_bytes(8, "little"))
        path.chmod(0o666 if kind == "open to all" else 0o600)
        if kind == "another's":
            os.chown(path, 65534, -1)
        if kind == "link":
            path.symlink_to(path.rename(path.with_name("target")))


KINDS = ["absent", "short", "long", "pipe", "folder", "link", "open to all"]
KINDS += ["another's"] if os.geteuid() == 0 else []


@pytest.mark.timeout(60)  # a wait for the other end of a pipe is no wait for the end of the suite
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_word_of_ours_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    """Whoever can put something in its place stops nobody: the error is an OSError, which workers do without."""
    path = tmp_path / "word"
    spoiled(path, kind)
    with pytest.raises(OSError):  # noqa: PT011 (the system's errors and ours)
        Brake(path)
    with pytest.raises(OSError):  # noqa: PT011
        CpuBackend().pool.yield_to(path)
    with Throttle(tmp_path) as throttle:
        throttle.write(1)


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_native_loops_map_no_file_that_is_too_short(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(content)
    with (tmp_path / "short").open("rb") as file, pytest.raises(ValueError, match="throttle word"):
        native.Pool(1).yield_to(file.fileno())


@pytest.fixture
def open_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR, where every user of the machine can remove and replace what lies in it."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_the_word_stands_where_others_cannot_replace_it(open_folder: Path) -> None:
    with Throttle() as throttle:
        assert throttle.path.parent != open_folder
        assert stat.S_IMODE(throttle.path.stat().st_mode) == 0o600


def test_a_governor_does_without_a_word_where_no_folder_is_safe(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernels.host.private.require_private", lambda *_, **__: refuse())
    local = LocalGovernor(Budget(threads=1, memory=1))
    assert local.start() is None
    local.close()

    async def node() -> None:
        governor = NodeGovernor(1, 1 << 20)
        assert await governor.start() is None
        assert await governor.start() is None, "as for a second worker"
        await governor.close()

    asyncio.run(node())
    assert not list(open_folder.iterdir())


def refuse() -> None:
    raise NotPrivate("others may write it")
