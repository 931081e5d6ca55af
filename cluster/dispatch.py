"""The dispatch loop: which partition goes to which worker, and what happens when one fails.

    waiting -> handed -> synthesising -> ready -> [committing -> committed -> handed ->] proving
        ^                                                                               -> verifying -> keeping -> done
        '------------------------------- diagnosing <--------------------------------------'            | failed

Rules:

* A worker has orders for about `CHUNK` seconds of work, and as many again behind them. It makes the witness of a
  partition that it proves. Near the end of the job each worker gets its share of what is left, and what it has not
  begun is asked back when another one has nothing to do.
* Nothing is proven before one prover has checked the key, for systems that have such a check.
* No proof counts before it has been verified here, and is on disk. After a bad one the witness is diagnosed; if that is
  not to blame, the partition goes to another prover if there is one.
* This loop waits for nothing but what is over, and takes in all that is over before it hands out.
* An error of the input (`InputError`) fails its partition at once. Everything else is tried again, `max_retries` times.
* A worker whose process died is loaded again and goes on; what it had not answered for goes back. One that hangs is
  ended (`cluster.hangs`). One that fails three times with nothing good in between, or does not come back in time, is
  retired. The same holds for synthesisers. With no prover or synthesiser left, what remains fails; what is done is
  kept.
* With a barrier, every partition is committed before any is proven, by the worker that committed to it. A partition
  that moves to another worker after that must reproduce its commitment.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from actors.inflight import Timed
from actors.process import WitnessGone
from actors.processes import WorkerDied
from actors.spans import span_json, with_attempt
from actors.worker import Ask, Batch, Loaded, Order, Outcome
from cluster.executor.base import Executor, Role, Worker
from cluster.executor.tasks import Finished, Kind, Verdict
from cluster.hangs import Watch
from cluster.record.report import PartitionReport, Report, WorkerReport, public_message
from cluster.record.run import Barrier, Run
from cluster.record.status import status_view
from cluster.record.timeline import Session, Span
from distprove.errors import FormatError, InputError, InvalidProof, JobFailed
from distprove.formats import canonical
from distprove.settings import ExecutorSettings
from distprove.system import (
    ChecksCommitments,
    ChecksKey,
    DrawsChallenge,
    Partition,
    PartitionProof,
    PhaseTimes,
    ProofSystem,
)
from kernels.errors import OutOfMemory

CHUNK = 0.5
"""Seconds of work in a chunk, about."""

MAX_CHUNK = 2000
"""Partitions in a chunk, at most."""

TELL = 0.1
"""Seconds between two events "stage", at least."""

RECENT = 60.0
"""Seconds over which the rate in status.json is taken."""

MAX_STRIKES = 3
"""Bad proofs, faults or deaths of one worker in a row before it is retired."""


class Stage(str, Enum):
    WAITING = "waiting"
    HANDED = "handed"
    SYNTHESISING = "synthesising"
    READY = "ready"
    COMMITTING = "committing"
    COMMITTED = "committed"
    PROVING = "proving"
    VERIFYING = "verifying"
    KEEPING = "keeping"
    DIAGNOSING = "diagnosing"
    DONE = "done"
    FAILED = "failed"


SAFE = (Stage.VERIFYING, Stage.KEEPING, Stage.DONE, Stage.FAILED)
"""Stages that need no worker."""


class Progress(NamedTuple):
    """Something happened; for the live display. `done`, `failed` and `total` count partitions."""

    event: str
    """A journal event; "stage", ten times a second at most: partitions moved from one stage to another; or "waiting"
    before there is work: `detail` says for what."""
    partition: str | None
    worker: str | None
    stage: str | None
    done: int
    failed: int
    total: int
    detail: str | None = None
    stages: Mapping[str, int] | None = None
    """Number of partitions at each stage. Set for the event "stage" only."""


@dataclass
class _Item:
    """A partition under way."""

    partition: Partition
    report: PartitionReport
    stage: Stage = Stage.WAITING
    commitment: bytes | None = None
    home: str | None = None
    """The worker it is with, or whose proof or commitment of it we have."""
    avoid: set[str] = field(default_factory=set)
    """Provers whose proof of it was bad."""
    suspicion: str = ""
    """Why its last proof is held to be bad, while that is diagnosed."""
    proof: PartitionProof | None = None
    times: PhaseTimes = field(default_factory=PhaseTimes)
    attempts: dict[str, int] = field(default_factory=dict)
    """How often each phase of it was tried, for the timeline."""
    charged: int = 0
    """Attempts that failed and count against `max_retries`."""


@dataclass
class _Member:
    """A prover or a synthesiser as the dispatcher sees it."""

    worker: Worker
    """The one it is, or is of."""
    report: WorkerReport
    deadline: float
    """When it must be ready, by the monotonic clock."""
    ready: bool = False
    retired: bool = False
    strikes: int = 0
    tasks: dict[str, None] = field(default_factory=dict)
    """Partitions it was handed, oldest first."""
    under_way: list[tuple[str, str, str]] = field(default_factory=list)
    """The partitions among `tasks` that it has begun: name, stage, and the prover or synthesiser at work."""
    rate: float = 0.0
    """Orders a second that it took to their end, lately."""
    counted: float = 0.0
    """When its last batch came, by the monotonic clock."""
    asked_back: bool = False
    """Whether it was asked to return what it has not begun, and has not answered."""

    @property
    def usable(self) -> bool:
        return self.ready and not self.retired

    def at_work_on(self) -> str | None:
        """The partition that its process was at, as far as we know."""
        begun = [name for name, stage, _ in self.under_way if name in self.tasks and stage in _AT_PROVER]
        return begun[0] if begun else next(iter(self.tasks), None)


_AT_PROVER = ("committing", "proving")
_PREPARING = (Stage.HANDED, Stage.SYNTHESISING, Stage.READY, Stage.DIAGNOSING)


class Dispatcher:
    """Takes the partitions that are not done through an executor. `run` returns the proofs it got, by name."""

    def __init__(
        self,
        system: ProofSystem,
        plan: list[Partition],
        done: dict[str, PartitionProof],
        barrier: Barrier | None,
        executor: Executor,
        run: Run,
        settings: ExecutorSettings,
        report: Report,
        session: Session,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._system = system
        self._executor = executor
        self._run = run
        self._settings = settings
        self._report = report
        self._session = session
        self._progress = progress
        self._proofs = dict(done)
        self._items = {p.name: _Item(p, r) for p, r in zip(plan, report.partitions, strict=True)}
        # The same items by stage, each stage in order of arrival: no event costs a walk over the whole job.
        self._at: dict[Stage, dict[str, _Item]] = {stage: {} for stage in Stage}
        for name, item in self._items.items():
            item.stage = Stage.DONE if name in done else Stage.WAITING
            self._at[item.stage][name] = item
        self._members: dict[str, _Member] = {}
        """Provers, one of each worker."""
        self._makers: dict[str, _Member] = {}
        """Synthesisers."""
        self._recent: deque[tuple[float, int]] = deque(maxlen=10_000)
        """When partitions were proven, and how many."""
        self._barrier = barrier
        self._checked = not isinstance(system, ChecksKey)
        self._checker: str | None = None
        """The prover that is checking the key."""
        self._tell_due = 0.0
        self._watch = Watch(settings.hang_timeout, settings.in_flight)

    def run(self, post: Callable[[Callable[[], dict[str, Any]]], None] = lambda _: None) -> dict[str, PartitionProof]:
        """Until every partition is done or has failed. Raises InputError when the key itself is at fault.

        `post` is offered a view of the work now and then, for status.json.
        """
        if self._open():
            self._executor.waits_for = self._tell_wait
            for worker in self._executor.start(self._system):
                self._members[worker.id] = self._member(worker, worker.id, Role.PROVER)
                for name in worker.synthesisers:
                    self._makers[name] = self._member(worker, name, Role.SYNTHESISER)
                self._executor.load(worker, self._checked)
            self._report.workers += [m.report for m in (*self._members.values(), *self._makers.values())]
            self._tell_loading()
        while self._open():
            self._hand_out()
            for finished in self._executor.wait(timeout=1.0):
                self._take(finished)
            self._retire_the_late()
            self._end_the_hung()
            self._fail_if_stranded()
            self._tell_stages()
            post(self._view)
        return self._proofs

    def _member(self, worker: Worker, name: str, role: Role) -> _Member:
        return _Member(worker, WorkerReport(name, role.value, worker.node), self._deadline())

    # -- handing out ------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        if self._system.needs_barrier and self._barrier is None:
            self._raise_barrier()
        if self._barrier is not None and self._at[Stage.COMMITTED]:
            self._hand_home()
        live = [member for member in self._members.values() if not member.retired]
        usable = sorted((member for member in live if member.ready), key=lambda member: len(member.tasks))
        if self._at[Stage.WAITING]:
            left = len(self._at[Stage.WAITING]) + sum(len(member.tasks) for member in live)
            for member in usable:
                self._hand_to(member, live, fair=math.ceil(left / len(live)))
        elif usable:
            self._ask_back(usable)

    def _hand_to(self, member: _Member, live: list[_Member], fair: int) -> None:
        """A chunk for a worker that has less than one; near the end no more than its fair share of what is left."""
        in_flight = self._settings.in_flight
        chunk = max(in_flight + len(member.worker.synthesisers), min(MAX_CHUNK, math.ceil(member.rate * CHUNK)))
        room = min(2 * chunk, max(in_flight, fair)) - len(member.tasks)
        if room <= 0 or len(member.tasks) > chunk:
            return
        parallel = self._settings.parallel
        if parallel is not None and parallel < len(live):  # one at a time, wherever a prover is free
            preparing = sum(len(self._at[stage]) for stage in _PREPARING)
            room = min(1, parallel - preparing, in_flight - len(member.tasks))
            if room <= 0:
                return
        free = (item for item in self._at[Stage.WAITING].values() if self._may_have(member, item, live))
        ask = Ask.COMMIT if self._system.needs_barrier else Ask.PROVE
        self._hand(member, list(itertools.islice(free, room)), ask, None)

    def _may_have(self, member: _Member, item: _Item, live: list[_Member]) -> bool:
        """Not a worker that has failed with it, unless all have."""
        name = member.worker.id
        return name not in item.avoid or all(other.worker.id in item.avoid for other in live)

    def _hand_home(self) -> None:
        """After the barrier: prove where the partitions were committed, in the plan's order."""
        assert self._barrier is not None
        for member in self._members.values():
            items = [item for item in self._at[Stage.COMMITTED].values() if item.home == member.worker.id]
            items.sort(key=lambda item: item.partition.index)
            if member.usable and items:
                self._hand(member, items, Ask.PROVE, self._barrier[1])

    def _hand(self, member: _Member, items: list[_Item], ask: Ask, challenge: bytes | None) -> None:
        if not items:
            return
        for item in items:
            item.home = member.worker.id
            self._move(item, Stage.HANDED if ask is not Ask.DIAGNOSE else Stage.DIAGNOSING, member)
        orders = [Order(item.partition, ask, challenge) for item in items]
        self._executor.hand(member.worker, orders, self._session.began, self._parallel(member))

    def _parallel(self, member: _Member) -> int | None:
        """A worker's share of the setting `parallel`. Where there are more workers, `_hand_to` counts over all."""
        live = [other for other in self._members.values() if not other.retired]
        if self._settings.parallel is None:
            return None
        share, more = divmod(self._settings.parallel, len(live))
        return max(1, share + (live.index(member) < more))

    def _ask_back(self, usable: list[_Member]) -> None:
        """Have the worker with the most left return part of what it has not begun, while others have nothing."""
        idle, most = sum(not member.tasks for member in usable), usable[-1]
        spare = len(most.tasks) - self._settings.in_flight
        if idle and spare > 0 and self._barrier is None and not most.asked_back:
            most.asked_back = True
            self._executor.ask_back(most.worker, max(1, spare // (idle + 1)))

    def _raise_barrier(self) -> None:
        """Once all are committed, draw the challenge that binds every partition. One that failed fails the others."""
        if self._at[Stage.FAILED]:
            for item in self._items.values():
                if item.stage is not Stage.FAILED:
                    self._fail(item, "another partition failed before the barrier, and the challenge binds all", None)
            return
        if len(self._at[Stage.COMMITTED]) < len(self._items):
            return
        commitments = {name: item.commitment or b"" for name, item in self._items.items()}
        if isinstance(self._system, ChecksCommitments):
            try:
                self._system.check_commitments(list(commitments.values()))
            except InvalidProof as error:
                raise JobFailed(f"the partitions cannot be proven as one job: {error}") from None
        challenge = draw_challenge(self._system, commitments)
        self._run.store_barrier(commitments, challenge)
        self._run.note("barrier", challenge=challenge.hex())
        self._barrier = (commitments, challenge)

    def _move(self, item: _Item, stage: Stage, member: _Member | None = None) -> None:
        """To another stage; `member` is who was handed the partition for it."""
        self._place(item, stage)
        if member is not None:
            member.tasks[item.partition.name] = None

    def _place(self, item: _Item, stage: Stage) -> None:
        del self._at[item.stage][item.partition.name]
        item.stage = stage
        self._at[stage][item.partition.name] = item

    # -- taking in --------------------------------------------------------------------------------------------------

    def _take(self, finished: Finished) -> None:
        member = self._members[finished.worker] if finished.worker is not None else None
        if finished.kind is Kind.VERIFY:
            self._verified(finished)
        elif finished.kind is Kind.KEEP:
            if finished.error is not None:
                raise finished.error
            self._kept([self._items[name] for name in finished.value])
        elif member is None or member.retired:
            return
        elif finished.kind is Kind.LOAD:
            self._loaded(member, finished)
        elif finished.kind is Kind.CHECK:
            self._key_checked(member, finished)
        elif finished.error is not None:
            self._died(member, str(finished.error))
        else:
            self._answered(member, finished.value)

    def _answered(self, member: _Member, batch: Batch) -> None:
        """A batch of a worker's outcomes, in the order in which they came about."""
        now = time.monotonic()
        if batch.outcomes:
            rate = len(batch.outcomes) / max(1e-3, now - member.counted)
            member.rate = (member.rate + rate) / 2 if member.rate else rate
        member.counted = now
        proven: list[_Item] = []
        for outcome in batch.outcomes:
            item = self._items[outcome.name]
            if outcome.name not in member.tasks or item.stage in (Stage.DONE, Stage.FAILED):
                member.tasks.pop(outcome.name, None)  # the barrier failed it meanwhile
                continue
            del member.tasks[outcome.name]
            for stretch in outcome.stretches:
                self._watch.took(stretch.phase, stretch.ended - stretch.started)
                self._record(item, stretch.worker, stretch.phase, stretch.ended - stretch.started, stretch.span)
            if outcome.error is None:
                self._succeeded(item, member, outcome, proven)
            else:
                self._failed(item, member, outcome, outcome.error)
        if proven:
            self._executor.verify([item.proof for item in proven if item.proof is not None], last=self._all_proven())
        for name in batch.returned:
            if name in member.tasks:
                del member.tasks[name]
                item = self._items[name]
                item.home = None
                self._move(item, Stage.WAITING)
        member.asked_back = member.asked_back and not (batch.returned or batch.outcomes)
        for name, loaded in batch.loaded:
            self._is_ready(self._makers[name], loaded)
        for name, error in batch.lost:
            self._retire_maker(self._makers[name], f"could not load its program: {public_message(error)}")
        member.under_way = [begun for begun in batch.under_way if begun[0] in member.tasks]
        if member.ready:
            self._watch.heard(member.worker.id, member.under_way)
        for name, stage, _ in member.under_way:
            item = self._items[name]
            if item.stage is not Stage.DIAGNOSING and item.stage.value != stage:
                self._move(item, Stage(stage))

    def _loaded(self, member: _Member, finished: Finished) -> None:
        if member.ready:
            return
        error = finished.error
        if error is None:
            loaded: Loaded = finished.value
            for name, timed in loaded.synthesisers.items():
                self._is_ready(self._makers[name], timed)
            self._is_ready(member, loaded.prover)
            member.counted = time.monotonic()
            self._watch.heard(member.worker.id)
            self._tell_loading()
            self._check_key()
            if self._checked:  # perhaps since it was asked to load
                self._executor.permit(member.worker)
        elif isinstance(error, InputError):
            raise error
        elif isinstance(error, WorkerDied):
            self._died(member, str(error), was_ready=False)
        else:
            self._retire(member, f"could not load the key: {public_message(error)}")

    def _is_ready(self, member: _Member, timed: Timed) -> None:
        report = member.report
        if member.retired:
            return
        member.ready = True
        report.status = "ready"
        report.facts = timed.value
        report.load_seconds += timed.ended - timed.started
        self._session.spans.append(Span(report.id, None, "load", timed.started, timed.ended))
        self._run.note("worker-ready", sync=False, worker=report.id, device=timed.value.get("device"))
        self._tell("worker-ready", None, member)

    def _check_key(self) -> None:
        """Have the key checked by a prover that is ready, unless that is done or under way."""
        ready = [member for member in self._members.values() if member.usable]
        if not self._checked and self._checker is None and ready:
            self._checker = ready[0].worker.id
            self._executor.check(ready[0].worker)
            self._tell_wait(f"the key's check on {self._checker}")

    def _key_checked(self, member: _Member, finished: Finished) -> None:
        error = finished.error
        if self._checker != member.worker.id:
            return  # it died meanwhile, and another one was asked
        self._checker = None
        if error is None:
            timed: Timed = finished.value
            self._checked = True
            self._session.spans.append(Span(member.worker.id, None, "check", timed.started, timed.ended))
            seconds = round(timed.ended - timed.started, 6)
            self._run.note("key-checked", sync=False, worker=member.worker.id, seconds=seconds)
            for other in self._members.values():
                self._executor.permit(other.worker)
            return
        if isinstance(error, InputError):
            raise error
        if isinstance(error, WorkerDied):
            self._died(member, str(error))
        else:
            self._retire(member, f"could not check the key: {public_message(error)}")
        self._check_key()

    def _succeeded(self, item: _Item, member: _Member, outcome: Outcome, proven: list[_Item]) -> None:
        made = next((s for s in outcome.stretches if s.phase == "synthesise"), None)
        if made is not None:
            maker = self._makers[made.worker]
            maker.strikes = 0
            maker.report.partitions += 1
            item.report.synthesise_seconds = made.ended - made.started
        item.report.witness_bytes = outcome.witness_bytes
        if outcome.ask is Ask.COMMIT:
            self._committed(item, member, outcome.value)
        elif outcome.ask is Ask.DIAGNOSE:
            self._bad_proof(item, item.suspicion)
        else:
            item.proof, item.times = outcome.value, outcome.times or PhaseTimes()
            item.report.prove_seconds = outcome.stretches[-1].ended - outcome.stretches[-1].started
            assert item.proof is not None
            if (item.proof.name, item.proof.digest) != (item.partition.name, item.partition.digest):
                self._bad_proof(item, "the prover returned the proof of another partition")
            elif self._barrier is not None and not made_under(self._system, item.proof, self._barrier):
                self._bad_proof(item, "the proof was made under another commitment or challenge")
            else:
                self._move(item, Stage.VERIFYING)
                proven.append(item)

    def _failed(self, item: _Item, member: _Member, outcome: Outcome, error: BaseException) -> None:
        """An order came to nothing, at the prover or at one of its synthesisers."""
        maker = self._makers.get(outcome.worker)
        if isinstance(error, InputError):
            self._fail(item, str(error), type(error).__name__)
        elif isinstance(error, WitnessGone):
            self._report.counters.lost_witnesses += 1
            self._again(item, "its witness was lost")
        elif isinstance(error, WorkerDied) and maker is not None:
            self._note_death(maker, str(error))
            self._again(item, "its worker died")
            self._strike(maker, f"died {MAX_STRIKES} times in a row, the last: {error}")
        elif outcome.ask is Ask.DIAGNOSE:
            self._bad_proof(item, item.suspicion)  # nothing more could be found out
        else:
            self._fault(item, maker or member, error)

    def _verified(self, finished: Finished) -> None:
        """Verdicts on proofs; one that could not be come to is one that is not good."""
        verdicts: list[Verdict] = finished.value
        if finished.error is not None:
            reason = public_message(finished.error)
            verdicts = [Verdict(proof.name, reason, finished.started, finished.ended) for proof in finished.value]
        good: list[_Item] = []
        for verdict in verdicts:
            item = self._items[verdict.name]
            if item.stage is not Stage.VERIFYING:
                continue  # the barrier failed it meanwhile
            outcome = "ok" if verdict.reason is None else "bad proof"
            name, began, took = item.partition.name, self._session.began, verdict.ended - verdict.started
            span = span_json("driver", name, "verify", verdict.started, verdict.ended, outcome, began, {})
            self._record(item, "driver", "verify", took, span)
            item.report.verify_seconds = took
            if verdict.reason is None:
                assert item.home is not None
                self._members[item.home].strikes = 0
                self._move(item, Stage.KEEPING)
                good.append(item)
            else:
                self._diagnose(item, verdict.reason)
        if good:  # to disk, before anything else hears of it
            proofs = [item.proof for item in good if item.proof is not None]
            self._executor.keep(proofs, self._run.store, last=self._all_proven())

    def _committed(self, item: _Item, member: _Member, commitment: Any) -> None:
        if not isinstance(commitment, bytes):
            self._fault(item, member, TypeError("a system with a barrier commits to bytes"))
            return
        if self._barrier is not None and self._barrier[0].get(item.partition.name) != commitment:
            self._bad_proof(item, "the commitment differs from the one before the barrier")
            return
        item.commitment = commitment
        self._move(item, Stage.COMMITTED)

    def _kept(self, items: list[_Item]) -> None:
        """Verified, and on disk."""
        facts = []
        for item in items:
            assert item.proof is not None
            assert item.home is not None
            report = item.report
            report.status, report.worker, report.phases = "proved", item.home, dict(item.times.seconds)
            report.to_device, report.to_host = item.times.to_device, item.times.to_host
            report.memory, report.device_peak = item.times.memory, item.times.device_peak
            self._proofs[report.name] = item.proof
            self._members[item.home].report.partitions += 1
            self._place(item, Stage.DONE)
            facts.append(
                {
                    "partition": report.name,
                    "worker": item.home,
                    "synthesise_seconds": round(report.synthesise_seconds, 6),
                    "prove_seconds": round(report.prove_seconds, 6),
                    "verify_seconds": round(report.verify_seconds, 6),
                    "to_device": report.to_device,
                    "to_host": report.to_host,
                }
            )
            self._tell("proved", item, self._members[item.home])
        self._run.note_all("proved", facts, sync=False)  # the proofs themselves are
        self._recent.append((time.time(), len(items)))

    # -- when things go wrong ---------------------------------------------------------------------------------------

    def _diagnose(self, item: _Item, reason: str) -> None:
        """After a proof that does not verify: ask the prover it came from whether the witness is to blame."""
        assert item.home is not None
        member = self._members[item.home]
        item.suspicion = reason
        if member.usable:
            self._hand(member, [item], Ask.DIAGNOSE, None)
        else:
            self._bad_proof(item, reason)

    def _bad_proof(self, item: _Item, reason: str) -> None:
        assert item.home is not None
        member = self._members[item.home]
        self._report.counters.bad_proofs += 1
        member.report.bad_proofs += 1
        item.report.bad_proofs += 1
        item.avoid.add(item.home)
        self._run.note("bad-proof", partition=item.partition.name, worker=item.home, reason=reason)
        self._again(item, reason)
        self._strike(member, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {reason}")

    def _fault(self, item: _Item, member: _Member, error: BaseException) -> None:
        message = public_message(error)
        self._report.counters.faults += 1
        member.report.faults += 1
        if member.report.role == Role.PROVER.value:
            item.avoid.add(member.report.id)
        self._run.note("fault", partition=item.partition.name, worker=member.report.id, reason=message)
        self._again(item, message)
        # Too little memory for this partition says nothing against the worker.
        if not isinstance(error, OutOfMemory):
            self._strike(member, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {message}")

    def _died(self, member: _Member, reason: str, was_ready: bool = True) -> None:
        """Count the death of a worker's process once, however often it is reported, and have the worker loaded again.
        What it had goes back; only the partition at work may be to blame and is charged for it."""
        if member.retired or (was_ready and not member.ready):
            return
        blamed = member.at_work_on()
        self._watch.forget(member.worker.id)
        self._note_death(member, reason)
        self._take_back(member, "its worker died", blamed)
        for maker in self._makers.values():
            if maker.worker is member.worker and not maker.retired:
                maker.ready, maker.report.status = False, "starting"
        if self._checker == member.worker.id:
            self._checker = None
        self._strike(member, f"died {MAX_STRIKES} times in a row, the last: {reason}")
        if not member.retired:
            member.deadline = self._deadline()
            self._executor.load(member.worker, self._checked)
        self._check_key()

    def _note_death(self, member: _Member, reason: str) -> None:
        member.ready = False
        member.report.status = "starting"
        member.report.deaths += 1
        self._report.counters.deaths += 1
        self._run.note("death", worker=member.report.id, reason=reason)
        self._tell("death", None, member, reason)

    def _take_back(self, member: _Member, reason: str, blamed: str | None = None) -> None:
        """Hand out again what a worker had: its witnesses and what it committed to went with it."""
        names, member.tasks, member.under_way, member.asked_back = list(member.tasks), {}, [], False
        committed = [item for item in self._at[Stage.COMMITTED].values() if item.home == member.worker.id]
        for item in (*(self._items[name] for name in names), *committed):
            if item.stage is Stage.DIAGNOSING:
                self._bad_proof(item, item.suspicion)  # nothing more can be found out
            elif item.stage not in (Stage.DONE, Stage.FAILED):
                item.report.attempts += item.stage is Stage.PROVING
                self._again(item, reason, charge=item.partition.name == blamed)

    def _strike(self, member: _Member, reason: str) -> None:
        member.strikes += 1
        if member.strikes >= MAX_STRIKES:
            if member.report.role == Role.PROVER.value:
                self._retire(member, reason)
            else:
                self._retire_maker(member, reason)

    def _retire(self, member: _Member, reason: str) -> None:
        if member.retired:
            return
        self._note_retired(member, reason)
        for maker in self._makers.values():
            if maker.worker is member.worker and not maker.retired:
                maker.retired, maker.report.status, maker.report.reason = True, "retired", "its prover was retired"
        self._executor.retire(member.worker)
        self._take_back(member, "its worker was retired")

    def _retire_maker(self, maker: _Member, reason: str) -> None:
        """Give up a synthesiser, and with the last one its worker."""
        if maker.retired:
            return
        self._note_retired(maker, reason)
        self._executor.dismiss(maker.worker, maker.report.id)
        if all(other.retired for other in self._makers.values() if other.worker is maker.worker):
            self._retire(self._members[maker.worker.id], f"it has no synthesiser left ({reason})")

    def _note_retired(self, member: _Member, reason: str) -> None:
        member.retired = True
        member.report.status, member.report.reason = "retired", reason
        self._report.counters.retired += 1
        self._run.note("retired", worker=member.report.id, reason=reason)
        self._tell("retired", None, member, reason)

    def _retire_the_late(self) -> None:
        now = time.monotonic()
        for member in self._members.values():
            if not member.ready and not member.retired and now > member.deadline:
                self._retire(member, f"not ready within {self._settings.start_timeout:.0f} s")

    def _end_the_hung(self) -> None:
        """End what gives no sign of life: it is then taken for what it is, dead."""
        self._watch.look(time.monotonic())
        for member in self._members.values():
            hung = self._watch.hung(member.worker.id) if member.usable else None
            if hung is not None:
                self._run.note("hung", worker=hung.who, reason=hung.reason)
                self._tell("hung", None, member, hung.reason)
                self._watch.forget(member.worker.id)  # until it says something
                self._executor.interrupt(member.worker, hung.who)

    def _again(self, item: _Item, reason: str, charge: bool = True) -> None:
        """Put a partition back in line; `charge` an attempt, so that no partition is tried for ever."""
        if charge:
            item.charged += 1
            if item.charged > self._settings.max_retries:
                self._fail(item, f"given up after {self._settings.max_retries + 1} attempts; the last: {reason}", None)
                return
        self._report.counters.retries += 1
        item.home, item.proof = None, None
        self._move(item, Stage.WAITING)

    def _fail(self, item: _Item, reason: str, kind: str | None) -> None:
        self._place(item, Stage.FAILED)
        item.report.status, item.report.error, item.report.error_kind = "failed", reason, kind
        self._run.note("failed", partition=item.partition.name, reason=reason)
        self._tell("failed", item, None, reason)

    def _fail_if_stranded(self) -> None:
        """Fail what needs a worker when none is left."""
        if not all(member.retired for member in self._members.values()):
            return
        reason = next((m.report.reason for m in self._members.values() if m.report.reason), "there is none")
        for item in [item for stage in Stage if stage not in SAFE for item in self._at[stage].values()]:
            self._fail(item, f"no prover is left ({reason})", None)

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        return len(self._at[Stage.DONE]) + len(self._at[Stage.FAILED]) < len(self._items)

    def _all_proven(self) -> bool:
        """Whether nothing is left but to verify and to keep."""
        return sum(len(self._at[stage]) for stage in SAFE) == len(self._items)

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.start_timeout

    def _record(self, item: _Item, worker: str, phase: str, seconds: float, span: str) -> None:
        """A span of the timeline, which lacks only the attempt."""
        attempt = item.attempts[phase] = item.attempts.get(phase, 0) + 1
        item.report.attempts += phase == "prove"
        self._session.add(worker, seconds, with_attempt(span, attempt))

    def _view(self) -> dict[str, Any]:
        """What status.json says while the dispatcher runs."""
        now = time.time()
        recent = sum(count for proven, count in self._recent if proven > now - RECENT)
        begun: dict[str, list[list[str]]] = {}
        for member in self._members.values():
            for name, stage, worker in member.under_way:
                if name in member.tasks:
                    begun.setdefault(worker, []).append([name, stage])
        return status_view(
            self._report,
            self._stages(),
            rate=recent / min(RECENT, max(1.0, now - self._report.started)),
            tasks=begun,
        )

    def _tell_loading(self) -> None:
        """Provers that have the key, of those that there are."""
        ready = sum(member.ready for member in self._members.values())
        if ready < len(self._members):
            self._tell_wait(f"the key, loaded on {ready} of {len(self._members)} provers")

    def _tell_wait(self, what: str) -> None:
        self._tell("waiting", None, None, what)

    def _tell_stages(self) -> None:
        """What moves comes by the thousand, and who looks sees ten pictures a second."""
        now = time.monotonic()
        if now >= self._tell_due:
            self._tell_due = now + TELL
            self._tell("stage", None, None)

    def _stages(self) -> dict[str, int]:
        return {stage.value: len(items) for stage, items in self._at.items() if items}

    def _tell(self, event: str, item: _Item | None, member: _Member | None, detail: str | None = None) -> None:
        if self._progress is None:
            return
        self._progress(
            Progress(
                event,
                item.partition.name if item else None,
                member.report.id if member else None,
                item.stage.value if item else None,
                len(self._at[Stage.DONE]),
                len(self._at[Stage.FAILED]),
                len(self._items),
                detail,
                self._stages() if event == "stage" else None,
            )
        )


def draw_challenge(system: ProofSystem, commitments: dict[str, bytes]) -> bytes:
    """The challenge that binds all partitions: the system's own, or a digest of the commitments by name, in order."""
    if isinstance(system, DrawsChallenge):
        return system.draw_challenge(list(commitments.values()))
    listed = [list(c) for c in commitments.items()]
    return canonical.digest("distprove/challenge/1", system.name, system.key_digest(), listed)


def made_under(system: ProofSystem, proof: PartitionProof, barrier: Barrier) -> bool:
    """Whether a proof names the commitment and challenge of this barrier; True where the system cannot tell."""
    if not isinstance(system, DrawsChallenge):
        return True
    try:
        return system.made_under(proof) == (barrier[0].get(proof.name), barrier[1])
    except FormatError:
        return False
