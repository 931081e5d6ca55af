"""How the files of partitions come to the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cluster.record.packs import LEAST, MAX_FILE, Packs, own_file
from distprove.formats import files as files_module
from distprove.formats import folder as folder_module
from distprove.formats.folder import Folder
from tests.support.own_module import give

LARGE = bytes(MAX_FILE + 1)


@pytest.mark.parametrize("small", [0, 1, LEAST])
@pytest.mark.parametrize("large", [0, 1, 3])
def test_names_are_synced_after_the_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, large: int
) -> None:
    """A file whose name is not on disk is lost by a power cut, whatever was synced of its content."""
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")

    def renamed(*names: Any, **folders: Any) -> None:
        rename(*names, **folders)
        done.append("name")

    files = {f"large-{i}": LARGE for i in range(large)} | {f"small-{i}": b"x" for i in range(small)}
    with Folder.make(tmp_path) as folder:
        packs = Packs(folder)
        with monkeypatch.context() as patched:
            for module in (files_module, folder_module):
                give(patched, module, "os", fsync=synced, replace=renamed)
            packs.write(files.items())
        found = packs.read(files).files | {
            n: folder.read(own_file(n), 1 << 20) for n in files if folder.has(own_file(n))
        }
    assert found == files
    assert not files or done[-1] == "folder"
    names = large + (1 if small >= LEAST else small)
    assert done.count("name") == done.count("file") == names
    alone = names - (small >= LEAST)
    assert done.count("folder") == (alone > 0) + (small >= LEAST), "once for those that lie alone"
