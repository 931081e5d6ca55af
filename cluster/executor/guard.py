"""Ends what a driver that was killed leaves of a Ray of its own, and removes that Ray's folder.

Head and raylet end with their driver, and workers with their raylet. A worker that was just born knows no raylet yet:
it asks the dead head for up to a minute, and writes to the folder. So a process of its own looks after them, which
imports nothing but the standard library and is up before the head.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def guarded(folder: str) -> Iterator[None]:
    """Have processes end, and `folder` go, if this process is killed within the block. Does without a guard where none
    can be started: the next driver removes the folder then."""
    from actors import patience  # not in the guard's own process

    guard = None
    limits = patience.GUARD_LOOK, patience.GUARD_CALM, patience.GUARD_GIVES_UP
    with suppress(OSError):
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), folder, *map(str, limits)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    try:
        yield
    finally:
        if guard is not None:
            guard.kill()
            guard.wait()


def processes_in(folder: str) -> set[int]:
    """The processes whose commands name the folder, or something in it, as the value of an option."""
    found = set()
    mark = f"={folder}/".encode()
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as command:
                if mark in command.read():
                    found.add(int(entry))
    return found


def _main(driver: int, folder: str, look: float, calm: float, gives_up: float) -> None:
    while os.getppid() == driver:
        time.sleep(look)
    began = busy = time.monotonic()
    while time.monotonic() < min(busy + calm, began + gives_up):
        left = processes_in(folder)
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if left or os.path.exists(folder):
            busy = time.monotonic()
        time.sleep(look / 5)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:]))
