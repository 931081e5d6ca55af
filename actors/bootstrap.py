"""The first moments of a process that `actors.processes` starts, before it imports what it serves with.

    fork the fork server -> begin to open the device, on a thread -> import -> serve

A device's context takes as long to make as the imports do, so one is made beside the other. The fork server is forked
first, before the process has a second thread.
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

from actors import fork_server
from actors.fork_server import ForkServer


def main(connection: int, page: int, has_server: bool, ahead: tuple[str, int, str] | None = None) -> None:
    """Serve the other end of this descriptor, until the connection ends. A worker `has_server`: a fork server starts
    its synthesisers. `ahead` is the `actors.backends.Ahead` of a device, which is opened meanwhile. `page` is the
    descriptor of `actors.lastwords`."""
    with suppress(OSError):  # where there is no such file
        os.dup2(2, 1)  # the executor's output is its own
    if ahead is None:
        _import()  # nothing can be done beside it, and the fork server then need not import it again
    server = None
    if has_server:
        with suppress(OSError):
            server = ForkServer(_serve, _warm, (connection, page), _import)
    if ahead is not None:
        _, device, early = ahead
        threading.Thread(target=_begin, args=(early, device), name="distprove-device", daemon=True).start()
    _serve(connection, server, ahead, page)


@contextmanager
def forking_from_here() -> Iterator[None]:
    """Have processes that start within the block forked from a copy of this one as it is now, which saves each the half
    second of its imports. For main programs alone, before they have a second thread, a device or an open file. Where
    there are threads, or the system cannot do it, processes start as interpreters."""
    from actors import processes

    if processes.forking is None and threading.active_count() == 1:
        with suppress(OSError):
            processes.forking = ForkServer(main, _warm_shipped, born=_settle)
    made = processes.forking
    try:
        yield
    finally:
        processes.forking = None
        if made is not None:
            made.close()


def attend(line: int) -> None:
    """Run a fork server that is no fork (`ForkServer.in_interpreter`); `line` is the descriptor of its connection."""
    with suppress(OSError):
        os.dup2(2, 1)  # the output of the process that started it is its own
    fork_server.attend(Connection(line), main, _warm_shipped, _import)


def _settle() -> None:
    """Detach the fork server of a command line: that one may close its output, be interrupted at a terminal and hang
    up. The server reads nothing."""
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
    """Warm a fork server that outlives this job, with code that ships alone. A user's code may do anything as it is
    imported, and may be another when it is imported again."""
    from actors import server

    with suppress(server.NotShipped):
        server.require_shipped(spec)
        _warm(spec, path)


def _import() -> None:
    import actors.server  # noqa: F401


def _begin(early: str, device: int) -> None:
    """Call the function that begins to open the device. An error occurs again, and is reported, when it is opened."""
    module, _, function = early.partition(":")
    if function:
        with suppress(Exception):
            getattr(import_module(module), function)(device)
