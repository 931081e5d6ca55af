"""The memory of this process: settings of malloc, and the most that was resident."""

from __future__ import annotations

import contextlib
import ctypes
import resource

_M_MMAP_THRESHOLD = -3
"""The mallopt parameter M_MMAP_THRESHOLD of glibc's malloc.h."""
_LARGE = 1 << 20
_M_ARENA_MAX = -8
_ARENAS = 2


def give_back_large_blocks() -> None:
    """Make malloc return every block of 1 MiB or more to the system when it is freed. Does nothing without glibc.

    By default glibc raises that threshold to the largest block it has seen freed, up to 32 MiB, and each thread's arena
    then keeps what it freed: 23 MB while a job with a key of 22 MB is proven. Fresh pages cost a proof about 1.5 % of
    its time. Only commands call this, because they own their process; a library must not decide it.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def share_arenas() -> None:
    """Make malloc have two arenas for all threads of this process that are yet to allocate. Does nothing without glibc.

    By default there are eight for each core, and what one thread frees in its own another one does not find. A service
    whose forty threads run in turns, as they need the interpreter, had 16 with 8.4 MB free in them after half an hour,
    and has 2 with 2.0. Only main programs call this; those that compute on many threads should not.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def most_resident() -> int:
    """The most memory that this process was resident in, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
