"""The state machine of the scheduler: events in, effects out. It has no clock, thread or file.

Rules that are not of a single failure (those are in `rules`):

* Nothing is proven before one worker has checked the key, for systems that have such a check.
* No proof counts before it is verified and on disk. After a bad one the witness is diagnosed.
* A partition that needs others waits for their proofs. It begins before these are verified, but nothing counts that
  comes of it before they are on disk: neither its proof, nor its failure.
* A barrier is such a case: every partition that needs no other is committed before any is proven, by the worker that
  committed to it. One that moves to another worker afterwards must reproduce its commitment.
* An error of an input is its node's until another node says the same. Everything else is tried again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from actors import patience
from actors.protocol import Batch, Outcome, Timed, WitnessGone, WorkerDied, WorkKind
from actors.spans import span_json, with_attempt
from cluster.record.report import public_message
from cluster.record.timeline import Span
from cluster.scheduler import assign, faults, keys
from cluster.scheduler import events as e
from cluster.scheduler.barrier import made_of, made_under, raise_barrier
from cluster.scheduler.jobs import Job, PartitionState
from cluster.scheduler.rules import OVER, Fact, Stage
from cluster.scheduler.state import Key, State
from cluster.scheduler.workers import SlotStage, Worker
from distprove.errors import InputError, UsageError
from distprove.settings import ExecutorSettings
from distprove.system import PartitionId, PartitionProof, StepTimes
from kernels.errors import OutOfMemory

MOVING = (Stage.HANDED, Stage.SYNTHESISING, Stage.READY, Stage.COMMITTING, Stage.PROVING)
"""Stages that a worker's news move a partition between."""


class Machine:
    """All jobs, keys and workers of a process."""

    def __init__(self, settings: ExecutorSettings, *, standing: bool = False) -> None:
        """`standing`: see `State`."""
        self.state = State(settings, standing=standing)

    def handle(self, events: Sequence[e.Event], now: float, time: float) -> list[e.Effect]:
        """The effects of these events. `now` is on the monotonic clock, and `time` in seconds since the epoch."""
        state = self.state
        state.now, state.time = now, time
        for event in events:
            HANDLERS[type(event)](state, event)
        moved, state.moved = state.jobs if state.see_all else state.moved, {}
        state.see_all = False
        going = [*moved.values(), *(job for job in state.ahead.values() if job.id not in moved)]
        for job in going:
            _go_on(state, job)
        for job in state.loaded.values():
            if not job.over:
                state.loading(job)
        state.loaded.clear()
        _forget_ended(state)
        if state.must_load:
            keys.load_all(state)
        assign.assign(state, [*going, *state.moved.values()])
        effects, state.out = state.out, []
        return effects


def _go_on(state: State, job: Job) -> None:
    """See whether a job is at its barrier, at its end, or without any worker."""
    if job.over:
        return
    if job.ahead:
        keys.look_ahead(state, job)
        return
    if job.system.needs_barrier and job.barrier is None and not job.storing_barrier:
        raise_barrier(state, job)
    if not job.over and job.open and state.workers:
        faults.fail_stranded(state, job)
    if not job.over and not job.open:
        state.end(job)
    elif not job.over and job.listens and state.now >= job.told_due:
        job.told_due = state.now + patience.STAGE_EVENTS
        state.tell(job, "stage")


def _forget_ended(state: State) -> None:
    while state.ended:
        _forget(state, state.ended.pop())


def _forget(state: State, job: Job) -> None:
    """A job is over: nothing of it is kept."""
    state.queue.forget(job.rank, job.id)
    for worker in state.workers.values():
        slot = worker.slots.get(job.key)
        if slot is not None and slot.ready and job.id in worker.served:
            left = [id for id in slot.handed if id.job == job.id]
            for id in left:
                del slot.handed[id]
            if left:
                slot.under_way = [each for each in slot.under_way if each.id.job != job.id]
            if left or job.system.needs_barrier:
                # Otherwise the worker has nothing of it, and a message would take the interpreter from its prover.
                state.forget(worker, job)
        worker.served.discard(job.id)
        worker.health.standings.pop(job.id, None)
    if job.holds_key:
        state.held[job.id] = job
    else:
        keys.leave(state, job)


