"""The private folder of a Ray that we start: its sockets, its logs, and what its store spills.

Ray makes its own folders with mode 0777, in a place that all users share, where any of them can take the place of a
socket. Here these lie in a folder of mode 0700, which is removed at the end. A driver that is killed leaves its folder;
because it held a lock on it, the next one knows that it is dead, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernels.host.private import temporary_root

PREFIX = "dp-ray-"
SESSIONS, SPILL = "r", "s"
"""Names of its folders: Ray's sessions, and the spilled objects."""

_SOCKET = f"/{PREFIX}xxxxxxxx/{SESSIONS}/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_ROOT = 107 - len(_SOCKET)
"""Bytes of the path to it: a socket's path has at most 107."""
_PATIENCE = 5.0
"""Seconds in which processes of Ray that are just ending stop writing to it."""


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A new folder with SESSIONS and SPILL, for as long as the block. Lies in TMPDIR where that is short enough.

    Raises NotPrivate where others could change or replace it.
    """
    root = temporary_root(_LONGEST_ROOT)
    _remove_left_over(root)
    folder, lock = _locked_folder(root)
    try:
        for name in (SESSIONS, SPILL):
            (folder / name).mkdir(mode=0o700)
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _locked_folder(root: Path) -> tuple[Path, int]:
    """A new folder of mode 0700, and a descriptor that locks it for as long as it is open."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        try:
            lock = _open(folder)
        except FileNotFoundError:
            continue  # another driver came between, found it without a lock, and removed it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_left_over(root: Path) -> None:
    """Remove this user's folders whose drivers are gone."""
    for folder in root.glob(f"{PREFIX}*"):
        try:
            lock = _open(folder)
        except OSError:
            continue  # another user's, or no folder
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except BlockingIOError:
            continue  # its driver lives
        finally:
            os.close(lock)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _remove(folder: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > until:
            return
        time.sleep(0.05)
