"""A process that forks others on demand, so that they need not import again what it has imported.

Python and its imports take half a second of CPU in every process, and a fork takes a few milliseconds. A worker forks
its fork server as its first act, while it has no threads, no key and no device, and the fork server never gets any of
them. The server forks twice, so that the new process becomes a child of the worker (PR_SET_CHILD_SUBREAPER), which sees
its end and can end it like any child of its own. The fork server ends when the worker does. A command line does the
same for its workers (`actors.bootstrap.forking_from_here`).

Python's own server (`multiprocessing`, start method forkserver) was measured and not taken: it imports everything anew
instead of being a fork, each of its processes starts a server of its own for what it forks, it cannot import what a key
needs once it runs, and it imports the user's main module into every process. A Groth16 proof on the CPU with processes
took 2.4 s of CPU against 1.0, and 172 MiB against 109. `tests/actors/test_fork_server.py` holds the reasons.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from subprocess import TimeoutExpired

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37

Serve = Callable[..., None]
"""Serves the other end of a connection. Its arguments are descriptors, the connection's first, and then any others."""
Warm = Callable[[bytes, list[str]], None]
"""Imports what a process needs to serve a pickled spec, from the folders of `sys.path`."""


class ForkServer:
    """The end of the process that started the fork server, below called the worker. Thread-safe."""

    def __init__(
        self, serve: Serve, warm: Warm, ours: Sequence[int] = (), born: Callable[[], None] = lambda: None
    ) -> None:
        """Fork the server, which calls `born` at once and forks processes that run `serve`. Call this before the
        process has a second thread.

        `ours` are descriptors of this process that others must not hold. Raises OSError where no server can run.
        """
        with _adopting():
            pass  # raises where children of children cannot be adopted
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line, theirs = Pipe()
        with theirs:
            self._pid = os.fork()
            if self._pid == 0:
                self._line.close()
                for descriptor in ours:
                    os.close(descriptor)
                _live(lambda: attend(theirs, serve, warm, born))

    @classmethod
    def in_interpreter(cls, code: str) -> ForkServer:
        """Start a server that is no fork of this process, which may have threads: a new interpreter runs `code`, with
        the descriptor of its connection in place of {}. Does not wait. Raises OSError where no server can run."""
        with _adopting():
            pass
        self = cls.__new__(cls)
        self._lock = threading.Lock()
        self._line, theirs = Pipe()
        with theirs:
            process = interpreter("fork-server", code.format(theirs.fileno()), [theirs.fileno()])
        self._pid, self._process = process.pid, process
        return self

    def prepare(self, spec: bytes) -> None:
        """Have the server call `warm(spec, sys.path)` before its next fork. Does not wait."""
        with self._lock, suppress(OSError):
            self._line.send((spec, sys.path))

    def fork(self, name: str, descriptors: Sequence[int], *arguments: object) -> Forked:
        """Start a process called `name` that serves with copies of these descriptors, and the arguments. Raises
        OSError."""
        try:
            # Adopts only meanwhile: this process does not reap what a child of its own leaves behind.
            with self._lock, _adopting():
                self._line.send((name, len(descriptors), arguments))
                for descriptor in descriptors:
                    send_handle(self._line, descriptor, 0)
                pid: int = self._line.recv()
        except EOFError:
            pid = 0
        if not pid:
            raise OSError("the fork server cannot fork")
        return Forked(pid)

    def close(self) -> None:
        """End the server. The processes that it forked live on."""
        with self._lock, suppress(ChildProcessError):
            self._line.close()
            if self._process is not None:
                self._process.kill()  # it may be importing
                self._process.wait()
            else:
                os.waitpid(self._pid, 0)


def interpreter(name: str, code: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs this code with copies of these descriptors and our `sys.path`. Its standard input
    is empty, and Ctrl-C does not reach it: it ends when this process does. `ps` shows it as `distprove-NAME`."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", f"distprove-{name}"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=descriptors,
    )


class Forked:
    """A process that a fork server started, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Returns the exit code, or the negative number of the signal that ended the process. Raises
        TimeoutExpired after `timeout` seconds."""
        ended = select.poll()
        with suppress(ProcessLookupError), open(os.pidfd_open(self.pid), "rb", buffering=0) as process:
            ended.register(process, select.POLLIN)
            if self._code is None and not ended.poll(None if timeout is None else timeout * 1000):
                raise TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        with self._lock:
            if self._code is None:
                status = 0  # where another thread has reaped it, as in `Popen`
                with suppress(ChildProcessError):
                    status = os.waitpid(self.pid, 0)[1]
                self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def kill(self) -> None:
        """Kill the process, unless it has been waited for: its number may then be another's."""
        with self._lock:
            if self._code is None:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)


def attend(line: Connection, serve: Serve, warm: Warm, born: Callable[[], None]) -> None:
    """Run the fork server until the worker ends."""
    _rename("fork-server")
    born()
    while True:
        try:
            asked = line.recv()
            if len(asked) == 2:
                with suppress(Exception):  # a process that is forked meets it again, and reports it
                    warm(*asked)
                continue
            name, count, arguments = asked
            descriptors = [recv_handle(line) for _ in range(count)]
        except (EOFError, OSError):
            return
        gc.freeze()  # these pages stay shared: no collection of a forked process touches them
        with suppress(BrokenPipeError):  # the worker has ended, and so will the process that was forked for it
            line.send(_fork(name, line, partial(serve, *descriptors, *arguments)))
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(name: str, line: Connection, serve: Callable[[], None]) -> int:
    """Fork a process that serves. Returns its number once it is the worker's child, or 0 if there is none."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        line.close()
        os.close(read)
        _live(lambda: _fork_and_report(name, write, serve))
    os.close(write)
    with open(read, "rb") as report:
        pid = report.read()
    os.waitpid(between, 0)
    return int(pid or 0)


def _fork_and_report(name: str, write: int, serve: Callable[[], None]) -> None:
    """Fork the process that serves, and write its number to the descriptor `write`."""
    pid = os.fork()
    if pid:
        os.write(write, str(pid).encode())
        return
    os.close(write)
    os.setsid()
    _rename(name)
    serve()


@contextmanager
def _adopting() -> Iterator[None]:
    """Have this process become the parent of its descendants whose parents end. Raises OSError."""
    before = ctypes.c_int()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if (
        libc is None
        or libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0) != 0
        or libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0
    ):
        raise OSError("children of children cannot be adopted here")
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _live(life: Callable[[], None]) -> None:
    """Run the whole life of a forked process, and end it: nothing that its parent was about to do is done twice."""
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
