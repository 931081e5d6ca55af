"""A process that forks others on demand, so that these need not import again what it has imported.

Python and its imports take half a second of CPU in every process, and a fork takes a few milliseconds. A worker forks
its nursery as its first act, while it has no threads, no key and no device, and the nursery never gets any of them. It
forks twice, so that what it starts becomes a child of the worker (PR_SET_CHILD_SUBREAPER), which sees its end and can
end it like any child of its own. The nursery ends when the worker does. A command line does the same for its workers
(`actors.birth.forking_from_here`).
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
"""Serves whoever is at the other end of a connection: called with descriptors, of which that is the first, and whatever
else it was given."""
Warm = Callable[[bytes, list[str]], None]
"""Imports what those need that serve a pickled spec, from the folders of `sys.path`."""


class Nursery:
    """The end of whoever forked it, below called the worker. Several threads may use it."""

    def __init__(
        self, serve: Serve, warm: Warm, ours: Sequence[int] = (), born: Callable[[], None] = lambda: None
    ) -> None:
        """Fork the nursery, which forks processes that run `serve`, and calls `born` at once. To be called before this
        process has any thread.

        `ours` are descriptors of this process that others must not hold. Raises OSError where that cannot be.
        """
        with _adopting():
            pass  # where that cannot be, there is no nursery
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._line, theirs = Pipe()
        with theirs:
            self._pid = os.fork()
            if self._pid == 0:
                self._line.close()
                for descriptor in ours:
                    os.close(descriptor)
                _ends(lambda: attend(theirs, serve, warm, born))

    @classmethod
    def apart(cls, begin: str) -> Nursery:
        """A nursery that is no fork of this process, which may have threads: a new interpreter runs the code `begin`,
        with the descriptor of its line in place of {}. Not waited for. Raises OSError where that cannot be."""
        with _adopting():
            pass  # where that cannot be, there is no nursery
        self = cls.__new__(cls)
        self._lock = threading.Lock()
        self._line, theirs = Pipe()
        with theirs:
            process = interpreter("nursery", begin.format(theirs.fileno()), [theirs.fileno()])
        self._pid, self._process = process.pid, process
        return self

    def prepare(self, spec: bytes) -> None:
        """Have the nursery call `warm(spec, sys.path)` before it forks. Not waited for."""
        with self._lock, suppress(OSError):
            self._line.send((spec, sys.path))

    def fork(self, name: str, descriptors: Sequence[int], *arguments: object) -> Forked:
        """A new process, called `name`, that serves with copies of these descriptors, and the arguments. Raises
        OSError."""
        try:
            # Adopting only meanwhile: what a child leaves behind when it dies is not this process's to bury.
            with self._lock, _adopting():
                self._line.send((name, len(descriptors), arguments))
                for descriptor in descriptors:
                    send_handle(self._line, descriptor, 0)
                pid: int = self._line.recv()
        except EOFError:
            pid = 0
        if not pid:
            raise OSError("the nursery cannot fork")
        return Forked(pid)

    def close(self) -> None:
        """End the nursery; what it forked lives on."""
        with self._lock, suppress(ChildProcessError):
            self._line.close()
            if self._process is not None:
                self._process.kill()  # it may be importing
                self._process.wait()
            else:
                os.waitpid(self._pid, 0)


def interpreter(name: str, code: str, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start an interpreter that runs this code with copies of these descriptors, and imports from where we do. It reads
    nothing, and Ctrl-C is for us: it ends when we do. `ps` shows it as `distprove-NAME`."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", f"distprove-{name}"],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=descriptors,
    )


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
                status = 0  # where another has waited for it already, as `Popen` has it
                with suppress(ChildProcessError):
                    status = os.waitpid(self.pid, 0)[1]
                self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def kill(self) -> None:
        with self._lock:
            if self._code is None:  # its number is not another's
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)


def attend(line: Connection, serve: Serve, warm: Warm, born: Callable[[], None]) -> None:
    """The nursery's life: until the worker's end."""
    _rename("nursery")
    born()
    while True:
        try:
            asked = line.recv()
            if len(asked) == 2:
                with suppress(Exception):  # whatever it is: those that are forked find it again, and can tell
                    warm(*asked)
                continue
            name, count, arguments = asked
            descriptors = [recv_handle(line) for _ in range(count)]
        except (EOFError, OSError):
            return
        gc.freeze()  # what is here stays shared: no collection of a forked process touches it
        with suppress(BrokenPipeError):  # who asked has ended, and so will what was forked for it
            line.send(_fork(name, line, partial(serve, *descriptors, *arguments)))
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(name: str, line: Connection, serve: Callable[[], None]) -> int:
    """The process that serves, by its number, once it is the worker's child; 0 if there is none."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        line.close()
        os.close(read)
        _ends(lambda: _fork_and_tell(name, write, serve))
    os.close(write)
    with open(read, "rb") as told:
        pid = told.read()
    os.waitpid(between, 0)
    return int(pid or 0)


def _fork_and_tell(name: str, write: int, serve: Callable[[], None]) -> None:
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
