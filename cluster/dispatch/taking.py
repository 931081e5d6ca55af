"""Takes in what workers, verifiers and keepers of proofs report, and decides what follows for each partition."""

from __future__ import annotations

from typing import Any

from actors.inflight import Timed
from actors.messages import WitnessGone
from actors.processes import WorkerDied
from actors.spans import span_json, with_attempt
from actors.worker import Ask, Batch, Loaded, Outcome
from cluster.dispatch import handing, trouble
from cluster.dispatch.barrier import made_under
from cluster.dispatch.state import OVER, PartitionState, Stage, State, WorkerState
from cluster.executor.tasks import Finished, Kind, Verdict
from cluster.record.report import public_message
from cluster.record.timeline import Span
from distprove.errors import InputError
from distprove.system import StepTimes


def take(state: State, finished: Finished) -> None:
    """Take in what is over. Raises InputError when the key is at fault, ClusterError when Ray is lost, and what keeping
    a proof raised."""
    worker = state.workers.by_id[finished.worker] if finished.worker is not None else None
    if finished.kind is Kind.VERIFY:
        _verified(state, finished)
    elif finished.kind in (Kind.KEEP, Kind.LOST):
        if finished.error is not None:
            raise finished.error
        _kept(state, [state.partitions[name] for name in finished.value])
    elif worker is None or worker.retired:
        return
    elif finished.kind is Kind.LOAD:
        _loaded(state, worker, finished)
    elif finished.kind is Kind.CHECK:
        _key_checked(state, worker, finished)
    elif finished.error is not None:
        assert isinstance(finished.error, WorkerDied)
        trouble.died(state, worker, finished.error, blame=finished.blamed)
    else:
        _answered(state, worker, finished.value)


# -- workers that start -----------------------------------------------------------------------------------------


def _loaded(state: State, worker: WorkerState, finished: Finished) -> None:
    if worker.ready:
        return
    if finished.error is not None:
        _no_use(state, worker, finished, was_ready=False)
        return
    loaded: Loaded = finished.value
    for name, timed in loaded.synthesisers.items():
        _is_ready(state, state.workers.synthesisers[name], timed)
    _is_ready(state, worker, loaded.prover)
    worker.answered_for(0)
    state.watch.heard(worker.handle.id)
    state.tell.loading()
    handing.check_key(state)
    if state.key_checked:  # perhaps since it was asked to load
        state.executor.permit(worker.handle)


def _is_ready(state: State, worker: WorkerState, timed: Timed) -> None:
    report = worker.report
    if worker.retired:
        return
    worker.ready = True
    report.status = "ready"
    report.facts = timed.value
    report.load_seconds += timed.ended - timed.started
    state.session.spans.append(Span(report.id, None, "load", timed.started, timed.ended))
    state.run.note("worker-ready", sync=False, worker=report.id, device=timed.value.get("device"))
    state.tell("worker-ready", None, worker)


def _key_checked(state: State, worker: WorkerState, finished: Finished) -> None:
    if state.checker != worker.handle.id:
        return  # it died meanwhile, and another one was asked
    state.checker = None
    if finished.error is not None:
        _no_use(state, worker, finished)
        handing.check_key(state)
        return
    timed: Timed = finished.value
    state.key_checked = True
    state.session.spans.append(Span(worker.handle.id, None, "check", timed.started, timed.ended))
    seconds = round(timed.ended - timed.started, 6)
    state.run.note("key-checked", sync=False, worker=worker.handle.id, seconds=seconds)
    for other in state.workers.by_id.values():
        state.executor.permit(other.handle)


def _no_use(state: State, worker: WorkerState, finished: Finished, was_ready: bool = True) -> None:
    """A worker could not load or check the key."""
    error = finished.error
    assert error is not None
    if isinstance(error, InputError):
        raise error
    if isinstance(error, WorkerDied):
        trouble.died(state, worker, error, was_ready, blame=finished.blamed)
    else:
        trouble.retire(state, worker, f"could not {finished.kind.value} the key: {public_message(error)}")


# -- workers at work --------------------------------------------------------------------------------------------


def _answered(state: State, worker: WorkerState, batch: Batch) -> None:
    """A batch of a worker's outcomes, in the order in which they came about."""
    partitions = state.partitions
    worker.answered_for(len(batch.outcomes))
    proven: list[PartitionState] = []
    for outcome in batch.outcomes:
        partition = partitions[outcome.name]
        if outcome.name not in worker.handed or partition.stage in OVER:
            worker.handed.pop(outcome.name, None)  # the barrier failed it meanwhile
            continue
        del worker.handed[outcome.name]
        for stretch in outcome.stretches:
            state.watch.took(stretch.stage, stretch.ended - stretch.started)
            _record(state, partition, stretch.worker, stretch.stage, stretch.ended - stretch.started, stretch.span)
        if outcome.error is None:
            _succeeded(state, partition, worker, outcome, proven)
        else:
            _failed(state, partition, worker, outcome, outcome.error)
    if proven:
        proofs = [partition.proof for partition in proven if partition.proof is not None]
        state.executor.verify(proofs, worker.handle, last=partitions.ends(Stage.VERIFYING))
    for name in batch.returned:
        if name in worker.handed:
            del worker.handed[name]
            partitions[name].home = None
            partitions.move(partitions[name], Stage.WAITING)
    worker.asked_back = worker.asked_back and not (batch.returned or batch.outcomes)
    for name, loaded in batch.loaded:
        _is_ready(state, state.workers.synthesisers[name], loaded)
    for name, error in batch.lost:
        why = str(error) if isinstance(error, WorkerDied) else public_message(error)
        reason = f"could not load its program: {why}"
        trouble.retire_synthesiser(state, state.workers.synthesisers[name], reason)
    worker.under_way = [begun for begun in batch.under_way if begun[0] in worker.handed]
    if worker.ready:
        state.watch.heard(worker.handle.id, worker.under_way)
    for name, stage, _ in worker.under_way:
        partition = partitions[name]
        if partition.stage is not Stage.DIAGNOSING and partition.stage.value != stage:
            partitions.move(partition, Stage(stage))


