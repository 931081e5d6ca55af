"""Threads that take items together as they come: they verify proofs, and put them on disk."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from actors import patience

Item = TypeVar("Item")

MOST = 1024
"""Items that are taken together, at most."""


class _Idle:
    """Daemon threads that run what they are given, and wait for more: to start one takes longer than to keep a proof.

    Daemon, because native code under way cannot be interrupted and must not keep an interrupted driver from ending.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        os.register_at_fork(after_in_child=self._idle.clear)

    def run(self, call: Callable[[], None]) -> None:
        """Run `call`, which raises nothing, on a thread that is idle."""
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = SimpleQueue()
            threading.Thread(target=self._run, args=(calls,), name="distprove-background", daemon=True).start()
        calls.put(call)

    def _run(self, calls: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            calls.get()()
            self._idle.append(calls)


_IDLE = _Idle()


class Batches(Generic[Item]):
    """Takes items together, up to `MOST` at once, on up to `count` daemon threads."""

    def __init__(self, call: Callable[[list[Item]], None], count: int, *, spread: bool = False) -> None:
        """`call` handles a batch, and raises nothing. `spread`: a thread takes its share of the items at once and does
        not wait for more: for work that gains nothing by being done together."""
        self._call = call
        self._count = count
        self._spread = spread
        self._changed = threading.Condition()
        self._items: list[Item] = []
        self._due = 0.0
        """Time from which the next batch may be taken, on the monotonic clock."""
        self._stopped = False
        self._active = 0
        """Threads at work, those that wait for the time included."""
        self._early = 0
        """Threads that wait for the time."""

    def submit(self, items: Sequence[Item], *, last: bool = False) -> None:
        """Take these too, soon; at once if they are the `last`. Raises RuntimeError where no thread can be started for
        them, and takes none of them."""
        with self._changed:
            before = len(self._items)
            self._items += items
            if last:
                self._due = 0.0
            try:
                self._begin()
            except RuntimeError:
                del self._items[before:]
                raise

    def stop(self, *, wait: bool) -> None:
        """Take nothing more; `wait` for the batches under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            while wait and self._active:
                self._changed.wait()

    def _begin(self) -> None:
        """Have a thread take the items. Called with the lock held. Raises RuntimeError where none can be started and
        none is at work, which would take them later."""
        if self._early:
            self._changed.notify()
        elif self._items and self._active < self._count and not self._stopped:
            try:
                _IDLE.run(self._run)
            except RuntimeError:
                if not self._active:
                    raise
            else:
                self._active += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and self._items and (early := self._due - time.monotonic()) > 0:
                    self._early += 1
                    self._changed.wait(early)
                    self._early -= 1
                if self._stopped or not self._items:
                    self._active -= 1
                    self._changed.notify_all()
                    return
                waiting = len(self._items)
                self._due = 0.0 if self._spread else time.monotonic() + patience.TOGETHER
                share = min(MOST, -(-waiting // self._count) if self._spread else waiting)
                taken, self._items = self._items[:share], self._items[share:]
                self._begin()
            self._call(taken)