# -- jobs -------------------------------------------------------------------------------------------------------------


def _job_added(state: State, event: e.JobAdded) -> None:
    job = state.jobs[event.job.id] = state.moved[event.job.id] = event.job
    if event.job.ahead:
        state.ahead[job.id] = job
    keys.admit(state, job)
    for worker in state.live(job):
        slot = worker.slot(job.key)
        if slot.loaded is not None and slot.ready:
            _note_loaded(state, job, worker, slot.loaded.prover, slot.loaded.synthesisers)
            for name, reason in slot.lost.items():
                faults.give_up_synthesiser(state, job, worker, name, reason)
    _tell_remarks(state, job)


def _job_stopped(state: State, event: e.JobStopped) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        state.end(job, event.error)


def _job_left(state: State, event: e.JobLeft) -> None:
    _forget_ended(state)  # it may have ended among the same events, if its driver did not wait for that
    job = state.held.pop(event.job, None)
    if job is not None:
        keys.leave(state, job)


def _barrier_stored(state: State, event: e.BarrierStored) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.barrier, job.storing_barrier = job.drawn, False
        state.moved[job.id] = job


# -- workers and keys -------------------------------------------------------------------------------------------------


def _joined(state: State, event: e.Joined) -> None:
    for handle in event.workers:
        late = bool(state.jobs) and bool(state.workers)
        worker = state.workers[handle.id] = Worker(handle, counted=state.now)
        for job in state.jobs.values():
            job.add_worker(worker)
            if late and state.joined:
                state.note_worker(job, "joined", handle.id, f"{handle.node} joined")
    state.joined = state.see_all = True
    state.must_load = True
    for job in state.jobs.values():
        state.loading(job)


def _left(state: State, event: e.Left) -> None:
    worker = state.workers.get(event.worker)
    if worker is not None:
        faults.lose(state, worker, "its node left the cluster")


def _fleet_lost(state: State, event: e.FleetLost) -> None:
    for job in list(state.jobs.values()):
        state.end(job, event.error)
    for key in list(state.keys.values()):
        key.jobs.clear()
    state.keys.clear()
    state.workers.clear()
    state.joined = False


def _key_opened(state: State, event: e.KeyOpened) -> None:
    if event.key in state.keys:
        keys.opened(state, state.keys[event.key])


def _key_refused(state: State, event: e.KeyRefused) -> None:
    if event.key in state.keys:
        keys.refused(state, state.keys[event.key], event.error)


def _key_closed(state: State, event: e.KeyClosed) -> None:
    if event.key in state.keys:
        keys.closed(state, state.keys[event.key])


def _key_put_away(state: State, event: e.KeyPutAway) -> None:
    if event.key in state.keys:
        keys.put_away(state, state.keys[event.key])


def _key_loaded(state: State, event: e.KeyLoaded) -> None:
    worker, key = state.workers.get(event.worker), state.keys.get(event.key)
    if worker is None or key is None or worker.slot(key.id).epoch != event.epoch:
        return
    slot, loaded = worker.slot(key.id), event.loaded
    slot.stage, slot.loaded, worker.loading = SlotStage.READY, loaded, None
    worker.facts, worker.health.restarted = loaded.prover.value, False
    worker.finished(0, state.now)
    key.watch.heard(worker.id)
    state.must_load = True
    for job in list(state.users(worker, key.id)):
        _note_loaded(state, job, worker, loaded.prover, loaded.synthesisers)
        state.loaded[job.id] = job
    state.check_key(key)
    if key.checked:  # perhaps since it was asked to load
        state.emit(e.Permit(worker.id, key.id))


def _note_loaded(state: State, job: Job, worker: Worker, prover: Timed, synthesisers: dict[str, Timed]) -> None:
    for name, timed in synthesisers.items():
        _note_ready(state, job, worker, name, timed)
    _note_ready(state, job, worker, worker.id, prover)


