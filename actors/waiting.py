"""A condition whose waiters form a stack."""

from __future__ import annotations

import threading


class LastFirst:
    """A condition that wakes whoever began to wait last: where few of many threads would do, the same few do all, and
    what the others hold meanwhile is idle for long enough to be given back.

    Of 15 synthesisers for proofs of 2 ms, which were woken in turn, each worked with other memory and other caches for
    every witness: that took a tenth of the worker's CPU time. All methods are called with the lock held.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._waiting: list[threading.Condition] = []

    def wait(self) -> None:
        """Wait to be woken."""
        own = threading.Condition(self._lock)
        self._waiting.append(own)
        own.wait()

    def notify(self) -> None:
        """Wake one, if any waits."""
        if self._waiting:
            self._waiting.pop().notify()

    def notify_all(self) -> None:
        """Wake all."""
        while self._waiting:
            self.notify()
