"""Reports of an executor, and the threads beside the driver that verify and keep proofs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any

from distprove.system import PartitionProof

LINGER = 0.25
"""Seconds between two batches of proofs that are verified or kept together, at least."""


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
    """Something is over: its value, or the error it ended with, and when it ran (seconds since the epoch).

    Values: LOAD `actors.worker.Loaded`; CHECK None; BATCH `actors.worker.Batch`; VERIFY a list of `Verdict`; KEEP the
    names of the partitions. Errors are those of the proof system and backend, unwrapped, or `WorkerDied`; one that ends
    a BATCH ends its worker.
    """

    kind: Kind
    worker: str | None = None
    value: Any = None
    error: BaseException | None = None
    started: float = 0.0
    ended: float = 0.0
    epoch: int = 0
    """Number of the start that a LOAD is of."""


class Batches:
    """Daemon threads that take proofs together, up to `most` at once.

    Daemon, because native code under way cannot be interrupted and must not keep an interrupted driver from ending.
    """

    def __init__(
        self,
        kind: Kind,
        done: SimpleQueue[Finished],
        call: Callable[[list[PartitionProof]], Any],
        count: int = 1,
        most: int = 1024,
        *,
        spread: bool = False,
    ) -> None:
        """`call` gives the value to report for a batch; an error of it is reported as that. `spread`: a thread takes
        its share of what waits at once, and does not wait for more: for what gains nothing by being done together."""
        self._kind = kind
        self._call = call
        self._done = done
        self._most = most
        self._spread = spread
        self._changed = threading.Condition()
        self._proofs: list[PartitionProof] = []
        self._due = 0.0
        """Time from which the next batch may be taken, on the monotonic clock."""
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"distprove-{kind.value}-{index}", daemon=True)
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, proofs: Sequence[PartitionProof], *, last: bool = False) -> None:
        """Take these too, soon; at once if they are the `last`."""
        with self._changed:
            self._proofs += proofs
            if last:
                self._due = 0.0
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
                while not self._stopped and (not self._proofs or (early := self._due - time.monotonic()) > 0):
                    self._changed.wait(early if self._proofs else None)
                if self._stopped:
                    return
                waiting = len(self._proofs)
                self._due = 0.0 if self._spread else time.monotonic() + LINGER
                share = min(self._most, -(-waiting // len(self._threads)) if self._spread else waiting)
                taken, self._proofs = self._proofs[:share], self._proofs[share:]
                if self._proofs:
                    self._changed.notify()
            finished = Finished(self._kind, started=time.time())
            try:
                finished.value = self._call(taken)
            except BaseException as error:  # whatever it is, the driver must hear of it
                finished.value, finished.error = taken, error
            finished.ended = time.time()
            self._done.put(finished)