def _note_ready(state: State, job: Job, worker: Worker, name: str, timed: Timed) -> None:
    standing = worker.health.known(job.id, name)
    if standing is not None and standing.given_up:
        return
    job.add_worker(worker)
    report = job.workers[name]
    if report.status == "ready" and report.facts is timed.value:
        return  # a job that shares the report was told
    report.status, report.facts = "ready", timed.value
    report.load_seconds += timed.ended - timed.started
    job.session.spans.append(Span(name, None, "load", timed.started, timed.ended))
    state.note(job, "worker-ready", sync=False, worker=name, device=timed.value.get("device"))
    state.tell(job, "worker-ready", None, name)


def _load_failed(state: State, event: e.LoadFailed) -> None:
    worker, key = state.workers.get(event.worker), state.keys.get(event.key)
    if worker is None or key is None or worker.slot(key.id).epoch != event.epoch:
        return
    error, slot = event.error, worker.slot(key.id)
    if isinstance(error, WorkerDied):
        faults.died(state, worker, key.id, event.epoch, error)
        return
    worker.loading, state.must_load = None, True
    slot.stage, slot.epoch = SlotStage.ABSENT, 0
    if isinstance(error, OutOfMemory) and state.wanting(key) and keys.make_room(state, key):
        key.crowded_on.add(worker.id)
        return
    slot.stage = SlotStage.FAILED
    _no_use(state, key, worker, error, "load")
    keys.close_unused(state, key)


def _key_checked(state: State, event: e.KeyChecked) -> None:
    key, worker = state.keys.get(event.key), state.workers.get(event.worker)
    if key is None or worker is None or key.checker != worker.id or worker.slot(key.id).epoch != event.epoch:
        return  # it died meanwhile, and another one was asked
    key.checker, result = None, event.result
    if isinstance(result, WorkerDied):
        faults.died(state, worker, key.id, event.epoch, result)
    elif isinstance(result, BaseException):
        _no_use(state, key, worker, result, "check")
        state.check_key(key)
    else:
        key.checked = True
        seconds = round(result.ended - result.started, 6)
        for job in state.wanting(key):
            job.session.spans.append(Span(worker.id, None, "check", result.started, result.ended))
            state.note(job, "key-checked", sync=False, worker=worker.id, seconds=seconds)
        for other in state.workers.values():
            if other.slot(key.id).ready:
                state.emit(e.Permit(other.id, key.id))


def _no_use(state: State, key: Key, worker: Worker, error: BaseException, verb: str) -> None:
    """A worker could not load or check a key: the key is at fault, or the worker."""
    for job in list(state.users(worker, key.id)):
        if isinstance(error, InputError):
            state.end(job, error)
        else:
            faults.retire(state, job, worker, f"could not {verb} the key: {public_message(error)}")


def _died(state: State, event: e.Died) -> None:
    worker = state.workers.get(event.worker)
    if worker is not None:
        faults.died(state, worker, event.key, event.epoch, event.error)


# -- news of workers --------------------------------------------------------------------------------------------------


