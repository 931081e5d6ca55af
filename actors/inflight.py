"""Several partitions in flight on one prover: while one computes, the next is staged and the previous is assembled.

Partitions are started in the order in which they arrive, but for urgent ones, which go before those that have not
started. Work that does not need the device to be free runs beside it on the calling threads: copying the next
partition's data over (`stage`), and waiting for results and assembling them (`result`). Any thread may call; the module
does not care where the threads come from.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
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
    """A queue of places: the more urgent go before those that have not come to the head, else in order of arrival. They
    are staged in that order. A place is then alone at the head, and last beside others until it ends."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns: list[Turn] = []
        """Those that are not over, in the order in which they are served."""
        self.passes_staged = True
        """Whether an urgent place may go before those that are staged, and so hold memory."""
        self.marker: CrashMarker | None = None
        """Where the partition is written that computes."""

    def join(self, rank: int | None = None) -> Turn:
        """Take a place: behind all others, or with a `rank` before those with a higher one that are not at the head.
        Nobody goes before a place without a rank. It must be used as a context manager, or the line stops there."""
        with self._changed:
            turn, place = Turn(self, 0 if rank is None else rank), len(self._turns)
            while rank is not None and place and self._may_pass(self._turns[place - 1], rank):
                place -= 1
            self._turns.insert(place, turn)
            return turn

    def _may_pass(self, turn: Turn, rank: int) -> bool:
        return turn.rank > rank and not turn.at_head and (self.passes_staged or not turn.holds_memory)

    def _wait(self, arrived: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(arrived)

    def _in_front(self, turn: Turn) -> Iterator[Turn]:
        """The places before this one that are not over. Called with the lock held."""
        return itertools.takewhile(lambda other: other is not turn, self._turns)

    def _behind(self, turn: Turn) -> list[Turn]:
        return self._turns[self._turns.index(turn) + 1 :]


class Turn:
    """A place in a line, kept until the end of the `with` block."""

    def __init__(self, line: Line, rank: int) -> None:
        self._line = line
        self.rank = rank
        self._front_left = self._front_over = time.time()
        """When the last place in front left the head, and when the last one was over."""
        self._is_over = False
        self._left_head = False
        self.is_staged = False
        """Whether the next place may be staged."""
        self.holds_memory = False
        """Whether it is staged itself."""
        self.at_head = False
        """Whether it has come to the head, so that nobody goes before it any more."""
        self.begun = False
        """Whether its own work has begun: what was in front is over, or has left the head."""
        self.partition: PartitionId | None = None
        """The partition that it is for."""

    def wait_for_room(self, others: int) -> float:
        """Wait until at most `others` of the places in front are not over; returns since when that has been so."""
        line = self._line

        def arrived() -> bool:
            room = sum(1 for _ in line._in_front(self)) <= others
            self.at_head |= room and not others
            return room

        line._wait(arrived)
        if not others:
            self._begin()
        return self._front_over

    def wait_to_stage(self) -> None:
        """Wait until every place in front is staged, or needs no staging: one behind may not take the memory that it
        needs."""
        self._line._wait(lambda: all(turn.is_staged for turn in self._line._in_front(self)))

    def let_stage(self, *, holds_memory: bool = False) -> None:
        """Let the next place be staged: this one is, and holds memory, or needs no staging."""
        with self._line._changed:
            self.is_staged, self.holds_memory = True, holds_memory
            self._line._changed.notify_all()

    def wait_for_head(self) -> float:
        """Wait until all places in front have left the head; returns since when that has been so."""
        line = self._line

        def arrived() -> bool:
            self.at_head |= all(turn._left_head for turn in line._in_front(self))
            return self.at_head

        line._wait(arrived)
        self._begin()
        return self._front_left

    def leave_head(self) -> None:
        """Let the next place come to the head."""
        with self._line._changed:
            self._leave_head()
            self._line._changed.notify_all()

    def passed_staged(self) -> bool:
        """Whether a place behind this one is staged: it went before that one, which holds memory."""
        with self._line._changed:
            return any(turn.holds_memory for turn in self._line._behind(self))

    def step_back(self) -> None:
        """Go behind the places that are staged, for whose memory this one has to wait."""
        line = self._line
        with line._changed:
            staged = [turn for turn in line._behind(self) if turn.holds_memory]
            if staged:
                line._turns.remove(self)
                line._turns.insert(line._turns.index(staged[-1]) + 1, self)
            self.at_head = False
            line._changed.notify_all()
        self._clear_mark()
        self.begun = False

    def leave(self) -> None:
        """End the place. A second call does nothing."""
        self._clear_mark()
        line = self._line
        with line._changed:
            if self._is_over:
                return
            self._leave_head()
            self._is_over = self.is_staged = True
            now = time.time()
            for turn in line._behind(self):
                turn._front_over = now
            line._turns.remove(self)
            line._changed.notify_all()

    def _leave_head(self) -> None:
        if not self._left_head:
            self._left_head, now = True, time.time()
            for turn in self._line._behind(self):
                turn._front_left = now

    def _begin(self) -> None:
        if not self.begun and self.partition is not None and self._line.marker is not None:
            self._line.marker.write(self.partition)
        self.begun = True

    def _clear_mark(self) -> None:
        if self.begun and self.partition is not None and self._line.marker is not None:
            self._line.marker.clear(self.partition)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.leave()


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
                        place.let_stage(holds_memory=True)
                except OutOfMemory:
                    staging, staged = self._stage_alone(lambda: stages.stage(partition, witness), place)
                waiting = time.time()
                ours = place.wait_for_head()
                starting = time.time()
                pending = self._start(staged, challenge, place)
                place.leave_head()
                pending.wait()
                staged.release()
                place.leave()  # what is left is for the host alone
                proof, times = pending.result()
            finally:
                if staged is not None:
                    staged.release()
            return self._told(proof, times, ours, (staging, waiting), starting)

    def _stage_alone(self, stage: Callable[[], StagedPartition], place: Turn) -> tuple[float, StagedPartition]:
        """`stage()` while nothing else is in flight, and the time at which it began. Places that this one went before
        are staged meanwhile, if they had waited for that alone: it goes behind those, too."""
        while True:
            if place.passed_staged():
                place.step_back()
            place.wait_for_room(0)
            with self._staging:
                if place.passed_staged():
                    continue
                began = time.time()
                staged = self._fitting(stage)
                place.let_stage(holds_memory=True)
                return began, staged

    def _fitting(self, call: Callable[[], Any]) -> Any:
        """`call()`, once more where it found too little memory and some was given back for it."""
        try:
            return call()
        except OutOfMemory:
            if not self._give_way():
                raise
        return call()

    def _start(self, staged: StagedPartition, challenge: bytes | None, place: Turn) -> PendingProof:
        try:
            return staged.start(challenge)
        except OutOfMemory:
            if place.passed_staged():
                self.line.passes_staged = False  # perhaps one that it passed has the memory
            else:
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
