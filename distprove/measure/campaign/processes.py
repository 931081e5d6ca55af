"""Processes of a campaign on this machine: which are there, and what ends with them."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1


@cache
def can_cut() -> bool:
    """Whether network namespaces and links between them can be made here."""
    name = f"dp{os.getpid()}x"
    made = [["ip", "netns", "add", name], ["ip", "-n", name, "link", "add", "v1", "type", "veth", "peer", "name", "v2"]]
    try:
        return all(subprocess.run(command, capture_output=True).returncode == 0 for command in made)
    except OSError:
        return False
    finally:
        with suppress(OSError):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def marked(variable: str, value: str) -> list[psutil.Process]:
    """The processes that were started with this in their environment."""
    mark, found = f"{variable}={value}\0".encode(), []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, psutil.Error, ValueError):
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes() + b"\0":
                process = psutil.Process(int(entry.name))
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
    return found


def after_death(clean: Callable[[], None]) -> None:
    """Have a process call `clean` when this one has died, of whatever."""
    parent = os.getpid()
    if os.fork():
        return
    try:
        os.setsid()
        death = select.poll()
        death.register(os.pidfd_open(parent), select.POLLIN)
        death.poll()
        clean()
    finally:
        os._exit(0)


def end_with_parent() -> None:
    """Have this process be killed when the one that forked it dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