def _news(state: State, event: e.News) -> None:
    worker, key = state.workers.get(event.worker), state.keys.get(event.key)
    if worker is None or key is None or worker.slot(key.id).epoch != event.epoch:
        return
    slot, batch = worker.slot(key.id), event.batch
    if batch.number:
        if (event.epoch, batch.number) <= slot.heard:
            return  # told again: an outcome may be of an order before the one that the worker has now
        slot.heard = event.epoch, batch.number
    worker.finished(len(batch.outcomes), state.now)
    found: list[PartitionState] = []
    slot.forgotten = {job: number for job, number in slot.forgotten.items() if number > batch.forgotten}
    for outcome in batch.outcomes:
        if outcome.id.job in slot.forgotten:
            continue  # of a job that is over; another one has its id
        place, known = slot.handed.pop(outcome.id, None), state.find(outcome.id)
        if place is None or (known is not None and known[1].stage in OVER):
            known = None  # it was asked back or lost, or the barrier failed it meanwhile
        if place is not None:
            state.queue.begun(place)
        ended_well = len(outcome.intervals) - (outcome.error is not None)
        for i, (who, stage, started, ended, span) in enumerate(outcome.intervals):
            if i < ended_well:  # a step that failed may have hung, and says nothing of how long such steps take
                key.watch.took(stage, ended - started)
            if stage in ("prove", "commit"):
                worker.computes(started, ended)
            if known is not None:
                _record(*known, who, stage, ended - started, span)
        if known is None:
            continue
        job, partition = known
        if partition.made_of and outcome.kind is WorkKind.PROVE and _is_withdrawn(state, job, partition, outcome):
            continue
        if outcome.error is not None:
            _failed(state, job, partition, worker, outcome, outcome.error)
        elif _succeeded(state, job, partition, worker, outcome):
            found.append(partition)
    if found:
        proofs = [(partition.id, partition.proof) for partition in found if partition.proof is not None]
        busy = any(key.id in each.slots and each.slots[key.id].handed for each in state.workers.values())
        last = not busy and all(job.ends(Stage.VERIFYING) for job in key.jobs.values())
        state.emit(e.Verify(key.id, worker.id, proofs, last))
    for id in batch.returned:
        known = state.find(id)
        if id.job in slot.forgotten or slot.handed.pop(id, None) is None:
            continue
        if known is not None and known[1].stage not in OVER:
            state.apply(*known, Fact.RETURNED)
    slot.asked_back = slot.asked_back and not (batch.returned or batch.outcomes)
    _synthesisers(state, key, worker, batch)
    slot.under_way = [
        begun for begun in batch.under_way if begun.id in slot.handed and begun.id.job not in slot.forgotten
    ]
    if slot.ready:
        key.watch.heard(worker.id, slot.under_way)
    for id, stage, _ in slot.under_way:
        known = state.find(id)
        if known is not None and known[1].stage in MOVING and known[1].stage.value != stage:
            known[0].move(known[1], Stage(stage))
            state.moved[id.job] = known[0]


def _synthesisers(state: State, key: Key, worker: Worker, batch: Batch) -> None:
    """Synthesisers that died and came back, or did not."""
    for name, loaded in batch.loaded:
        for job in list(state.users(worker, key.id)):
            _note_ready(state, job, worker, name, loaded)
    for name, error in batch.lost:
        why = str(error) if isinstance(error, WorkerDied) else public_message(error)
        reason = worker.slot(key.id).lost[name] = f"could not load its program: {why}"
        for job in list(state.users(worker, key.id)):
            faults.give_up_synthesiser(state, job, worker, name, reason)
    faults.restart_if_idle(state, worker, key.id)


def _succeeded(state: State, job: Job, partition: PartitionState, worker: Worker, outcome: Outcome) -> bool:
    """An order was carried out; whether there is a proof to verify."""
    report = partition.report
    made = next((each for each in outcome.intervals if each.stage == "synthesise"), None)
    if made is not None:
        standing = worker.health.known(job.id, made.worker)
        if standing is not None:
            standing.strikes = 0
        job.workers[made.worker].partitions += 1
        report.synthesise_seconds = made.ended - made.started
    report.witness_bytes = outcome.witness_bytes
    if outcome.kind is WorkKind.COMMIT:
        report.commit_seconds = outcome.intervals[-1].ended - outcome.intervals[-1].started
        _committed(state, job, partition, worker, outcome.value)
        return False
    if outcome.kind is WorkKind.DIAGNOSE:
        faults.bad_proof(state, job, partition, partition.suspicion)
        return False
    worker.proven += 1
    proof: PartitionProof = outcome.value
    partition.proof, partition.times = proof, outcome.times or StepTimes()
    report.prove_seconds = outcome.intervals[-1].ended - outcome.intervals[-1].started
    if (proof.name, proof.digest) != (partition.planned.name, partition.planned.digest):
        faults.bad_proof(state, job, partition, "the prover returned the proof of another partition")
    elif job.barrier is not None and not made_under(job.system, partition.planned, proof, job.barrier):
        faults.bad_proof(state, job, partition, "the proof was made under another commitment or challenge")
    elif not made_of(job.system, partition.planned, proof, partition.made_of):
        _bad_proof(state, job, partition, "the proof was made from other proofs than its children's")
    else:
        state.apply(job, partition, Fact.PROVEN)
        return True
    return False


