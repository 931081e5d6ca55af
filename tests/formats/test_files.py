"""Files read whole: bounded by the limit, and by what is there."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pytest

from distprove.errors import FormatError, InputError
from distprove.formats import folder as folder_module
from distprove.formats.files import read_bounded
from distprove.formats.folder import Folder
from tests.support.own_module import give


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


def test_a_file_takes_its_place_only_if_the_block_succeeds(tmp_path: Path) -> None:
    def new(file: BinaryIO) -> None:
        file.write(b"new")

    def content(file: BinaryIO) -> bytes:
        assert (tmp_path / "proof").read_bytes() == b"old"
        return os.pread(file.fileno(), 100, 0)

    with Folder.make(tmp_path) as folder:
        folder.write("proof", b"old")
        with pytest.raises(FormatError, match="read back"), folder.filling("proof", new) as full:  # noqa: PT012 - the block is what raises
            assert content(full()) == b"new"
            raise FormatError("it cannot be read back")
        with pytest.raises(FormatError, match="before"), folder.filling("proof", new):
            raise FormatError("before it is asked for")
        assert (tmp_path / "proof").read_bytes() == b"old"
        with folder.filling("proof", new) as full:
            assert content(full()) == b"new"
        assert (tmp_path / "proof").read_bytes() == b"new"
        with folder.filling("proof", lambda file: file.write(b"newer")):
            pass  # nobody reads it back
    assert (tmp_path / "proof").read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["proof"]


@pytest.mark.parametrize("asks", [False, True])
def test_a_file_that_cannot_be_written_does_not_take_its_place(tmp_path: Path, asks: bool) -> None:
    def fails(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "no room")

    with Folder.make(tmp_path) as folder:
        folder.write("proof", b"old")
        with pytest.raises(OSError, match="no room"), folder.filling("proof", fails) as full:  # noqa: PT012 - the block is what raises
            if asks:
                full()
    assert (tmp_path / "proof").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["proof"]


def test_a_file_is_closed_only_after_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its descriptor may else be that of another file when it is written to."""
    begun, ended, sync = threading.Event(), [], os.fsync

    def slow(descriptor: int) -> None:
        begun.set()
        time.sleep(0.2)  # for whoever does not wait to go on
        sync(descriptor)
        ended.append("sync")

    def write_slowly(file: BinaryIO) -> None:
        begun.set()
        time.sleep(0.2)
        file.write(b"new")
        ended.append("write")

    with Folder.make(tmp_path) as folder:
        give(monkeypatch, folder_module, "os", fsync=slow)
        with pytest.raises(FormatError, match="read back"), folder.filling("proof", lambda file: None) as full:  # noqa: PT012 - the block is what raises
            full()
            assert begun.wait(60)
            raise FormatError("it cannot be read back")
        begun.clear()
        with pytest.raises(FormatError, match="before"), folder.filling("proof", write_slowly):  # noqa: PT012 - the block is what raises
            assert begun.wait(60)
            raise FormatError("before it is asked for")
    assert ended == ["sync", "write"]
    assert not os.listdir(tmp_path)


WRITES_LAST = """
import sys, threading
from pathlib import Path

from distprove.formats.folder import Folder


def write():
    threading.main_thread().join()
    with Folder.make(Path(sys.argv[1])) as folder, folder.filling("proof", lambda file: file.write(b"new")):
        pass


threading.Thread(target=write).start()
"""


def test_a_file_is_written_by_a_thread_that_outlives_the_main_one(tmp_path: Path) -> None:
    """As where a program proves on a thread: a pool of threads then takes no work any more."""
    subprocess.run([sys.executable, "-c", WRITES_LAST, str(tmp_path)], check=True, timeout=60)
    assert (tmp_path / "proof").read_bytes() == b"new"
