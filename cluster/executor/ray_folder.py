"""The private folder of a Ray that we start: its sockets, its logs, and what its store spills.

Ray makes its own folders with mode 0777, in a place that all users share, where any of them can take the place of a
socket. Here these lie in a folder of mode 0700, which is removed at the end, or by the next driver if this one is
killed (`kernels.host.scratch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernels.host.scratch import RAY, scratch_folder

SESSIONS, SPILL = "r", "s"
"""Names of its folders: Ray's sessions, and the spilled objects."""

_SOCKET = f"/{RAY}xxxxxxxx/{SESSIONS}/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
_LONGEST_ROOT = 107 - len(_SOCKET)
"""Bytes of the path to it: a socket's path has at most 107."""


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A new folder with SESSIONS and SPILL, for as long as the block. Lies in TMPDIR where that is short enough.

    Raises NotPrivate where others could change or replace it.
    """
    with scratch_folder(RAY, _LONGEST_ROOT) as folder:
        for name in (SESSIONS, SPILL):
            (folder / name).mkdir(mode=0o700)
        yield folder