def _is_withdrawn(state: State, job: Job, partition: PartitionState, outcome: Outcome) -> bool:
    """Whether an outcome does not count because of the partition's children, so that the partition waits again.

    That is so if a child has another proof now. It is so, too, if the partition failed before its children were
    verified. Then its next attempt waits until they are on disk."""
    if isinstance(outcome.error, WorkerDied):
        return False  # a synthesiser that died is loaded again
    unsure = outcome.error is not None and job.is_unsure(partition)
    partition.patient |= unsure
    back = unsure or job.is_stale(partition)
    if back:
        state.apply(job, partition, Fact.WITHDRAWN)
    return back


def _bad_proof(state: State, job: Job, partition: PartitionState, reason: str) -> None:
    """A proof is bad, for which its worker is to blame if the proofs that it was made of are known to be good."""
    if job.is_sure(partition):
        faults.bad_proof(state, job, partition, reason)
    else:
        partition.patient = True
        state.apply(job, partition, Fact.WITHDRAWN)


def _committed(state: State, job: Job, partition: PartitionState, worker: Worker, commitment: Any) -> None:
    if not isinstance(commitment, bytes):
        error = TypeError("a system with a barrier commits to bytes")
        faults.fault(state, job, partition, worker, worker.id, error)
    elif job.barrier is not None and job.barrier[0].get(partition.id.name) != commitment:
        faults.bad_proof(state, job, partition, "the commitment differs from the one before the barrier")
    else:
        partition.commitment = commitment
        state.apply(job, partition, Fact.COMMITTED)


def _failed(
    state: State, job: Job, partition: PartitionState, worker: Worker, outcome: Outcome, error: BaseException
) -> None:
    """An order failed, at the worker or at one of its synthesisers."""
    if isinstance(error, OutOfMemory):
        while keys.evict_oldest(state, state.keys[job.key]):
            pass  # the partition is tried again
        job.crowded |= len(state.keys) > 1
    if isinstance(error, (InputError, UsageError)):
        faults.refused(state, job, partition, worker, error)
    elif isinstance(error, WitnessGone):
        state.apply(job, partition, Fact.WITNESS_LOST, "its witness was lost")
    elif isinstance(error, WorkerDied) and outcome.worker != worker.id:
        faults.synthesiser_died(state, job, partition, worker, outcome.worker, str(error))
    elif outcome.kind is WorkKind.DIAGNOSE:
        faults.bad_proof(state, job, partition, partition.suspicion)  # nothing more can be found out
    else:
        faults.fault(state, job, partition, worker, outcome.worker, error)


# -- verdicts and proofs on disk --------------------------------------------------------------------------------------


def _verified(state: State, event: e.Verified) -> None:
    good: list[tuple[Job, PartitionState]] = []
    for verdict in event.verdicts:
        known = state.find(verdict.id)
        if known is None or known[1].stage is not Stage.VERIFYING or known[1].proof is not verdict.proof:
            continue  # its job is over, or the barrier failed it meanwhile
        job, partition = known
        outcome = "ok" if verdict.reason is None else "bad proof"
        name, began, took = verdict.id.name, job.session.began, verdict.ended - verdict.started
        span = span_json("driver", name, "verify", verdict.started, verdict.ended, outcome, began, {})
        _record(job, partition, "driver", "verify", took, span)
        partition.report.verify_seconds = took
        if verdict.reason is None:
            partition.holds = True
            good.append((job, partition))
        elif job.is_sure(partition):
            faults.suspect(state, job, partition, verdict.reason)
        else:
            _bad_proof(state, job, partition, verdict.reason)
    _keep(state, good)


