"""The resident memory of this process and those it started, over time."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

LOOK = 0.1
"""Seconds between looks."""


@dataclass
class MemoryWatch:
    """Watches while its block runs. Pages that processes share count for each of them."""

    peak: int = 0
    """The most there was since the last reset, in bytes."""
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def reset(self) -> None:
        """Begin anew."""
        self.peak = _resident()

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._watch, name="distprove-memory", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            self.peak = max(self.peak, _resident())


def _resident() -> int:
    """Bytes."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.Error):  # it ended meanwhile
            total += int(process.memory_info().rss)
    return total
