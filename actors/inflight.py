"""Several partitions in flight on one prover: while one computes, the next is staged and the previous is assembled.

Partitions are started in the order in which they arrive. Work that does not need the device to be free runs beside it
on the calling threads: copying the next partition's data over (`stage`), and waiting for results and assembling them
(`result`). Any thread may call; the module does not care where the threads come from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

from actors.channel import sendable
from actors.lastwords import CrashMarker
from actors.protocol import Timed
from distprove.system import (
    Partition,
    PartitionId,
    PartitionProof,
    PendingProof,
    Prover,
    StagedPartition,
    Stages,
    StepTimes,
    Witness,
    implements,
)
from kernels.errors import OutOfMemory


def attempted(call: Callable[[], Any]) -> Timed:
    """The result of `call()`, or the error that it raises, which can be sent."""
    started = time.time()
    try:
        value = call()
    except BaseException as error:  # whatever it is, whoever asked must hear of it
        value = sendable(error)
    return Timed(value, started, time.time())


class Line:
    """A queue of places in order of arrival. They are staged in that order. A place is then alone at the head, and last
    beside others until it ends."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._joined = 0
        self._staged = _Passed()
        self._head = _Passed()
        self._over = _Passed()
        self.marker: CrashMarker | None = None
        """Where the partition is written that computes."""

    def join(self) -> Turn:
        """Take a place behind all others. It must be used as a context manager, or the line stops there."""
        with self._changed:
            self._joined += 1
            return Turn(self, self._joined - 1)

    def _wait(self, arrived: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(arrived)

    def _pass(self, number: int, *marks: _Passed) -> None:
        with self._changed:
            for mark in marks:
                mark.add(number)
            self._changed.notify_all()


class Turn:
    """A place in a line, kept until the end of the `with` block."""

    def __init__(self, line: Line, number: int) -> None:
        self._line = line
        self._number = number
        self._joined = time.time()
        self.begun = False
        """Whether its own work has begun: what was in front is over, or has left the head."""
        self.partition: PartitionId | None = None
        """The partition that it is for."""

    def wait_for_room(self, others: int) -> float:
        """Wait until at most `others` of the places in front are not over; returns since when that has been so."""
        over = self._line._over
        self._line._wait(lambda: self._number - over.count <= others)
        if not others:
            self._begin()
        return max(self._joined, over.since)

    def wait_to_stage(self) -> None:
        """Wait until every place in front is staged, or needs no staging: one behind may not take the memory that it
        needs."""
        staged = self._line._staged
        self._line._wait(lambda: staged.count >= self._number)

    def let_stage(self) -> None:
        """Let the next place be staged."""
        self._line._pass(self._number, self._line._staged)

    def wait_for_head(self) -> float:
        """Wait until all places in front have left the head; returns since when that has been so."""
        head = self._line._head
        self._line._wait(lambda: head.count == self._number)
        self._begin()
        return max(self._joined, head.since)

    def leave_head(self) -> None:
        """Let the next place come to the head."""
        self._line._pass(self._number, self._line._head)

    def leave(self) -> None:
        """End the place. A second call does nothing."""
        if self.begun and self.partition is not None and self._line.marker is not None:
            self._line.marker.clear(self.partition)
        self._line._pass(self._number, self._line._staged, self._line._head, self._line._over)

    def _begin(self) -> None:
        if not self.begun and self.partition is not None and self._line.marker is not None:
            self._line.marker.write(self.partition)
        self.begun = True

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.leave()


class _Passed:
    """Counts how many places, from the first without a gap, have passed a point of the line, and since when."""

    def __init__(self) -> None:
        self.count = 0
        self.since = 0.0
        self._early: set[int] = set()

    def add(self, number: int) -> None:
        """Note that place `number` has passed. A second call for the same place does nothing."""
        if number < self.count:
            return
        self._early.add(number)
        while self.count in self._early:
            self._early.remove(self.count)
            self.count += 1
            self.since = time.time()


class InFlight:
    """The partitions in flight on one device. Every use of its backend, and of the provers that share it, goes through
    this object."""

    def __init__(self, give_way: Callable[[], bool] = lambda: False) -> None:
        """`give_way` is called where memory is short and nothing else is in flight: whether some was given back."""
        self.line = Line()
        self._give_way = give_way
        self._staging = threading.Lock()
        """Held while a partition is staged, which may otherwise be beside whatever is at the head of the line."""
        self._beside = 1
        """Number of partitions that may be in flight beside the one being staged. A loaded key leaves memory for these.
        """
        self._clock = threading.Lock()
        self._ended = 0.0
        """Time at which the last proof was ready, in seconds since the epoch."""

    def alone(self, call: Callable[[], Any], turn: Turn | None = None, *, staging: bool = True) -> Timed:
        """Run `call()` while nothing else uses the device, except that the next partition may be staged: not even that
        without `staging`. `turn` is its place, if one was taken earlier on `line`."""
        with turn or self.line.join() as place:
            place.let_stage()
            started = place.wait_for_room(0)
            with nullcontext() if staging else self._staging:
                return Timed(self._fitting(call), started, time.time())

    def staged(
        self,
        prover: Prover,
        partition: Partition,
        witness: Witness,
        challenge: bytes | None = None,
        turn: Turn | None = None,
    ) -> Timed:
        """Prove a partition, staged ahead if the prover can do so and memory allows: (PartitionProof, StepTimes).

        The times leave out what was hidden behind the previous partition, so they add up to what this partition cost.
        """
        if not implements(type(prover), Stages):
            return self.alone(lambda: prover.prove_partition(partition, witness, challenge), turn)
        stages = cast(Stages, prover)
        staged: StagedPartition | None = None
        with turn or self.line.join() as place:
            try:
                place.wait_for_room(self._beside)
                place.wait_to_stage()
                staging = time.time()
                try:
                    with self._staging:
                        staged = stages.stage(partition, witness)
                except OutOfMemory:
                    place.wait_for_room(0)
                    staging = time.time()
                    with self._staging:
                        staged = self._fitting(lambda: stages.stage(partition, witness))
                place.let_stage()
                waiting = time.time()
                ours = place.wait_for_head()
                starting = time.time()
                pending = self._start(staged, challenge)
                place.leave_head()
                pending.wait()
                staged.release()
                place.leave()  # what is left is for the host alone
                proof, times = pending.result()
            finally:
                if staged is not None:
                    staged.release()
            return self._told(proof, times, ours, (staging, waiting), starting)

    def _fitting(self, call: Callable[[], Any]) -> Any:
        """`call()`, once more where it found too little memory and some was given back for it."""
        try:
            return call()
        except OutOfMemory:
            if not self._give_way():
                raise
        return call()

    def _start(self, staged: StagedPartition, challenge: bytes | None) -> PendingProof:
        try:
            return staged.start(challenge)
        except OutOfMemory:
            self._beside = 0  # perhaps the next partition took the memory: from now on it waits before staging
            raise

    def _told(
        self, proof: PartitionProof, times: StepTimes, ours: float, staging: tuple[float, float], starting: float
    ) -> Timed:
        """The timed result. Its time starts when its turn has come and the previous proof is done."""
        with self._clock:  # the clock is read under the lock, so that spans of one prover do not overlap
            ended = time.time()
            began = min(ended, max(ours, self._ended))
            self._ended = ended
        hidden = max(0.0, min(staging[1], began) - staging[0]) + max(0.0, began - starting)
        for name, seconds in times.seconds.items():  # in the order in which they happened
            cut = min(seconds, hidden)
            times.seconds[name] = seconds - cut
            hidden -= cut
        return Timed((proof, times), began, ended)
