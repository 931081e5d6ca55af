"""Checks that are shared out among forks of this process, for what holds the interpreter's lock."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

HOLDS, FAILS, UNKNOWN = b"1", b"0", b"?"


def can_fork() -> bool:
    """Whether this process may be forked: one with threads may not, as a lock that another one holds stays held."""
    return sys.platform == "linux" and threading.active_count() == 1


def verdicts(check: Callable[[int], bool], indices: Sequence[int], processes: int) -> dict[int, bool]:
    """Call `check` for each index, in so many forks of this process; what it said, by index.

    An index is missing where `check` raised something, or its fork ended before: the caller asks itself, and meets what
    there is to meet. Forks have this process's memory, and copy of it what they change. None is left when this returns
    or raises.
    """
    forks: list[tuple[int, int]] = []
    found: dict[int, bool] = {}
    gc.freeze()  # no collection in a fork touches, and so copies, what is here
    try:
        for number in range(processes):
            with suppress(OSError):  # others, or the caller, do its part
                forks.append(_fork(check, indices[number::processes], [line for _, line in forks]))
        for number, (_, line) in enumerate(forks):
            said = b"".join(iter(lambda line=line: os.read(line, 1 << 16), b""))  # type: ignore[misc]
            shown = zip(indices[number::processes], said, strict=False)
            found.update((index, verdict == HOLDS[0]) for index, verdict in shown if verdict != UNKNOWN[0])
    finally:
        gc.unfreeze()
        for pid, line in forks:
            os.close(line)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return found


def _fork(check: Callable[[int], bool], indices: Sequence[int], others: Sequence[int]) -> tuple[int, int]:
    """Fork a process that writes a byte for each of the indices, in order: its number, and where to read them. `others`
    are descriptors that it closes. Raises OSError."""
    line, theirs = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        os.close(line)
        os.close(theirs)
        raise
    if pid:
        os.close(theirs)
        return pid, line
    try:
        for other in (*others, line):
            os.close(other)
        for index in indices:
            verdict = UNKNOWN
            with suppress(Exception):  # the caller meets it again
                verdict = HOLDS if check(index) is True else FAILS
            os.write(theirs, verdict)
    finally:
        os._exit(0)  # whatever it is, also an interrupt: nothing of this process's caller may run here
