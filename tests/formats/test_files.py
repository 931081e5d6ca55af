"""Files read whole: bounded by the limit, and by what is there."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from distprove.errors import FormatError, InputError
from distprove.formats.files import read_bounded


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
