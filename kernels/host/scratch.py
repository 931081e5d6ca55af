"""Private folders for temporary files, which are locked as long as their process lives.

A process that is killed leaves its folder; because it held a lock on it, the next one knows that it is dead, and
removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernels.host.private import NotPrivate, temporary_root

RAY, WORK = "dp-ray-", "dp-work-"
"""What the names of the folders begin with: that of a Ray, and others."""
_PATIENCE = 5.0
"""Seconds in which processes that are just ending stop writing to a folder."""


@contextmanager
def scratch_folder(prefix: str = WORK, longest: int | None = None) -> Iterator[Path]:
    """A new folder of mode 0700 for as long as the block, in what `temporary_root` gives. Removes what processes that
    were killed left there. Raises NotPrivate where others could change or replace it."""
    root = temporary_root(longest)
    _remove_left_over(root)
    folder, lock = _locked_folder(root, prefix)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def remove_left_over() -> None:
    """Remove this user's folders for temporary files whose processes are gone."""
    with suppress(NotPrivate):
        _remove_left_over(temporary_root())


def _locked_folder(root: Path, prefix: str) -> tuple[Path, int]:
    """A new folder of mode 0700, and a descriptor that locks it for as long as it is open."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
        try:
            lock = _open(folder)
        except FileNotFoundError:
            continue  # another process came between, found it without a lock, and removed it
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _remove_left_over(root: Path) -> None:
    for folder in (folder for prefix in (RAY, WORK) for folder in root.glob(f"{prefix}*")):
        try:
            lock = _open(folder)
        except OSError:
            continue  # another user's, or no folder
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except BlockingIOError:
            continue  # its process lives
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
