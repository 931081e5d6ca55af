"""A nursery that stands by for workers that die, in processes that have none to fork workers from: a library's user may
have threads and devices, so nothing is forked from there.

It is a process of its own, begun once workers have lived for a while, when nobody waits for what it imports; a Ray
actor begins it first of all (`Reserve.begin`). A worker that died is then forked from it, which takes milliseconds in
place of its imports.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

from actors.nursery import Nursery

AFTER = 2.0
"""Seconds after the first worker's start at which the nursery begins: a job that is over by then does without."""


class Reserve:
    """The nursery of this process, while there are workers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._held = 0
        self._nursery: Nursery | None = None
        self._timer: threading.Timer | None = None
        self._spec: bytes | None = None

    def begin(self) -> None:
        """Begin now, in a process that is about to start a worker, which is then forked from there too: what the
        nursery imports it imports beside this process."""
        with self._lock:
            self._start()

    def hold(self) -> None:
        """A worker is started that may have to be started again."""
        with self._lock:
            if self._owner != os.getpid():  # this process was forked from one that has workers
                self._owner, self._held, self._nursery = os.getpid(), 0, None
            self._held += 1
            if self._held == 1:
                self._timer = threading.Timer(AFTER, self._begin)
                self._timer.daemon = True
                self._timer.start()

    def drop(self) -> None:
        """A worker that was held will not be started again."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._held -= 1
            if self._held:
                return
            nursery, self._nursery, self._spec = self._nursery, None, None
            if self._timer is not None:
                self._timer.cancel()
        if nursery is not None:
            nursery.close()

    def expect(self, spec: bytes) -> None:
        """Workers serve this pickled spec: what is forked from now on is to have imported what they need."""
        with self._lock:
            if self._owner != os.getpid():
                return
            self._spec = spec
            if self._nursery is not None:
                self._nursery.prepare(spec)

    @property
    def nursery(self) -> Nursery | None:
        """The nursery, if there is one by now."""
        with self._lock:
            return self._nursery if self._owner == os.getpid() else None

    def _begin(self) -> None:
        with self._lock:
            if self._held:
                self._start()

    def _start(self) -> None:
        """Called with the lock held."""
        with suppress(OSError):
            if self._nursery is None and self._owner == os.getpid():
                self._nursery = Nursery.apart("from actors.birth import attend; attend({})")
                if self._spec is not None:
                    self._nursery.prepare(self._spec)


RESERVE = Reserve()
