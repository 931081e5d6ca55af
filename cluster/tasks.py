"""What an executor is asked, and the threads that take it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any

from distprove.inflight import Line, Timed, Turn
from distprove.system import PartitionProof


class Kind(str, Enum):
    """What a worker can be asked. VERIFY and KEEP run beside the driver and have no worker."""

    LOAD = "load"
    CHECK = "check"
    SYNTHESISE = "synthesise"
    COMMIT = "commit"
    PROVE = "prove"
    DIAGNOSE = "diagnose"
    VERIFY = "verify"
    KEEP = "keep"


@dataclass(frozen=True)
class Task:
    """Something submitted. `partition` is None for LOAD and CHECK; `worker` is None for VERIFY and KEEP."""

    kind: Kind
    worker: str | None
    partition: str | None


@dataclass
class Finished:
    """A task that is over: its value, or the error it ended with, and when it ran (seconds since the epoch).

    Values: LOAD facts of the worker; SYNTHESISE `Work`; COMMIT (bytes, PhaseTimes); PROVE (PartitionProof, PhaseTimes);
    VERIFY None, or why the proof does not hold; KEEP, CHECK and DIAGNOSE None.
    Errors are those of the proof system and backend, unwrapped, or `WorkerDied` and `WorkLost`.
    """

    task: Task
    value: Any = None
    error: BaseException | None = None
    started: float = 0.0
    ended: float = 0.0


class WorkerDied(Exception):
    """The worker's process ended before the task did. The worker comes back; it must be loaded again."""


class WorkLost(Exception):
    """The witness is gone (its node died); it must be made again."""


_Call = Callable[["Turn | None"], Any]


class TaskThreads:
    """Daemon threads that take tasks in order and report each to `done`. `call` gets a turn if there is a line.

    Daemon, because a kernel under way cannot be interrupted and must not keep an interrupted driver from ending.
    """

    def __init__(self, name: str, done: SimpleQueue[Finished], count: int = 1, line: Line | None = None) -> None:
        self._tasks: SimpleQueue[tuple[Task, _Call] | None] = SimpleQueue()
        self._done = done
        self._line = line
        self._taking = threading.Lock()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"distprove-{name}-{index}", daemon=True) for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task, call: _Call) -> None:
        self._tasks.put((task, call))

    def stop(self, *, wait: bool) -> None:
        """Run nothing that has not begun; `wait` for what has."""
        self._stopped = True
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _take(self) -> tuple[Task, _Call, Turn | None] | None:
        """The next task, with its place in line; None at the end."""
        with self._taking:  # one at a time, so that the tasks stand in line as they were submitted
            item = self._tasks.get()
            if item is None or self._stopped:
                return None
            return (*item, self._line.join() if self._line is not None else None)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            task, call, turn = taken
            finished = Finished(task, started=time.time())
            try:
                with turn or nullcontext():  # so that it is left, whatever becomes of the call
                    finished.value = call(turn)
            except BaseException as error:  # whatever it is, the driver must hear of it
                finished.error = error
            finished.ended = time.time()
            if isinstance(finished.value, Timed):
                timed = finished.value
                finished.value, finished.started, finished.ended = timed.value, timed.started, timed.ended
                del timed
            self._done.put(finished)
            del taken, call, turn, finished  # a witness must not live on until the next task comes


class Batches:
    """Daemon threads that take proofs together: each its share of those that wait, up to `most`. What `call` makes of a
    batch goes to `done`."""

    def __init__(
        self,
        kind: Kind,
        done: SimpleQueue[Finished],
        call: Callable[[list[PartitionProof]], list[Finished]],
        count: int = 1,
        most: int = 256,
    ) -> None:
        self._kind = kind
        self._call = call
        self._done = done
        self._most = most
        self._changed = threading.Condition()
        self._items: list[PartitionProof] = []
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"distprove-{kind.value}-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, items: Sequence[PartitionProof]) -> None:
        with self._changed:
            self._items += items
            self._changed.notify()

    def stop(self, *, wait: bool) -> None:
        """Take nothing more; `wait` for what is under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._stopped)
                if self._stopped:
                    return
                share = min(self._most, -(-len(self._items) // len(self._threads)))
                taken, self._items = self._items[:share], self._items[share:]
                if self._items:
                    self._changed.notify()
            started = time.time()
            try:
                over = self._call(taken)
            except BaseException as error:  # whatever it is, the driver must hear of it
                over = [Finished(Task(self._kind, None, p.name), None, error, started, time.time()) for p in taken]
            for finished in over:
                self._done.put(finished)
            del taken, over
