"""Workers that answer on the driver's own thread, at once: what is left of a job's time is what its keeping costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from actors.inflight import Timed
from actors.spans import span_json
from actors.worker import Ask, Batch, Loaded, Order, Outcome, Stretch
from cluster.executor.base import Executor, WorkerHandle, _verdicts
from cluster.executor.tasks import Finished, Kind
from cluster.executor.views import KeyView, WorkerView
from distprove.settings import ExecutorSettings
from distprove.system import PartitionProof, ProofSystem
from tests.support.toy_system import ToyBackend

WORKER = WorkerHandle("prover-0", "local", ("synthesiser-0",))
MOST = 4
"""Orders that are carried out at a time, by default; others go back."""


class InstantPool:
    def __init__(
        self,
        settings: ExecutorSettings,
        before: Callable[[str, str], None] = lambda job, name: None,
        most: int = MOST,
    ) -> None:
        """`before` is called before each partition of a job is proven; `most` orders are carried out at a time."""
        self.settings, self.before, self.most = settings, before, most
        self.warm: set[bytes] = set()
        self.evicted = 0

    def start(self) -> None: ...

    def lend(self, system: ProofSystem, *, job: str, rank: int, known_as: str | None) -> Executor:
        digest = system.key_digest()
        cold = digest not in self.warm
        self.warm.add(digest)
        return InstantExecutor(self.settings, cold, lambda name: self.before(job, name), self.most)

    def keys(self) -> list[KeyView]:
        return []

    def workers(self) -> list[WorkerView]:
        return []

    def close(self) -> None: ...


class InstantExecutor(Executor):
    kind = "local"

    def __init__(self, settings: ExecutorSettings, cold: bool, before: Callable[[str], None], most: int) -> None:
        super().__init__(settings)
        self.most = most
        self.cold = cold
        self.before = before
        self.ended: BaseException | None = None

    def start(self, system: ProofSystem) -> list[WorkerHandle]:
        self._system = system
        shared = system.shared()
        self.synthesiser, self.prover = system.synthesiser(shared, 1), system.prover(shared, ToyBackend())
        return [WORKER]

    def _tell_done(self, kind: Kind, worker: str | None, value: object) -> None:
        now = time.time()
        self._done.put(Finished(kind, worker, value, None, now, now))

    def load(self, worker: WorkerHandle, permitted: bool = True) -> None:
        now = time.time()
        timed = Timed({"device": "toy", "kind": "cpu"}, now, now)
        self._tell_done(Kind.LOAD, worker.id, Loaded(timed, {"synthesiser-0": timed}))

    def check(self, worker: WorkerHandle) -> None:
        now = time.time()
        self._tell_done(Kind.CHECK, worker.id, Timed(None, now, now))

    def permit(self, worker: WorkerHandle) -> None: ...

    def hand(
        self, worker: WorkerHandle, orders: Sequence[Order], began: float = 0.0, parallel: int | None = None
    ) -> None:
        outcomes = []
        for order in orders[: self.most]:
            name, started = order.partition.name, time.time()
            if order.ask is Ask.DIAGNOSE:  # the witness is good
                outcomes.append(Outcome(name, order.ask, worker.id))
                continue
            self.before(name)
            witness = self.synthesiser.synthesise(order.partition)
            assert order.ask is Ask.PROVE
            proof, times = self.prover.prove_partition(order.partition, witness, order.challenge)
            ended = time.time()
            outcome = Outcome(name, order.ask, worker.id, proof, times, None, witness.nbytes)
            for stage, who in (("synthesise", "synthesiser-0"), ("prove", worker.id)):
                span = span_json(who, name, stage, started, ended, "ok", began, {})
                outcome.stretches.append(Stretch(who, stage, started, ended, span))
            outcomes.append(outcome)
        self._tell_done(
            Kind.BATCH, worker.id, Batch(outcomes, [], [order.partition.name for order in orders[self.most :]])
        )

    def verify(self, proofs: Sequence[PartitionProof], worker: WorkerHandle, *, last: bool = False) -> None:
        assert self._system is not None
        self._tell_done(Kind.VERIFY, None, _verdicts(self._system, list(proofs)))

    def keep(
        self,
        proofs: Sequence[PartitionProof],
        store: Callable[[Sequence[PartitionProof]], None],
        *,
        last: bool = False,
    ) -> None:
        store(proofs)
        self._tell_done(Kind.KEEP, None, [proof.name for proof in proofs])

    def wait(self, timeout: float) -> list[Finished]:
        if self.ended is not None:
            raise self.ended
        return super().wait(timeout)

    def stop(self, reason: BaseException) -> None:
        self.ended = reason