def _keep(state: State, verified: Sequence[tuple[Job, PartitionState]]) -> None:
    """Have verified proofs put on disk, before anything else hears of them. A proof waits until its children's are
    on disk."""
    good: dict[str, Job] = {}
    proofs: list[tuple[PartitionId, PartitionProof]] = []
    waits = False
    for job, partition in verified:
        if not partition.holds or partition.proof is None or not job.is_sure(partition):
            continue  # one that it needs is on its way to the disk, or turned out to be bad
        partition.credit()
        state.apply(job, partition, Fact.HOLDS)
        faults.proven(state, job, partition)
        good[job.id] = job
        proofs.append((partition.id, partition.proof))
        waits |= any(each.holds for each in job.dependents.get(partition.id.name, ()))
    if proofs:
        state.emit(e.Keep(proofs, waits or any(job.ends(Stage.KEEPING) for job in good.values())))


def _kept(state: State, event: e.Kept) -> None:
    done: defaultdict[str, list[PartitionState]] = defaultdict(list)
    for id, proof in event.proofs:
        known = state.find(id)
        if known is not None and known[1].stage is Stage.KEEPING and known[1].proof is proof:
            done[id.job].append(known[1])
    verified: list[tuple[Job, PartitionState]] = []
    for name, partitions in done.items():
        job = state.jobs[name]
        for partition in partitions:
            assert partition.proof is not None
            report, worker = partition.report, partition.worker or ""
            report.status = "proved"
            job.proofs[report.name] = partition.proof
            job.workers[worker].partitions += 1
            state.apply(job, partition, Fact.KEPT)
            state.tell(job, "proved", partition, worker)
        state.emit(e.Proved(job.id, [partition.report for partition in partitions]))
        job.recent.append((state.time, len(partitions)))
        above = {each.id: each for partition in partitions for each in job.dependents.get(partition.id.name, ())}
        verified += [(job, each) for each in above.values() if each.stage is Stage.VERIFYING and each.holds]
    _keep(state, verified)


def _keep_failed(state: State, event: e.KeepFailed) -> None:
    for id, proof in event.proofs:
        known = state.find(id)
        if known is not None and known[1].proof is proof:
            state.end(known[0], event.error)


def _record(job: Job, partition: PartitionState, worker: str, stage: str, seconds: float, span: str) -> None:
    """Add a span, which lacks only the attempt, to the timeline."""
    attempt = partition.attempts[stage] = partition.attempts.get(stage, 0) + 1
    partition.report.attempts += stage == "prove"
    job.session.add(worker, seconds, with_attempt(span, attempt))


# -- time -------------------------------------------------------------------------------------------------------------


def _looked(state: State, event: e.Looked) -> None:
    state.grows = event.grows
    if len(event.remarks) != len(state.remarks):
        state.remarks = list(event.remarks)
        for job in list(state.jobs.values()):
            _tell_remarks(state, job)
    faults.look(state, event.queued)
    for job in state.jobs.values():
        if job.listens or job.stranded is not None:  # what these wait for may have come with time alone
            state.moved[job.id] = job


def _tell_remarks(state: State, job: Job) -> None:
    """Report what is new of devices that are not used."""
    for remark in state.remarks[job.remarked :]:
        job.remarked += 1
        job.report.set_aside.append(remark)
        state.note(job, "set-aside", reason=remark)
        state.tell(job, "set-aside", detail=remark)


HANDLERS: dict[type, Callable[[State, Any], None]] = {
    e.JobAdded: _job_added,
    e.JobStopped: _job_stopped,
    e.JobLeft: _job_left,
    e.BarrierStored: _barrier_stored,
    e.Joined: _joined,
    e.Left: _left,
    e.FleetLost: _fleet_lost,
    e.KeyOpened: _key_opened,
    e.KeyRefused: _key_refused,
    e.KeyClosed: _key_closed,
    e.KeyPutAway: _key_put_away,
    e.KeyLoaded: _key_loaded,
    e.LoadFailed: _load_failed,
    e.KeyChecked: _key_checked,
    e.News: _news,
    e.Died: _died,
    e.Verified: _verified,
    e.Kept: _kept,
    e.KeepFailed: _keep_failed,
    e.Looked: _looked,
}
