"""A standby fork server, from which workers that died are started again, in processes that cannot fork: a library's
user may have threads and devices.

It is a process of its own. It starts once workers have lived for a while, when nobody waits for its imports; a Ray
actor starts it first of all (`Standby.begin`). A worker that died is then forked from it, which takes milliseconds
instead of the half second of its imports.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from actors import patience
from actors.fork_server import ForkServer


class Standby:
    """The standby fork server of this process, while there are workers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._held = 0
        self._server: ForkServer | None = None
        self._timer: threading.Timer | None = None
        self._spec: bytes | None = None

    def begin(self) -> None:
        """Start now, in a process that is about to start a worker. That worker is forked from here too, so the imports
        run beside this process."""
        with self._lock:
            self._start()

    def hold(self) -> None:
        """Count a worker that started and may have to be started again."""
        with self._lock:
            if self._owner != os.getpid():  # this process was forked from one that has workers
                self._owner, self._held, self._server = os.getpid(), 0, None
            self._held += 1
            if self._held == 1:
                self._timer = threading.Timer(patience.STANDBY, self._begin)
                self._timer.daemon = True
                self._timer.start()

    def drop(self) -> None:
        """Forget a held worker, which will not be started again. The standby ends with the last one."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._held -= 1
            if self._held:
                return
            server, self._server, self._spec = self._server, None, None
            if self._timer is not None:
                self._timer.cancel()
        if server is not None:
            server.close()

    def expect(self, spec: bytes) -> None:
        """Prepare for workers that serve this pickled spec: a process that is forked later has imported its needs."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._spec = spec
            if self._server is not None:
                self._server.prepare(spec)

    @property
    def server(self) -> ForkServer | None:
        """The fork server, if there is one by now."""
        with self._lock:
            return self._server if self._owner == os.getpid() else None

    def _begin(self) -> None:
        with self._lock:
            if self._held:
                self._start()

    def _start(self) -> None:
        """Start the fork server, unless it runs. The caller holds the lock."""
        with suppress(OSError):
            if self._server is None and self._owner == os.getpid():
                self._server = ForkServer.in_interpreter("from actors.bootstrap import attend; attend({})")
                if self._spec is not None:
                    self._server.prepare(self._spec)


STANDBY = Standby()
