"""The first moments of a process that `actors.processes` starts, before it imports what it serves with.

    fork the nursery -> begin to open the device, on a thread -> import -> serve

A device's context takes as long to make as the imports do, so one is made beside the other. A nursery is forked before
the process has threads, and so before that.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from actors import nursery as nurseries
from actors.nursery import Nursery


def main(connection: int, page: int, nursery: bool, ahead: tuple[str, int, str] | None = None) -> None:
    """Serve whoever is at the other end of this descriptor, until the connection ends. With a `nursery`, what a worker
    starts is forked from one. `ahead` is the `actors.backends.Ahead` of a device, to be opened meanwhile. `page` is the
    descriptor of `actors.lastwords`."""
    with suppress(OSError):  # where there is no such file
        os.dup2(2, 1)  # the executor's output is its own
    if ahead is None:
        _import()  # there is nothing to do beside it, and so a nursery need not do it again
    forks = None
    if nursery:
        with suppress(OSError):
            forks = Nursery(_serve, _warm, (connection, page), _import)
    if ahead is not None:
        _, device, early = ahead
        threading.Thread(target=_begin, args=(early, device), name="distprove-device", daemon=True).start()
    _serve(connection, forks, ahead, page)


@contextmanager
def forking_from_here() -> Iterator[None]:
    """Have processes that are started within the block forked from a copy of this one as it is now: with what it has
    imported, which takes half a second each to import again. For main programs alone, before they have a thread, a
    device or a file open; where there are threads, or the system cannot do it, processes start as ever."""
    from actors import processes

    if processes.forking is None and threading.active_count() == 1:
        with suppress(OSError):
            processes.forking = Nursery(main, _warm_shipped, born=_settle)
    made = processes.forking
    try:
        yield
    finally:
        processes.forking = None
        if made is not None:
            made.close()


def attend(line: int) -> None:
    """The whole life of a nursery that is no fork (`Nursery.apart`); `line` is the descriptor of its line."""
    with suppress(OSError):
        os.dup2(2, 1)  # the output of whoever began it is its own
    nurseries.attend(Connection(line), main, _warm_shipped, _import)


def _settle() -> None:
    """The first act of the nursery: it reads nothing, and what it is forked from may close its output, be interrupted
    at a terminal and hang up."""
    os.setsid()
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    _import()


def _serve(*arguments: Any) -> None:
    from actors import server

    server.serve(*arguments)


def _warm(spec: bytes, path: list[str]) -> None:
    sys.path[:] = path
    from actors import server

    server.warm(spec)


def _warm_shipped(spec: bytes, path: list[str]) -> None:
    """Warm a nursery that others are forked from after this job is over: with what ships alone. What a user's code did
    as it was imported is not known, and it may be another when it is imported again."""
    from actors import server

    with suppress(server.NotShipped):
        server.require_shipped(spec)
        _warm(spec, path)


def _import() -> None:
    import actors.server  # noqa: F401


def _begin(early: str, device: int) -> None:
    """Call what begins to open the device. Whatever fails fails again, and is told, when the device is opened."""
    module, _, function = early.partition(":")
    if function:
        with suppress(Exception):
            getattr(import_module(module), function)(device)
