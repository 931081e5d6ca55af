"""A key that is loaded without work for it: a job without partitions, which ends when workers have the key.

It takes the same ways as other jobs: a key that does not fit waits for room, a fault of the key or of all workers ends
it with the reason. Its rank is below that of every other job, so workers load the keys of all others first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from cluster.record.report import Report
from cluster.record.timeline import Session
from cluster.scheduler.events import Effect, Ended
from cluster.scheduler.jobs import Job
from distprove.system import PartitionProof, ProofSystem

RANK = 1 << 16
"""The rank of a load ahead: jobs of every priority go before it."""
_PREFIX = "key:"
"""What the names of these jobs begin with. The id of no other job has a colon."""


class LoadingAhead:
    """The loading of one key ahead: the sink of its job. Any thread may read."""

    def __init__(self, key: str, system: ProofSystem, kind: str, ended: Callable[[str], None]) -> None:
        """`kind`: as of the scheduler. `ended` hears that the job's name is free again."""
        self.key = key
        self.began = time.monotonic()
        self.seconds: float | None = None
        """Time that it took; None while it is under way."""
        self.done: Future[None] = Future()
        """Done when the key is loaded, and checked if its system has a check; or has the error why not."""
        report = Report(system.name, system.describe(), kind, system.key_digest().hex(), [])
        self.job = Job(_PREFIX + key, key, system, [], report, Session(executor=kind), 0, RANK, ahead=True)
        self._ended = ended

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Ended):
                self._ended(self.job.id)
                self.seconds = time.monotonic() - self.began
                if effect.error is None:
                    self.done.set_result(None)
                else:
                    self.done.set_exception(effect.error)

    def keep(self, proofs: Sequence[tuple[Job, PartitionProof]]) -> None:
        raise AssertionError("it proves nothing")
