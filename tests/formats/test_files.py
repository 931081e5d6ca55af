"""Files read whole: bounded by the limit, and by what is there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from distprove.errors import FormatError, InputError
from distprove.formats.files import read_bounded
from distprove.formats.folder import Folder


def test_reading_takes_the_files_size_and_not_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    assert read_bounded(path, 1 << 28) == b"x" * 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_the_limit_holds(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert read_bounded(path, 1000) == b"x" * 1000
    with pytest.raises(FormatError, match="larger than 999 bytes"):
        read_bounded(path, 999)


def test_what_is_no_file_is_an_input_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", tmp_path / ("n" * 300), Path("zero\0byte")):
        with pytest.raises(InputError):
            read_bounded(path, 100)


def test_a_file_takes_its_place_only_if_what_is_done_meanwhile_succeeds(tmp_path: Path) -> None:
    def refuse() -> None:
        assert (tmp_path / "proof").read_bytes() == b"old"
        raise FormatError("it cannot be read back")

    def look() -> None:
        assert (tmp_path / "proof").read_bytes() == b"old"

    with Folder.make(tmp_path) as folder:
        folder.write("proof", b"old")
        with pytest.raises(FormatError, match="read back"):
            folder.write("proof", b"new", meanwhile=refuse)
        assert (tmp_path / "proof").read_bytes() == b"old"
        folder.write("proof", b"new", meanwhile=look)
    assert (tmp_path / "proof").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["proof"]


def test_a_file_is_closed_only_after_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor may else be that of another file when it is written to."""
    begun, synced, sync = threading.Event(), [], os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        time.sleep(0.2)  # for whoever does not wait to go on
        sync(descriptor)
        synced.append(descriptor)

    def refuse() -> None:
        assert begun.wait(60)
        raise FormatError("it cannot be read back")

    with Folder.make(tmp_path) as folder:
        monkeypatch.setattr("os.fsync", slow)
        with pytest.raises(FormatError, match="read back"):
            folder.write("proof", b"new", meanwhile=refuse)
    assert len(synced) == 1
    assert not os.listdir(tmp_path)


WRITES_LAST = """
import sys, threading
from pathlib import Path

from distprove.formats.folder import Folder


def write():
    threading.main_thread().join()
    with Folder.make(Path(sys.argv[1])) as folder:
        folder.write("proof", b"new", meanwhile=lambda: None)


threading.Thread(target=write).start()
"""


def test_a_file_is_written_by_a_thread_that_outlives_the_main_one(tmp_path: Path) -> None:
    """As where a program proves on a thread: a pool of threads then takes no work any more."""
    subprocess.run([sys.executable, "-c", WRITES_LAST, str(tmp_path)], check=True, timeout=60)
    assert (tmp_path / "proof").read_bytes() == b"new"
