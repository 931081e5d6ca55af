"""Taking in: what workers, verifiers and keepers of proofs report, and what follows from it for each partition."""

from __future__ import annotations

from typing import Any

from actors.inflight import Timed
from actors.process import WitnessGone
from actors.processes import WorkerDied
from actors.spans import quoted, span_json, with_attempt
from actors.worker import Ask, Batch, Loaded, Outcome
from cluster.dispatch import handing, trouble
from cluster.dispatch.barrier import made_under
from cluster.dispatch.members import Member
from cluster.dispatch.partitions import OVER, Item, Stage
from cluster.dispatch.state import State
from cluster.executor.tasks import Finished, Kind, Verdict
from cluster.record.report import public_message
from cluster.record.timeline import Span
from distprove.errors import InputError
from distprove.system import StepTimes


def take(state: State, finished: Finished) -> None:
    """Something is over. Raises InputError when the key is at fault, and what keeping a proof raised."""
    member = state.members.provers[finished.worker] if finished.worker is not None else None
    if finished.kind is Kind.VERIFY:
        _verified(state, finished)
    elif finished.kind is Kind.KEEP:
        if finished.error is not None:
            raise finished.error
        _kept(state, [state.items[name] for name in finished.value])
    elif member is None or member.retired:
        return
    elif finished.kind is Kind.LOAD:
        _loaded(state, member, finished)
    elif finished.kind is Kind.CHECK:
        _key_checked(state, member, finished)
    elif finished.error is not None:
        trouble.died(state, member, str(finished.error))
    else:
        _answered(state, member, finished.value)


# -- workers that start -----------------------------------------------------------------------------------------


def _loaded(state: State, member: Member, finished: Finished) -> None:
    if member.ready:
        return
    if finished.error is not None:
        _no_use(state, member, finished.error, "load", was_ready=False)
        return
    loaded: Loaded = finished.value
    for name, timed in loaded.synthesisers.items():
        _is_ready(state, state.members.makers[name], timed)
    _is_ready(state, member, loaded.prover)
    member.answered_for(0)
    state.watch.heard(member.worker.id)
    state.tell.loading()
    handing.check_key(state)
    if state.key_checked:  # perhaps since it was asked to load
        state.executor.permit(member.worker)


def _is_ready(state: State, member: Member, timed: Timed) -> None:
    report = member.report
    if member.retired:
        return
    member.ready = True
    report.status = "ready"
    report.facts = timed.value
    report.load_seconds += timed.ended - timed.started
    state.session.spans.append(Span(report.id, None, "load", timed.started, timed.ended))
    state.run.note("worker-ready", sync=False, worker=report.id, device=timed.value.get("device"))
    state.tell("worker-ready", None, member)


def _key_checked(state: State, member: Member, finished: Finished) -> None:
    if state.checker != member.worker.id:
        return  # it died meanwhile, and another one was asked
    state.checker = None
    if finished.error is not None:
        _no_use(state, member, finished.error, "check")
        handing.check_key(state)
        return
    timed: Timed = finished.value
    state.key_checked = True
    state.session.spans.append(Span(member.worker.id, None, "check", timed.started, timed.ended))
    seconds = round(timed.ended - timed.started, 6)
    state.run.note("key-checked", sync=False, worker=member.worker.id, seconds=seconds)
    for other in state.members.provers.values():
        state.executor.permit(other.worker)


def _no_use(state: State, member: Member, error: BaseException, what: str, was_ready: bool = True) -> None:
    """A worker could not load or check the key."""
    if isinstance(error, InputError):
        raise error
    if isinstance(error, WorkerDied):
        trouble.died(state, member, str(error), was_ready)
    else:
        trouble.retire(state, member, f"could not {what} the key: {public_message(error)}")


# -- workers at work --------------------------------------------------------------------------------------------


def _answered(state: State, member: Member, batch: Batch) -> None:
    """A batch of a worker's outcomes, in the order in which they came about."""
    items = state.items
    member.answered_for(len(batch.outcomes))
    proven: list[Item] = []
    for outcome in batch.outcomes:
        item = items[outcome.name]
        if outcome.name not in member.tasks or item.stage in OVER:
            member.tasks.pop(outcome.name, None)  # the barrier failed it meanwhile
            continue
        del member.tasks[outcome.name]
        for stretch in outcome.stretches:
            state.watch.took(stretch.stage, stretch.ended - stretch.started)
            _record(state, item, stretch.worker, stretch.stage, stretch.ended - stretch.started, stretch.span)
        if outcome.error is None:
            _succeeded(state, item, member, outcome, proven)
        else:
            _failed(state, item, member, outcome, outcome.error)
    if proven:
        proofs = [item.proof for item in proven if item.proof is not None]
        state.executor.verify(proofs, member.worker, last=items.proven)
    for name in batch.returned:
        if name in member.tasks:
            del member.tasks[name]
            items[name].home = None
            items.move(items[name], Stage.WAITING)
    member.asked_back = member.asked_back and not (batch.returned or batch.outcomes)
    for name, loaded in batch.loaded:
        _is_ready(state, state.members.makers[name], loaded)
    for name, error in batch.lost:
        reason = f"could not load its program: {public_message(error)}"
        trouble.retire_maker(state, state.members.makers[name], reason)
    member.under_way = [begun for begun in batch.under_way if begun[0] in member.tasks]
    if member.ready:
        state.watch.heard(member.worker.id, member.under_way)
    for name, stage, _ in member.under_way:
        item = items[name]
        if item.stage is not Stage.DIAGNOSING and item.stage.value != stage:
            items.move(item, Stage(stage))


