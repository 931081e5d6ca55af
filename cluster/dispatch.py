"""The dispatch loop: which partition goes to which worker, and what happens when one fails.

    waiting -> synthesising -> ready -> [committing -> committed ->] proving -> verifying -> keeping -> done | failed
                                 ^------------------------- diagnosing <---------'

Rules:

* A prover has at most `in_flight` partitions, so that the next witness travels while it computes. Witnesses are made
  ahead of need, but only as many as the provers can take up: they are large.
* Nothing is proven before one prover has checked the key, for systems that have such a check.
* No proof counts before it has been verified here, and is on disk. After a bad one the witness is diagnosed; if that is
  not to blame, the partition goes to another prover if there is one.
* This loop waits for nothing but what is over: a prover has its next partition before it can miss it.
* An error of the input (`InputError`) fails its partition at once. Everything else is tried again, `max_retries` times.
* A worker whose process died is loaded again and goes on. One that fails three times with nothing good in between, or
  does not come back in time, is retired. With no prover or synthesiser left, what remains fails; what is done is kept.
* With a barrier, every partition is committed before any is proven. A partition that moves to another prover after that
  must reproduce its commitment.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cluster.executors import Executor, Role, Work, Worker
from cluster.report import PartitionReport, Report, WorkerReport, public_message
from cluster.run import Barrier, Run
from cluster.status import status_view
from cluster.tasks import Finished, Kind, WorkerDied, WorkLost
from cluster.timeline import Session, Span
from distprove import canonical
from distprove.errors import FormatError, InputError, InvalidProof, JobFailed
from distprove.job import ExecutorSettings
from distprove.system import (
    ChecksCommitments,
    ChecksKey,
    DrawsChallenge,
    Partition,
    PartitionProof,
    PhaseTimes,
    ProofSystem,
)
from kernels.backend import OutOfMemory

RECENT = 60.0
"""Seconds over which the rate in status.json is taken."""

MAX_STRIKES = 3
"""Bad proofs, faults or deaths of one worker in a row before it is retired."""


class Stage(str, Enum):
    WAITING = "waiting"
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


@dataclass(frozen=True)
class Progress:
    """Something happened; for the live display. `done`, `failed` and `total` count partitions."""

    event: str
    """A journal event, or "stage"."""
    partition: str | None
    worker: str | None
    stage: str | None
    done: int
    failed: int
    total: int
    detail: str | None = None


@dataclass
class _Item:
    """A partition under way."""

    partition: Partition
    report: PartitionReport
    stage: Stage = Stage.WAITING
    work: Work | None = None
    commitment: bytes | None = None
    home: str | None = None
    """The prover it is with, or (after its commitment) that holds its state."""
    avoid: set[str] = field(default_factory=set)
    """Provers whose proof of it was bad."""
    suspicion: str = ""
    """Why its last proof is held to be bad, while that is diagnosed."""
    proof: PartitionProof | None = None
    times: PhaseTimes = field(default_factory=PhaseTimes)
    handed: dict[Kind, int] = field(default_factory=dict)
    """How often each kind of task on it ended, for the timeline."""
    charged: int = 0
    """Attempts that failed and count against `max_retries`."""


@dataclass
class _Member:
    """A worker as the dispatcher sees it."""

    worker: Worker
    report: WorkerReport
    deadline: float
    """When it must be ready, by the monotonic clock."""
    ready: bool = False
    retired: bool = False
    strikes: int = 0
    tasks: list[str] = field(default_factory=list)
    """Partitions it was handed, oldest first."""
    blamed: str | None = None
    """The partition it was at work on when it last died."""

    @property
    def usable(self) -> bool:
        return self.ready and not self.retired


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
        self._recent: deque[float] = deque(maxlen=10_000)
        """When partitions were proven."""
        self._barrier = barrier
        self._checked = not isinstance(system, ChecksKey)
        self._checker: str | None = None
        """The prover that is checking the key."""

    def run(self, post: Callable[[Callable[[], dict[str, Any]]], None] = lambda _: None) -> dict[str, PartitionProof]:
        """Until every partition is done or has failed. Raises InputError when the key itself is at fault.

        `post` is offered a view of the work now and then, for status.json.
        """
        if self._open():
            for worker in self._executor.start(self._system):
                report = WorkerReport(worker.id, worker.role.value, worker.node)
                self._report.workers.append(report)
                self._members[worker.id] = _Member(worker, report, self._deadline())
                self._executor.load(worker)
        while self._open():
            self._hand_out()
            finished = self._executor.wait(timeout=1.0)
            while finished is not None:  # all that is over, before anything is handed out
                self._take(finished)
                finished = self._executor.wait(timeout=0.0)
            self._retire_the_late()
            self._fail_if_stranded()
            post(self._view)
        return self._proofs

    # -- handing out ------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        if self._system.needs_barrier and self._barrier is None:
            self._raise_barrier()
        if self._checked and any(m.worker.role is Role.PROVER and self._has_room(m) for m in self._members.values()):
            for item in list(self._at[Stage.READY].values()):
                self._to_prover(item)
            if self._barrier is not None:
                for item in list(self._at[Stage.COMMITTED].values()):
                    self._to_home(item)
        self._synthesise_ahead()

    def _has_room(self, member: _Member) -> bool:
        return member.usable and len(member.tasks) < self._settings.in_flight

    def _synthesise_ahead(self) -> None:
        idle = [m for m in self._members.values() if m.worker.role is Role.SYNTHESISER and m.usable and not m.tasks]
        if not idle:
            return
        provers = [m for m in self._members.values() if m.worker.role is Role.PROVER and not m.retired]
        synthesisers = [m for m in self._members.values() if m.worker.role is Role.SYNTHESISER and m.usable]
        ahead = (Stage.SYNTHESISING, Stage.READY, Stage.COMMITTING, Stage.PROVING)
        room = len(provers) * self._settings.in_flight + len(synthesisers)
        room -= sum(len(self._at[stage]) for stage in ahead)
        if self._settings.parallel is not None:
            preparing = len(self._at[Stage.SYNTHESISING]) + len(self._at[Stage.READY])
            room = min(room, self._settings.parallel - preparing)
        waiting = itertools.islice(self._at[Stage.WAITING].values(), max(0, room))
        for member, item in list(zip(idle, waiting, strict=False)):
            self._move(item, Stage.SYNTHESISING, member)
            self._executor.synthesise(member.worker, item.partition)

    def _to_prover(self, item: _Item) -> None:
        """Hand a witness to the least busy prover that has not failed with it, unless all have."""
        live = [m for m in self._members.values() if m.worker.role is Role.PROVER and not m.retired]
        fresh = [m for m in live if m.worker.id not in item.avoid] or live
        free = [m for m in fresh if self._has_room(m)]
        if not free or item.work is None:
            return
        member = min(free, key=lambda m: len(m.tasks))
        item.home = member.worker.id
        if self._system.needs_barrier:
            self._move(item, Stage.COMMITTING, member)
            self._executor.commit(member.worker, item.partition, item.work)
        else:
            self._prove(item, member, None)

    def _to_home(self, item: _Item) -> None:
        """After the barrier: prove where the partition was committed."""
        assert self._barrier is not None
        assert item.home is not None
        member = self._members[item.home]
        if self._has_room(member):
            self._prove(item, member, self._barrier[1])

    def _prove(self, item: _Item, member: _Member, challenge: bytes | None) -> None:
        assert item.work is not None, "a partition is proven from its witness"
        self._move(item, Stage.PROVING, member)
        item.report.attempts += 1
        self._executor.prove(member.worker, item.partition, item.work, challenge)

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
            member.tasks.append(item.partition.name)
        self._tell("stage", item, member)

    def _place(self, item: _Item, stage: Stage) -> None:
        del self._at[item.stage][item.partition.name]
        item.stage = stage
        self._at[stage][item.partition.name] = item

    # -- taking in --------------------------------------------------------------------------------------------------

    def _take(self, finished: Finished) -> None:
        task = finished.task
        member = self._members[task.worker] if task.worker is not None else None
        item = self._items[task.partition] if task.partition is not None else None
        if task.kind is Kind.LOAD:
            assert member is not None
            self._loaded(member, finished)
            return
        if task.kind is Kind.CHECK:
            assert member is not None
            self._key_checked(member, finished)
            return
        assert item is not None
        if task.kind is Kind.KEEP:
            if finished.error is not None:
                raise finished.error
            self._kept(item)
            return
        # The barrier failed it meanwhile, or it was taken away from this worker, which was retired meanwhile.
        late = item.stage in (Stage.DONE, Stage.FAILED) or (member is not None and task.partition not in member.tasks)
        if late:
            if isinstance(finished.value, Work):
                self._executor.forget(finished.value)
            return
        if member is not None:
            if isinstance(finished.error, WorkerDied) and member.ready:
                # Only the partition at work may be to blame; those that waited in line are not charged for the death.
                member.blamed = member.tasks[0]
            member.tasks.remove(item.partition.name)
        self._record_span(finished)
        error = finished.error
        if error is None:
            self._succeeded(item, member, finished)
        elif task.kind is Kind.VERIFY:
            self._diagnose(item, public_message(error))
        elif isinstance(error, InputError):
            self._fail(item, str(error), type(error).__name__)
        elif isinstance(error, WorkLost):
            self._report.counters.lost_witnesses += 1
            self._drop_work(item)
            self._again(item, "its witness was lost")
        elif isinstance(error, WorkerDied):
            assert member is not None
            self._died(member, str(error))
            self._again(item, "its worker died", charge=member.blamed == item.partition.name)
        elif task.kind is Kind.DIAGNOSE:
            self._bad_proof(item, item.suspicion)  # nothing more could be found out
        else:
            assert member is not None
            self._fault(item, member, error)

    def _loaded(self, member: _Member, finished: Finished) -> None:
        if member.retired or member.ready:
            return
        error = finished.error
        if error is None:
            member.ready = True
            member.report.status = "ready"
            member.report.facts = finished.value
            member.report.load_seconds += finished.ended - finished.started
            self._record_span(finished)
            self._run.note("worker-ready", sync=False, worker=member.worker.id, device=finished.value.get("device"))
            self._tell("worker-ready", None, member)
            self._check_key()
        elif isinstance(error, InputError):
            raise error
        elif isinstance(error, WorkerDied):
            self._died(member, str(error), was_ready=False)
        else:
            self._retire(member, f"could not load the key: {public_message(error)}")

    def _check_key(self) -> None:
        """Have the key checked by a prover that is ready, unless that is done or under way."""
        ready = [m for m in self._members.values() if m.worker.role is Role.PROVER and m.usable]
        if not self._checked and self._checker is None and ready:
            self._checker = ready[0].worker.id
            self._executor.check(ready[0].worker)

    def _key_checked(self, member: _Member, finished: Finished) -> None:
        error = finished.error
        self._checker = None
        if error is None:
            self._checked = True
            self._record_span(finished)
            seconds = round(finished.ended - finished.started, 6)
            self._run.note("key-checked", sync=False, worker=member.worker.id, seconds=seconds)
            return
        if isinstance(error, InputError):
            raise error
        if isinstance(error, WorkerDied):
            self._died(member, str(error))
        else:
            self._retire(member, f"could not check the key: {public_message(error)}")
        self._check_key()

    def _succeeded(self, item: _Item, member: _Member | None, finished: Finished) -> None:
        kind, value, seconds = finished.task.kind, finished.value, finished.ended - finished.started
        if kind is Kind.VERIFY:
            item.report.verify_seconds = seconds
            if value is None:
                self._keep(item)
            else:
                self._diagnose(item, value)
            return
        assert member is not None
        if kind is Kind.SYNTHESISE:
            member.strikes = 0
            member.report.partitions += 1
            item.work = value
            item.report.synthesise_seconds = seconds
            item.report.witness_bytes = value.nbytes
            self._move(item, Stage.READY)
        elif kind is Kind.COMMIT:
            self._committed(item, member, value[0])
        elif kind is Kind.PROVE:
            item.proof, item.times = value
            item.report.prove_seconds = seconds
            assert item.proof is not None
            if (item.proof.name, item.proof.digest) != (item.partition.name, item.partition.digest):
                self._bad_proof(item, "the prover returned the proof of another partition")
                return
            if self._barrier is not None and not made_under(self._system, item.proof, self._barrier):
                self._bad_proof(item, "the proof was made under another commitment or challenge")
                return
            self._move(item, Stage.VERIFYING)
            self._executor.verify(item.proof)
        elif kind is Kind.DIAGNOSE:
            self._bad_proof(item, item.suspicion)

    def _committed(self, item: _Item, member: _Member, commitment: Any) -> None:
        if not isinstance(commitment, bytes):
            self._fault(item, member, TypeError("a system with a barrier commits to bytes"))
            return
        if self._barrier is not None and self._barrier[0].get(item.partition.name) != commitment:
            self._bad_proof(item, "the commitment differs from the one before the barrier")
            return
        item.commitment = commitment
        self._move(item, Stage.COMMITTED)

    def _keep(self, item: _Item) -> None:
        """A verified proof: to disk, before anything else hears of it."""
        assert item.proof is not None
        self._drop_work(item)
        self._move(item, Stage.KEEPING)
        self._executor.keep(item.proof, self._run.store)

    def _kept(self, item: _Item) -> None:
        """Verified, and on disk."""
        assert item.proof is not None
        assert item.home is not None
        member = self._members[item.home]
        member.strikes = 0
        member.report.partitions += 1
        report = item.report
        report.status, report.worker, report.phases = "proved", item.home, dict(item.times.seconds)
        report.to_device, report.to_host = item.times.to_device, item.times.to_host
        report.memory, report.device_peak = item.times.memory, item.times.device_peak
        self._proofs[item.partition.name] = item.proof
        self._place(item, Stage.DONE)
        self._run.note(
            "proved",
            sync=False,  # the proof itself is
            partition=item.partition.name,
            worker=item.home,
            synthesise_seconds=round(report.synthesise_seconds, 6),
            prove_seconds=round(report.prove_seconds, 6),
            verify_seconds=round(report.verify_seconds, 6),
            to_device=report.to_device,
            to_host=report.to_host,
        )
        self._recent.append(time.time())
        self._tell("proved", item, member)

    # -- when things go wrong ---------------------------------------------------------------------------------------

    def _diagnose(self, item: _Item, reason: str) -> None:
        """After a proof that does not verify: ask the prover it came from whether the witness is to blame."""
        assert item.home is not None
        member = self._members[item.home]
        item.suspicion = reason
        if member.usable and item.work is not None:
            self._move(item, Stage.DIAGNOSING, member)
            self._executor.diagnose(member.worker, item.partition, item.work)
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
        if member.worker.role is Role.PROVER:
            item.avoid.add(member.worker.id)
        self._run.note("fault", partition=item.partition.name, worker=member.worker.id, reason=message)
        self._again(item, message)
        # Too little memory for this partition says nothing against the worker.
        if not isinstance(error, OutOfMemory):
            self._strike(member, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {message}")

    def _died(self, member: _Member, reason: str, was_ready: bool = True) -> None:
        """Count a death once, however many tasks report it, and have the worker loaded again."""
        if member.retired or (was_ready and not member.ready):
            return
        member.ready = False
        member.report.status = "starting"
        member.report.deaths += 1
        self._report.counters.deaths += 1
        self._run.note("death", worker=member.worker.id, reason=reason)
        self._tell("death", None, member, reason)
        for item in self._committed_at(member):  # that state went with it; the witness is still to be had
            self._again(item, "its prover died", charge=False)
        self._strike(member, f"died {MAX_STRIKES} times in a row, the last: {reason}")
        if not member.retired:
            member.deadline = self._deadline()
            self._executor.load(member.worker)

    def _strike(self, member: _Member, reason: str) -> None:
        member.strikes += 1
        if member.strikes >= MAX_STRIKES:
            self._retire(member, reason)

    def _retire(self, member: _Member, reason: str) -> None:
        if member.retired:
            return
        member.retired = True
        member.report.status, member.report.reason = "retired", reason
        self._report.counters.retired += 1
        self._run.note("retired", worker=member.worker.id, reason=reason)
        self._tell("retired", None, member, reason)
        names, member.tasks = member.tasks, []
        for item in (*(self._items[name] for name in names), *self._committed_at(member)):
            self._again(item, "its worker was retired", charge=False)
        self._executor.retire(member.worker)

    def _committed_at(self, member: _Member) -> list[_Item]:
        return [item for item in self._at[Stage.COMMITTED].values() if item.home == member.worker.id]

    def _retire_the_late(self) -> None:
        now = time.monotonic()
        for member in self._members.values():
            if not member.ready and not member.retired and now > member.deadline:
                self._retire(member, f"not ready within {self._settings.start_timeout:.0f} s")

    def _again(self, item: _Item, reason: str, charge: bool = True) -> None:
        """Put a partition back in line; `charge` an attempt, so that no partition is tried for ever."""
        if charge:
            item.charged += 1
            if item.charged > self._settings.max_retries:
                self._fail(item, f"given up after {self._settings.max_retries + 1} attempts; the last: {reason}", None)
                return
        self._report.counters.retries += 1
        item.home, item.proof = None, None
        self._move(item, Stage.READY if item.work is not None else Stage.WAITING)

    def _fail(self, item: _Item, reason: str, kind: str | None) -> None:
        self._place(item, Stage.FAILED)
        self._drop_work(item)
        item.report.status, item.report.error, item.report.error_kind = "failed", reason, kind
        self._run.note("failed", partition=item.partition.name, reason=reason)
        self._tell("failed", item, None, reason)

    def _fail_if_stranded(self) -> None:
        """Fail what needs a kind of worker of which none is left."""
        if {member.worker.role for member in self._members.values() if not member.retired} == set(Role):
            return
        needs = {
            Role.SYNTHESISER: (Stage.WAITING, Stage.SYNTHESISING),
            Role.PROVER: tuple(stage for stage in Stage if stage not in SAFE),
        }
        for role, stages in needs.items():
            members = [m for m in self._members.values() if m.worker.role is role]
            if all(m.retired for m in members):
                reason = next((m.report.reason for m in members if m.report.reason), "there is none")
                for item in [item for stage in stages for item in self._at[stage].values()]:
                    self._fail(item, f"no {role.value} is left ({reason})", None)

    def _drop_work(self, item: _Item) -> None:
        if item.work is not None:
            self._executor.forget(item.work)
        item.work = None

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        return len(self._at[Stage.DONE]) + len(self._at[Stage.FAILED]) < len(self._items)

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.start_timeout

    def _record_span(self, finished: Finished) -> None:
        task = finished.task
        timed = task.kind in (Kind.COMMIT, Kind.PROVE) and finished.error is None
        times: PhaseTimes = finished.value[1] if timed else PhaseTimes()
        attempt = 0
        if task.partition is not None:
            seen = self._items[task.partition].handed
            seen[task.kind] = attempt = seen.get(task.kind, 0) + 1
        self._session.add(
            Span(
                task.worker or "driver",
                task.partition,
                task.kind.value,
                finished.started,
                finished.ended,
                dict(times.seconds),
                _outcome(finished),
                tuple(times.steps),
                times.on_device,
                attempt,
            )
        )

    def _view(self) -> dict[str, Any]:
        """What status.json says while the dispatcher runs."""
        now = time.time()
        recent = sum(1 for proven in self._recent if proven > now - RECENT)
        return status_view(
            self._report,
            {stage.value: len(items) for stage, items in self._at.items() if items},
            rate=recent / min(RECENT, max(1.0, now - self._report.started)),
            tasks={
                member.worker.id: [[name, self._items[name].stage.value] for name in member.tasks]
                for member in self._members.values()
            },
        )

    def _tell(self, event: str, item: _Item | None, member: _Member | None, detail: str | None = None) -> None:
        if self._progress is None:
            return
        self._progress(
            Progress(
                event,
                item.partition.name if item else None,
                member.worker.id if member else None,
                item.stage.value if item else None,
                len(self._at[Stage.DONE]),
                len(self._at[Stage.FAILED]),
                len(self._items),
                detail,
            )
        )


def _outcome(finished: Finished) -> str:
    """For the timeline."""
    if finished.error is not None:
        return type(finished.error).__name__
    return "bad proof" if finished.task.kind is Kind.VERIFY and finished.value is not None else "ok"


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