def _succeeded(
    state: State, partition: PartitionState, worker: WorkerState, outcome: Outcome, proven: list[PartitionState]
) -> None:
    """An order was carried out; a proof that is to be verified is added to `proven`."""
    barrier = state.barrier
    made = next((s for s in outcome.stretches if s.stage == "synthesise"), None)
    if made is not None:
        synthesiser = state.workers.synthesisers[made.worker]
        synthesiser.strikes = 0
        synthesiser.report.partitions += 1
        partition.report.synthesise_seconds = made.ended - made.started
    partition.report.witness_bytes = outcome.witness_bytes
    if outcome.ask is Ask.COMMIT:
        partition.report.commit_seconds = outcome.stretches[-1].ended - outcome.stretches[-1].started
        _committed(state, partition, worker, outcome.value)
    elif outcome.ask is Ask.DIAGNOSE:
        trouble.bad_proof(state, partition, partition.suspicion)
    else:
        partition.proof, partition.times = outcome.value, outcome.times or StepTimes()
        partition.report.prove_seconds = outcome.stretches[-1].ended - outcome.stretches[-1].started
        assert partition.proof is not None
        if (partition.proof.name, partition.proof.digest) != (partition.planned.name, partition.planned.digest):
            trouble.bad_proof(state, partition, "the prover returned the proof of another partition")
        elif barrier is not None and not made_under(state.system, partition.proof, barrier):
            trouble.bad_proof(state, partition, "the proof was made under another commitment or challenge")
        else:
            state.partitions.move(partition, Stage.VERIFYING)
            proven.append(partition)


def _committed(state: State, partition: PartitionState, worker: WorkerState, commitment: Any) -> None:
    barrier = state.barrier
    if not isinstance(commitment, bytes):
        trouble.fault(state, partition, worker, TypeError("a system with a barrier commits to bytes"))
    elif barrier is not None and barrier[0].get(partition.planned.name) != commitment:
        trouble.bad_proof(state, partition, "the commitment differs from the one before the barrier")
    else:
        partition.commitment = commitment
        state.partitions.move(partition, Stage.COMMITTED)


def _failed(
    state: State, partition: PartitionState, worker: WorkerState, outcome: Outcome, error: BaseException
) -> None:
    """An order came to nothing, at the worker or at one of its synthesisers."""
    synthesiser = state.workers.synthesisers.get(outcome.worker)
    if isinstance(error, InputError):
        trouble.refused(state, partition, worker, error)
    elif isinstance(error, WitnessGone):
        state.report.counters.lost_witnesses += 1
        trouble.again(state, partition, "its witness was lost")
    elif isinstance(error, WorkerDied) and synthesiser is not None:
        trouble.synthesiser_died(state, synthesiser, partition, str(error))
    elif outcome.ask is Ask.DIAGNOSE:
        trouble.bad_proof(state, partition, partition.suspicion)  # nothing more could be found out
    else:
        trouble.fault(state, partition, synthesiser or worker, error)


# -- verdicts and proofs on disk --------------------------------------------------------------------------------


def _verified(state: State, finished: Finished) -> None:
    """Verdicts on proofs; one that could not be come to is one that is not good."""
    verdicts: list[Verdict] = finished.value
    if finished.error is not None:
        reason = public_message(finished.error)
        verdicts = [Verdict(proof.name, reason, finished.started, finished.ended) for proof in finished.value]
    good: list[PartitionState] = []
    for verdict in verdicts:
        partition = state.partitions[verdict.name]
        if partition.stage is not Stage.VERIFYING:
            continue  # the barrier failed it meanwhile
        outcome = "ok" if verdict.reason is None else "bad proof"
        name, began, took = verdict.name, state.session.began, verdict.ended - verdict.started
        span = span_json("driver", name, "verify", verdict.started, verdict.ended, outcome, began, {})
        _record(state, partition, "driver", "verify", took, span)
        partition.report.verify_seconds = took
        if verdict.reason is None:
            partition.credit()
            state.partitions.move(partition, Stage.KEEPING)
            trouble.taken(state, partition)
            good.append(partition)
        else:
            trouble.suspect(state, partition, verdict.reason)
    if good:  # to disk, before anything else hears of it
        proofs = [partition.proof for partition in good if partition.proof is not None]
        state.executor.keep(proofs, state.run.store, last=state.partitions.ends(Stage.KEEPING))


def _kept(state: State, partitions: list[PartitionState]) -> None:
    """Note partitions as done: their proofs are verified and on disk."""
    facts = []
    for partition in partitions:
        assert partition.proof is not None
        assert partition.home is not None
        report, worker = partition.report, state.workers.by_id[partition.home]
        report.status = "proved"
        state.proofs[report.name] = partition.proof
        worker.report.partitions += 1
        state.partitions.move(partition, Stage.DONE)
        facts.append(report.proved_json())
        state.tell("proved", partition, worker)
    state.run.note_all("proved", facts, sync=False)  # the proofs themselves are
    state.tell.done(len(partitions))


def _record(state: State, partition: PartitionState, worker: str, stage: str, seconds: float, span: str) -> None:
    """A span of the timeline, which lacks only the attempt."""
    attempt = partition.attempts[stage] = partition.attempts.get(stage, 0) + 1
    partition.report.attempts += stage == "prove"
    state.session.add(partition.planned.name, worker, seconds, with_attempt(span, attempt))
