"""Digests of code as this process has loaded it, for names of what the code has made and others will find in a cache.

A process that runs while its package is updated in place has other code in memory than lies on the disk. If it named
what it makes by the files as they are now, a process of the new code would take that for its own: an older circuit in
place of one that was mended.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import kernels

_MARGIN = 10**9
"""Nanoseconds by which the clock of a file system may lag behind ours."""


@cache
def digest_of(files: tuple[Path, ...]) -> bytes:
    """A digest of 32 bytes of these files: sources, and native libraries. It is random where one of them was changed
    since this process began to load the package, so that nothing is found by it."""
    hashed = hashlib.sha256()
    for path in files:
        name, content = path.name.encode(), path.read_bytes()
        hashed.update(b"%d %d " % (len(name), len(content)) + name + content)
    return hashed.digest() if as_loaded(files) else os.urandom(32)


def as_loaded(files: Iterable[Path]) -> bool:
    """Whether none of these files was changed since this process began to load the package: only then may what it made
    be kept under their digest. It goes by the time of change of an inode, which installers do not set."""
    try:
        return all(path.stat().st_ctime_ns < kernels.BEGAN - _MARGIN for path in files)
    except OSError:
        return False


def sources(*packages: Sequence[str]) -> tuple[Path, ...]:
    """The Python files of packages, given by their `__path__`, in order."""
    return tuple(path for package in packages for path in sorted(Path(package[0]).rglob("*.py")))
