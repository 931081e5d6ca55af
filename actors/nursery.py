"""A process that forks others on demand, so that these need not import again what it has imported.

Python and its imports take half a second of CPU in every process, and a fork takes a few milliseconds. A worker forks
its nursery as its first act, while it has no threads, no key and no device, and the nursery never gets any of them. It
forks twice, so that what it starts becomes a child of the worker (PR_SET_CHILD_SUBREAPER), which sees its end and can
end it like any child of its own. The nursery ends when the worker does.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from subprocess import TimeoutExpired

PR_SET_CHILD_SUBREAPER = 36

Serve = Callable[[int], None]
"""Serves whoever is at the other end of a connection with this descriptor."""
Warm = Callable[[bytes, list[str]], None]
"""Imports what those need that serve a pickled spec, from the folders of `sys.path`."""


class Nursery:
    """The worker's end. Several threads may use it."""

    def __init__(self, serve: Serve, warm: Warm, connection: int, born: Callable[[], None] = lambda: None) -> None:
        """Fork the nursery, which forks processes that run `serve`, and calls `born` at once. To be called before this
        process has any thread.

        `connection` is a descriptor of this process that others must not hold. Raises OSError where that cannot be.
        """
        if sys.platform != "linux" or ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError("children of children cannot be adopted here")
        self._lock = threading.Lock()
        self._line, theirs = Pipe()
        with theirs:
            if os.fork() == 0:
                self._line.close()
                os.close(connection)
                _ends(lambda: _attend(theirs, serve, warm, born))

    def prepare(self, spec: bytes) -> None:
        """Have the nursery call `warm(spec, sys.path)` before it forks. Not waited for."""
        with self._lock, suppress(OSError):
            self._line.send((spec, sys.path))

    def fork(self, name: str, connection: int) -> Forked:
        """A new process, called `name`, that serves at this descriptor, of which it gets a copy. Raises OSError."""
        try:
            with self._lock:
                self._line.send(name)
                send_handle(self._line, connection, 0)
                pid: int = self._line.recv()
        except EOFError:
            pid = 0
        if not pid:
            raise OSError("the nursery cannot fork")
        return Forked(pid)


class Forked:
    """A process that a nursery forked, as `subprocess.Popen` shows a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end: its exit code, or the negative number of the signal that ended it. Raises TimeoutExpired
        after `timeout` seconds."""
        ended = select.poll()
        with suppress(ProcessLookupError), open(os.pidfd_open(self.pid), "rb", buffering=0) as process:
            ended.register(process, select.POLLIN)
            if self._code is None and not ended.poll(None if timeout is None else timeout * 1000):
                raise TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        with self._lock:
            if self._code is None:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self._code

    def kill(self) -> None:
        with self._lock:
            if self._code is None:  # its number is not another's
                os.kill(self.pid, signal.SIGKILL)


def _attend(line: Connection, serve: Serve, warm: Warm, born: Callable[[], None]) -> None:
    """The nursery's life: until the worker's end."""
    _rename("nursery")
    born()
    while True:
        try:
            asked: str | tuple[bytes, list[str]] = line.recv()
            if not isinstance(asked, str):
                with suppress(Exception):  # whatever it is: those that are forked find it again, and can tell
                    warm(*asked)
                continue
            connection = recv_handle(line)
        except (EOFError, OSError):
            return
        gc.freeze()  # what is here stays shared: no collection of a forked process touches it
        line.send(_fork(asked, connection, line, serve))
        os.close(connection)


def _fork(name: str, connection: int, line: Connection, serve: Serve) -> int:
    """The process that serves, by its number, once it is the worker's child; 0 if there is none."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        line.close()
        os.close(read)
        _ends(lambda: _fork_and_tell(name, connection, write, serve))
    os.close(write)
    with open(read, "rb") as told:
        pid = told.read()
    os.waitpid(between, 0)
    return int(pid or 0)


def _fork_and_tell(name: str, connection: int, write: int, serve: Serve) -> None:
    pid = os.fork()
    if pid:
        os.write(write, str(pid).encode())
        return
    os.close(write)
    os.setsid()
    _rename(name)
    serve(connection)


def _ends(life: Callable[[], None]) -> None:
    """The whole life of a forked process: nothing of what its parent was about to do is done twice."""
    code = 1
    try:
        life()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # as the interpreter does
    finally:
        os._exit(code)


def _rename(name: str) -> None:
    """Have `ps` show this process as `distprove-NAME`, in the place of the arguments that it was forked with."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end: see proc(5)
        title = f"distprove-{name}".encode()[: end - start - 1]
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(title.ljust(end - start, b"\0"))
