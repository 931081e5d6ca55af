"""Reports of an executor, and the threads beside the driver that verify and keep proofs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any

from distprove.system import PartitionProof

MOST = 1024
"""Proofs that are taken together, at most."""
LINGER = 0.1
"""Seconds between two batches of proofs that are verified or kept together, at least. With 0.25 a service did 0.84 of a
bare loop's rate at 1,000 short jobs, with 0.1 it did 0.87, in turn on one H200."""


class Kind(str, Enum):
    """Kinds of reports of an executor. VERIFY and KEEP run beside the driver and have no worker, nor has LOST."""

    LOAD = "load"
    CHECK = "check"
    BATCH = "batch"
    VERIFY = "verify"
    KEEP = "keep"
    LOST = "lost"
    """What the workers run on is gone, and with it all of them. Comes with its error."""


@dataclass(frozen=True)
class Verdict:
    """A proof was verified: why it does not hold, or None, and when that was found out."""

    name: str
    reason: str | None
    started: float
    ended: float


@dataclass
class Finished:
    """Something is over: its value, or the error it ended with.

    Values: LOAD `actors.worker.Loaded`; CHECK None; BATCH `actors.worker.Batch`; VERIFY a list of `Verdict`; KEEP the
    names of the partitions. Errors are those of the proof system and backend, unwrapped, or `WorkerDied`; one that ends
    a BATCH ends its worker.
    """

    kind: Kind
    worker: str | None = None
    value: Any = None
    error: BaseException | None = None
    started: float = 0.0
    """Time at which proofs began to be verified or kept, in seconds since the epoch, and at which that was over."""
    ended: float = 0.0
    epoch: int = 0
    """Number of the start that a LOAD is of."""
    blamed: bool = True
    """Whether the job may be to blame for the error, and not another one that the worker serves."""


class _Beside:
    """Daemon threads that run what they are given, and wait for more: to start one takes longer than to keep a proof.

    Daemon, because native code under way cannot be interrupted and must not keep an interrupted driver from ending.
    """

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        os.register_at_fork(after_in_child=self._idle.clear)

    def run(self, call: Callable[[], None]) -> None:
        """Run `call`, which raises nothing, on a thread that has nothing to do."""
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = SimpleQueue()
            threading.Thread(target=self._run, args=(calls,), name="distprove-beside", daemon=True).start()
        calls.put(call)

    def _run(self, calls: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            calls.get()()
            self._idle.append(calls)


_BESIDE = _Beside()


class Batches:
    """Takes proofs together, up to `MOST` at once, on up to `count` daemon threads beside the driver."""

    def __init__(
        self,
        kind: Kind,
        done: SimpleQueue[Finished],
        call: Callable[[list[PartitionProof]], Any],
        count: int,
        *,
        spread: bool = False,
    ) -> None:
        """`call` gives the value to report for a batch; an error of it is reported as that. `spread`: a thread takes
        its share of what waits at once, and does not wait for more: for what gains nothing by being done together."""
        self._kind = kind
        self._call = call
        self._done = done
        self._count = count
        self._spread = spread
        self._changed = threading.Condition()
        self._proofs: list[PartitionProof] = []
        self._due = 0.0
        """Time from which the next batch may be taken, on the monotonic clock."""
        self._stopped = False
        self._active = 0
        """Threads at it, those that wait for the time included."""
        self._early = 0
        """Threads that wait for the time."""

    def submit(self, proofs: Sequence[PartitionProof], *, last: bool = False) -> None:
        """Take these too, soon; at once if they are the `last`."""
        with self._changed:
            self._proofs += proofs
            if last:
                self._due = 0.0
            self._have_them_taken()

    def stop(self, *, wait: bool) -> None:
        """Take nothing more; `wait` for what is under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            while wait and self._active:
                self._changed.wait()

    def _have_them_taken(self) -> None:
        """Called with the lock held."""
        if self._early:
            self._changed.notify()
        elif self._proofs and self._active < self._count and not self._stopped:
            self._active += 1
            _BESIDE.run(self._run)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopped and self._proofs and (early := self._due - time.monotonic()) > 0:
                    self._early += 1
                    self._changed.wait(early)
                    self._early -= 1
                if self._stopped or not self._proofs:
                    self._active -= 1
                    self._changed.notify_all()
                    return
                waiting = len(self._proofs)
                self._due = 0.0 if self._spread else time.monotonic() + LINGER
                share = min(MOST, -(-waiting // self._count) if self._spread else waiting)
                taken, self._proofs = self._proofs[:share], self._proofs[share:]
                self._have_them_taken()
            finished = Finished(self._kind, started=time.time())
            try:
                finished.value = self._call(taken)
            except BaseException as error:  # whatever it is, the driver must hear of it
                finished.value, finished.error = taken, error
            finished.ended = time.time()
            self._done.put(finished)