def _succeeded(state: State, item: Item, member: Member, outcome: Outcome, proven: list[Item]) -> None:
    """An order was carried out; a proof that is to be verified is added to `proven`."""
    barrier = state.barrier
    made = next((s for s in outcome.stretches if s.stage == "synthesise"), None)
    if made is not None:
        maker = state.members.makers[made.worker]
        maker.strikes = 0
        maker.report.partitions += 1
        item.report.synthesise_seconds = made.ended - made.started
    item.report.witness_bytes = outcome.witness_bytes
    if outcome.ask is Ask.COMMIT:
        _committed(state, item, member, outcome.value)
    elif outcome.ask is Ask.DIAGNOSE:
        trouble.bad_proof(state, item, item.suspicion)
    else:
        item.proof, item.times = outcome.value, outcome.times or StepTimes()
        item.report.prove_seconds = outcome.stretches[-1].ended - outcome.stretches[-1].started
        assert item.proof is not None
        if (item.proof.name, item.proof.digest) != (item.partition.name, item.partition.digest):
            trouble.bad_proof(state, item, "the prover returned the proof of another partition")
        elif barrier is not None and not made_under(state.system, item.proof, barrier):
            trouble.bad_proof(state, item, "the proof was made under another commitment or challenge")
        else:
            state.items.move(item, Stage.VERIFYING)
            proven.append(item)


def _committed(state: State, item: Item, member: Member, commitment: Any) -> None:
    barrier = state.barrier
    if not isinstance(commitment, bytes):
        trouble.fault(state, item, member, TypeError("a system with a barrier commits to bytes"))
    elif barrier is not None and barrier[0].get(item.partition.name) != commitment:
        trouble.bad_proof(state, item, "the commitment differs from the one before the barrier")
    else:
        item.commitment = commitment
        state.items.move(item, Stage.COMMITTED)


def _failed(state: State, item: Item, member: Member, outcome: Outcome, error: BaseException) -> None:
    """An order came to nothing, at the prover or at one of its synthesisers."""
    maker = state.members.makers.get(outcome.worker)
    if isinstance(error, InputError):
        trouble.refused(state, item, member, error)
    elif isinstance(error, WitnessGone):
        state.report.counters.lost_witnesses += 1
        trouble.again(state, item, "its witness was lost")
    elif isinstance(error, WorkerDied) and maker is not None:
        trouble.maker_died(state, maker, item, str(error))
    elif outcome.ask is Ask.DIAGNOSE:
        trouble.bad_proof(state, item, item.suspicion)  # nothing more could be found out
    else:
        trouble.fault(state, item, maker or member, error)


# -- verdicts and proofs on disk --------------------------------------------------------------------------------


def _verified(state: State, finished: Finished) -> None:
    """Verdicts on proofs; one that could not be come to is one that is not good."""
    verdicts: list[Verdict] = finished.value
    if finished.error is not None:
        reason = public_message(finished.error)
        verdicts = [Verdict(proof.name, reason, finished.started, finished.ended) for proof in finished.value]
    good: list[Item] = []
    for verdict in verdicts:
        item = state.items[verdict.name]
        if item.stage is not Stage.VERIFYING:
            continue  # the barrier failed it meanwhile
        outcome = "ok" if verdict.reason is None else "bad proof"
        name, began, took = verdict.name, state.session.began, verdict.ended - verdict.started
        span = span_json("driver", name, "verify", verdict.started, verdict.ended, outcome, began, {})
        _record(state, item, "driver", "verify", took, span)
        item.report.verify_seconds = took
        if verdict.reason is None:
            state.members.provers[item.home or ""].strikes = 0
            trouble.taken(state, item)
            state.items.move(item, Stage.KEEPING)
            good.append(item)
        else:
            trouble.suspect(state, item, verdict.reason)
    if good:  # to disk, before anything else hears of it
        proofs = [item.proof for item in good if item.proof is not None]
        state.executor.keep(proofs, state.run.store, last=state.items.proven)


def _kept(state: State, items: list[Item]) -> None:
    """Verified, and on disk."""
    facts = []
    for item in items:
        assert item.proof is not None
        assert item.home is not None
        report, member = item.report, state.members.provers[item.home]
        report.status, report.worker, report.phases = "proved", item.home, dict(item.times.seconds)
        report.to_device, report.to_host = item.times.to_device, item.times.to_host
        report.memory, report.device_peak = item.times.memory, item.times.device_peak
        state.proofs[report.name] = item.proof
        member.report.partitions += 1
        state.items.move(item, Stage.DONE)
        facts.append(  # as JSON, by hand: `json` takes five times as long
            f'{{"partition":{quoted(report.name)},"worker":{quoted(item.home)},'
            f'"synthesise_seconds":{report.synthesise_seconds:.6f},"prove_seconds":{report.prove_seconds:.6f},'
            f'"verify_seconds":{report.verify_seconds:.6f},'
            f'"to_device":{report.to_device},"to_host":{report.to_host}}}'
        )
        state.tell("proved", item, member)
    state.run.note_all("proved", facts, sync=False)  # the proofs themselves are
    state.tell.done(len(items))


def _record(state: State, item: Item, worker: str, stage: str, seconds: float, span: str) -> None:
    """A span of the timeline, which lacks only the attempt."""
    attempt = item.attempts[stage] = item.attempts.get(stage, 0) + 1
    item.report.attempts += stage == "prove"
    state.session.add(worker, seconds, with_attempt(span, attempt))
