"""Temporary folders and files of processes that were killed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kernels.host.cache import keep
from kernels.host.scratch import RAY, WORK, _locked_folder, remove_left_over, scratch_folder


def test_the_folder_of_a_dead_process_is_removed_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for prefix in (RAY, WORK):
        dead, lock = _locked_folder(tmp_path, prefix)
        (dead / "witness").write_text("secret")
        os.close(lock)  # as the kernel does when a process is killed
    (tmp_path / "dp-thesis").mkdir()
    with scratch_folder() as living:
        assert living.stat().st_mode & 0o077 == 0
        remove_left_over()
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "dp-thesis", living])
    assert not living.exists()


def test_a_cache_file_that_was_never_complete_is_removed(tmp_path: Path) -> None:
    left, under_way = tmp_path / "new-left.tmp", tmp_path / "new-under-way.tmp"
    for path in (left, under_way):
        path.touch()
    os.utime(left, (1, 1))
    kept = keep(tmp_path, "key", ".bin", lambda file: file.write(b"x"))
    assert kept is not None
    kept.close()
    assert not left.exists()
    assert under_way.exists()
