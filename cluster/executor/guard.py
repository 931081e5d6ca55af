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

LOOK = 0.5
"""Seconds between two looks whether the driver lives."""
CALM = 2.0
"""Seconds for which nothing may be left: a process that is being born shows only then."""
PATIENCE = 30.0
"""Seconds after which the guard gives up, as where the disk does not let go of the folder."""


@contextmanager
def guarded(folder: str) -> Iterator[None]:
    """Have processes end, and `folder` go, if this process is killed within the block. Does without a guard where none
    can be started: the next driver removes the folder then."""
    guard = None
    with suppress(OSError):
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), folder],
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


def _main(driver: int, folder: str) -> None:
    while os.getppid() == driver:
        time.sleep(LOOK)
    began = busy = time.monotonic()
    while time.monotonic() < min(busy + CALM, began + PATIENCE):
        left = processes_in(folder)
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if left or os.path.exists(folder):
            busy = time.monotonic()
        time.sleep(LOOK / 5)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
