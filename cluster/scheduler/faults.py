"""What follows when something fails: bad proofs and faults, workers that die or hang, and who is given up.

The rules themselves are in `rules`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from actors.protocol import WorkerDied, WorkerStuck
from cluster.record.report import public_message
from cluster.scheduler import assign
from cluster.scheduler.events import Dismiss, Interrupt, Remember, Retire
from cluster.scheduler.jobs import Job, PartitionState
from cluster.scheduler.rules import (
    MADE_UP,
    MAX_DEATHS,
    MAX_GIVEN_UP,
    MAX_HANGS,
    MAX_STRIKES,
    OVER,
    RULES,
    SAFE,
    Fact,
    Stage,
)
from cluster.scheduler.state import State
from cluster.scheduler.workers import Slot, SlotStage, Worker
from distprove.errors import ClusterError, DistproveError, ResourceError
from distprove.system import PartitionId
from kernels.errors import OutOfMemory
from kernels.host.units import count_of

# -- partitions -------------------------------------------------------------------------------------------------------


def suspect(state: State, job: Job, partition: PartitionState, reason: str) -> None:
    """A proof does not verify: its worker checks whether the witness is to blame."""
    worker = state.workers[partition.worker or ""]
    partition.suspicion = reason
    if worker.usable(job.id, job.key):
        assign.diagnose(state, job, partition, worker)
    else:
        bad_proof(state, job, partition, reason)


def bad_proof(state: State, job: Job, partition: PartitionState, reason: str) -> None:
    """A proof or commitment is bad, and its witness is not known to be to blame."""
    worker = state.workers[partition.worker or ""]
    job.workers[worker.id].bad_proofs += 1
    partition.report.bad_proofs += 1
    fail(state, job, partition, Fact.BAD_PROOF, worker, worker.id, reason)


def fault(state: State, job: Job, partition: PartitionState, worker: Worker, who: str, error: BaseException) -> None:
    """A prover or synthesiser failed at a partition, and its input is not to blame."""
    full = isinstance(error, OutOfMemory)
    if full and who == worker.id and _fits_nowhere(state, job, partition, worker):
        state.fail(job, partition, f"it fits no device here: {error}", OutOfMemory.__name__)
        return
    job.workers[who].faults += 1
    fail(state, job, partition, Fact.DEVICE_FULL if full else Fact.FAULT, worker, who, public_message(error))


def fail(state: State, job: Job, partition: PartitionState, fact: Fact, worker: Worker, who: str, reason: str) -> None:
    """A prover or synthesiser `who` failed at a partition: try it again elsewhere, and count the failure."""
    proves = who == worker.id
    if proves:
        partition.avoid.add(who)
    state.note(job, RULES[fact].event, partition=partition.id.name, worker=who, reason=reason)
    state.apply(job, partition, fact, reason)
    if RULES[fact].strike:
        if proves:
            worker.health.of(job.id, who).failed_at.add(partition.id)
        reason = f"{MAX_STRIKES} bad proofs or faults in a row, the last: {reason}"
        strike(state, job, worker, who, reason, partition)


def refused(state: State, job: Job, partition: PartitionState, worker: Worker, error: DistproveError) -> None:
    """A node refuses an input, or what a program makes of it: another node is asked, since the first may lack the file.
    The partition fails once two agree, or no other is there."""
    node, kind = worker.node, type(error).__name__
    agreed = kind in partition.refused.values()
    partition.refused[node] = kind
    others = {other.node for other in state.live(job)} - partition.refused.keys()
    if agreed or not others:
        source = partition.planned.source.get("path")
        gone = isinstance(source, str) and not os.path.lexists(source)  # it was there when the job began
        state.fail(job, partition, str(error), ResourceError.__name__ if gone else kind)
        return
    partition.avoid |= {other.id for other in state.workers.values() if other.node == node}
    state.note(job, RULES[Fact.REFUSED].event, partition=partition.id.name, worker=worker.id, reason=str(error))
    state.apply(job, partition, Fact.REFUSED, "its input was refused")


def synthesiser_died(state: State, job: Job, partition: PartitionState, worker: Worker, who: str, why: str) -> None:
    """A synthesiser died at a partition; its worker loads it again."""
    _note_death(state, job, who, why)
    if job.is_unsure(partition):
        partition.patient = True
        state.apply(job, partition, Fact.WITHDRAWN)
        return
    state.apply(job, partition, Fact.SYNTHESISER_DIED, "its worker died")
    strike(state, job, worker, who, f"died {MAX_STRIKES} times in a row, the last: {why}")


def proven(state: State, job: Job, partition: PartitionState) -> None:
    """A proof holds. The workers that failed at the partition are to blame, and nodes that refused its input do not
    have it: these are given up after some in a row."""
    prover = state.workers[partition.worker or ""]
    prover.health.good()
    standing = prover.health.known(job.id, prover.id)
    if standing is not None:
        standing.strikes, standing.blame = 0, max(0.0, standing.blame - MADE_UP)
    for name in partition.failed_on:
        if name != prover.id:
            _blame(state, job, state.workers[name], partition)
    if partition.refused or job.refusals:
        job.refusals[prover.node] = 0
        for node, kind in partition.refused.items():
            _refusal(state, job, partition, node, kind)
    if job.suspects:
        _quarantine(state, job)


def _fits_nowhere(state: State, job: Job, partition: PartitionState, worker: Worker) -> bool:
    """Whether a partition was too large for every kind of device, and not by chance: twice."""
    partition.too_large.append(str(worker.facts.get("device")))
    kinds = {str(other.facts.get("device")) for other in state.live(job) if other.slot(job.key).ready}
    return len(partition.too_large) > 1 and kinds <= set(partition.too_large)


# -- workers ----------------------------------------------------------------------------------------------------------


def strike(
    state: State, job: Job, worker: Worker, who: str, reason: str, partition: PartitionState | None = None
) -> None:
    """Count a failure of a prover or synthesiser; of a prover only where no other one failed at the partition."""
    if partition is not None and who == worker.id:
        others = set(partition.failed_on) - {who}
        partition.failed_on.append(who)
        if others:
            return
    standing = worker.health.of(job.id, who)
    standing.strikes += 1
    if standing.strikes >= MAX_STRIKES:
        give_up(state, job, worker, who, reason)


def died(state: State, worker: Worker, key: str, epoch: int, error: WorkerDied) -> None:
    """The process of a worker ended; it is loaded again. Its orders go back; the partition that it computed is charged,
    if that is known. Each key slot reports the death, perhaps when others have the key again from a new process: the
    first report is for all slots that are of the same process. One that loads reports for itself, and is not counted
    as another death."""
    slot = worker.slots.get(key)
    if slot is None or slot.epoch != epoch or worker.health.lost is not None:
        return
    loaded_it, health = slot.stage is SlotStage.LOADING, worker.health
    dead = {
        id: each
        for id, each in worker.slots.items()
        if each is slot or (each.ready and (loaded_it or each.life == slot.life))
    }
    restarted, counted = health.restarted or slot.excused, loaded_it and slot.shares_death
    at = None if restarted else _at(state, worker, error)
    health.restarted = False
    health.deaths += not counted
    if loaded_it:
        worker.loading = None
    elif worker.loading is not None:
        worker.slots[worker.loading].shares_death = True
        worker.slots[worker.loading].excused |= restarted
    jobs = [job for job in state.users(worker) if job.key in dead]
    for job in _by_reports(jobs):
        _note_death(state, job, worker.id, str(error))
    taken = [(state.find(id), id) for each in dead.values() for id in each.handed]
    committed = [(job, partition) for job in jobs for partition in _committed(job, worker)]
    for id, each in dead.items():
        if id in state.keys:
            state.keys[id].watch.forget(worker.id)
            if state.keys[id].checker == worker.id:
                state.keys[id].checker = None
        empty(each)
    unsure = False
    for found, _ in taken:
        if found is None:
            continue
        job, partition = found
        here = partition.id == at
        if here and job.is_unsure(partition):
            unsure = partition.patient = True
        _back(state, job, partition, "its worker died", charged=here and not unsure)
    for job, partition in committed:
        _back(state, job, partition, "its worker died", charged=False)
    blamed = None if restarted or (state.standing and not loaded_it) else key
    if not unsure or isinstance(error, WorkerStuck):
        _judge_death(state, worker, at, error, blamed)
    if health.deaths >= MAX_DEATHS and state.standing:
        lose(state, worker, f"it died {MAX_DEATHS} times in a row")
    for resident in list(state.keys.values()):
        state.check_key(resident)
    state.must_load = True


def _judge_death(state: State, worker: Worker, at: PartitionId | None, error: WorkerDied, key: str | None) -> None:
    """Count a death against a worker: in the job at whose partition it died, or in those whose `key` it loaded."""
    found = state.find(at) if at is not None else None
    if isinstance(error, WorkerStuck):
        if found is not None:
            worker.health.of(found[0].id, worker.id).failed_at.add(found[1].id)
        for job in list(state.users(worker)):
            give_up(state, job, worker, worker.id, str(error))
        return
    reason = f"died {MAX_STRIKES} times in a row, the last: {error}"
    if found is not None:
        job, partition = found
        partition.avoid.add(worker.id)
        strike(state, job, worker, worker.id, reason, partition)
    elif at is None and key is not None:
        for job in list(state.users(worker, key)):
            strike(state, job, worker, worker.id, reason)


def _at(state: State, worker: Worker, error: WorkerDied) -> PartitionId | None:
    """The partition that a process computed at its end, as far as is known. It left word, perhaps of an order that it
    had just finished; or it served one job alone, and loaded no key."""
    if error.at is not None:
        known = state.find(error.at)
        if known is None:
            return error.at
        slot = worker.slot(known[0].key)
        return error.at if error.at in slot.handed else slot.at_work_on(error.at.job)
    return None if worker.loading is not None else _only_job(worker)


def _only_job(worker: Worker) -> PartitionId | None:
    """The partition that a process computed which did not leave word of it: known where it served one job alone."""
    busy = [slot for slot in worker.slots.values() if slot.handed]
    jobs = {id.job for slot in busy for id in slot.handed}
    return busy[0].at_work_on() if len(busy) == 1 and len(jobs) == 1 else None


def give_up(state: State, job: Job, worker: Worker, who: str, reason: str) -> None:
    """A job gives up a worker whose device may be at fault, or one of its synthesisers."""
    if who != worker.id:
        give_up_synthesiser(state, job, worker, who, reason)
    elif worker.serves(job.id):
        retire(state, job, worker, reason)
        if worker.facts.get("uuid"):
            job.suspects.append(worker)
            _quarantine(state, job)


def retire(state: State, job: Job, worker: Worker, reason: str) -> None:
    """A job gives up a worker. One that several jobs in a row gave up is given up for all; without other jobs at
    once."""
    if not worker.serves(job.id):
        return
    was_ready = worker.slot(job.key).ready
    _leave(state, job, worker, reason)
    if not state.standing:
        lose(state, worker, reason)
    elif was_ready:
        worker.health.given_up += 1
        if worker.health.given_up >= MAX_GIVEN_UP:
            lose(state, worker, f"{count_of(worker.health.given_up, 'job')} in a row gave it up")
        elif worker.health.given_up == MAX_GIVEN_UP - 1:
            worker.health.restarted = True
            state.emit(Interrupt(worker.id, job.key, worker.id))


def lose(state: State, worker: Worker, reason: str) -> None:
    """Give up a worker for all jobs."""
    if worker.health.lost is not None:
        return
    for job in list(state.users(worker)):
        _leave(state, job, worker, reason)
    worker.health.lost, worker.loading = reason, None
    for id, slot in worker.slots.items():
        empty(slot)
        if id in state.keys and state.keys[id].checker == worker.id:
            state.keys[id].checker = None
    state.must_load = True  # it may have been loading what others wait for
    state.emit(Retire(worker.id))
    for key in list(state.keys.values()):
        state.check_key(key)


def _leave(state: State, job: Job, worker: Worker, reason: str) -> None:
    """A job does without a worker and its synthesisers from here on: what they have of it goes to others."""
    worker.health.of(job.id, worker.id).given_up = True
    state.see_all = True
    job.add_worker(worker)
    _note_retired(state, job, worker.id, reason)
    for name in worker.handle.synthesisers:
        if job.workers[name].status != "retired":
            job.workers[name].status, job.workers[name].reason = "retired", "its prover was retired"
    slot, back = worker.slot(job.key), _committed(job, worker)
    for id in [id for id in slot.handed if id.job == job.id]:
        del slot.handed[id]
        back.append(job.partitions[id.name])
    slot.under_way = [each for each in slot.under_way if each.id.job != job.id]
    for partition in back:
        _back(state, job, partition, "its worker was retired", charged=False)
    state.forget(worker, job)


def give_up_synthesiser(state: State, job: Job, worker: Worker, who: str, reason: str) -> None:
    """A job gives up a synthesiser, and with the last one its worker."""
    standing = worker.health.of(job.id, who)
    if standing.given_up:
        return
    standing.given_up = True
    _note_retired(state, job, who, reason)
    if not state.standing:
        state.emit(Dismiss(worker.id, job.key, who))
    if not worker.synthesisers_of(job.id):
        retire(state, job, worker, f"it has no synthesiser left ({reason})")


def restart_if_idle(state: State, worker: Worker, key: str) -> None:
    """End the process of a worker that lost all synthesisers of a key, so that jobs to come find it whole."""
    slot = worker.slot(key)
    if slot.ready and worker.health.lost is None and slot.lost.keys() >= {*worker.handle.synthesisers}:
        worker.health.restarted = True
        state.emit(Interrupt(worker.id, key, worker.id))


def _blame(state: State, job: Job, worker: Worker, partition: PartitionState) -> None:
    """Count a failure of a worker at a partition that another one proved."""
    standing = worker.health.of(job.id, worker.id)
    standing.blame += 1
    if standing.blame >= MAX_STRIKES and len(state.live(job)) > 1:
        name = partition.id.name
        give_up(
            state, job, worker, worker.id, f"it fails again and again, the last time at {name}, which another proved"
        )


def _refusal(state: State, job: Job, partition: PartitionState, node: str, kind: str) -> None:
    """Count an input that a node refused and another one took."""
    job.refusals[node] += 1
    if job.refusals[node] >= MAX_STRIKES:
        reason = f"{MAX_STRIKES} inputs in a row were refused there and taken on another node, the last: {kind}"
        for worker in state.live(job):
            if worker.node == node:
                retire(state, job, worker, f"{reason} for {partition.id.name}")


def _quarantine(state: State, job: Job) -> None:
    """Quarantine devices that the job gave up, once another device proved what they failed at: before that the
    partition may be to blame. CPUs have no UUID, and are never quarantined."""
    for worker in list(job.suspects):
        device = worker.facts["uuid"]
        failed_at = worker.health.of(job.id, worker.id).failed_at
        proven_by = [
            state.workers[partition.worker]
            for partition in (job.partitions[id.name] for id in failed_at)
            if partition.stage in (Stage.KEEPING, Stage.DONE) and partition.worker is not None
        ]
        if any(other.facts.get("uuid") != device for other in proven_by):
            job.suspects.remove(worker)
            reason = job.workers[worker.id].reason or ""
            state.emit(Remember(worker.id, device, reason))
            state.note_worker(job, "set-aside", worker.id, f"{device} is not used by later jobs: {reason}")
            lose(state, worker, f"its device was given up: {reason}")


def _committed(job: Job, worker: Worker) -> list[PartitionState]:
    return [partition for partition in job.at[Stage.COMMITTED].values() if partition.worker == worker.id]


def _back(state: State, job: Job, partition: PartitionState, reason: str, *, charged: bool) -> None:
    """Take back a partition whose worker is gone, with its witness and what it committed to."""
    if partition.worker is None or partition.stage in OVER:
        return  # it went back with its job's giving up the worker
    if partition.stage is Stage.DIAGNOSING:
        bad_proof(state, job, partition, partition.suspicion)  # nothing more can be found out
    else:
        partition.report.attempts += partition.stage is Stage.PROVING
        state.apply(job, partition, Fact.WORKER_DIED_AT if charged else Fact.WORKER_GONE, reason)


def empty(slot: Slot) -> None:
    slot.stage, slot.epoch, slot.loaded = SlotStage.ABSENT, 0, None
    slot.handed, slot.under_way, slot.asked_back, slot.late, slot.lost = {}, [], False, False, {}
    slot.shares_death = slot.excused = False


def _by_reports(jobs: Iterable[Job]) -> Iterable[Job]:
    """One of each group of jobs that share their reports, as the short jobs of a service do, and all others."""
    return {id(job.workers): job for job in jobs}.values()


def _note_death(state: State, job: Job, who: str, reason: str) -> None:
    job.workers[who].status = "starting"
    job.workers[who].deaths += 1
    job.report.counters.deaths += 1
    state.note_worker(job, "death", who, reason)


def _note_retired(state: State, job: Job, who: str, reason: str) -> None:
    job.workers[who].status, job.workers[who].reason = "retired", reason
    job.report.counters.retired += 1
    state.note_worker(job, "retired", who, reason)


# -- time -------------------------------------------------------------------------------------------------------------


def look(state: State, queued: frozenset[str]) -> None:
    """Look for workers that are late or hang, for those that wait in a cluster's queue, and for jobs without any."""
    for key in list(state.keys.values()):
        key.watch.look(state.now)
        _end_hung(state, key.id, list(state.workers.values()))
    for worker in list(state.workers.values()):
        _retire_late(state, worker, worker.id in queued)
    for job in list(state.jobs.values()) if queued else ():
        waiting = [w for w in state.live(job) if w.id in queued and not w.slot(job.key).ready]
        for worker in waiting:
            if job.workers[worker.id].status != "queued":
                job.workers[worker.id].status = "queued"
                reason = f"others have the CPUs or GPUs of {worker.handle.node}"
                state.note_worker(job, "queued", worker.id, reason)
        if waiting:
            state.wait(job, f"room on the cluster, for {len(waiting)} of {count_of(len(state.live(job)), 'prover')}")


def fail_stranded(state: State, job: Job) -> None:
    """Fail what needs a worker when none is left, and no node joins for as long as the settings have the job wait."""
    for worker in state.workers.values():
        if worker.serves(job.id):
            job.stranded = None
            return
    reasons = [each.reason for each in job.workers.values()]
    reasons += [worker.health.lost for worker in state.workers.values()]  # before the job came
    reason = next(filter(None, reasons), "there is none")
    patience = state.settings.wait_for_nodes
    if patience is not None and state.grows:
        if job.stranded is None:
            job.stranded = state.now
            state.note(job, "stranded", reason=f"no prover is left ({reason}); a node may join for {patience:g} s")
            state.wait(job, "a node to join: no prover is left")
        if state.now - job.stranded < patience:
            return
    for partition in [each for stage in Stage if stage not in SAFE for each in job.at[stage].values()]:
        if partition.stage is not Stage.FAILED:  # with one that it needs
            state.fail(job, partition, f"no prover is left ({reason})", ClusterError.__name__)


def _retire_late(state: State, worker: Worker, queued: bool) -> None:
    """Give up a worker that does not load its key in time. What it waits for in a cluster's queue does not count."""
    slot = worker.slots.get(worker.loading or "")
    if slot is None or worker.loading is None:
        return
    if queued:
        slot.deadline = state.now + state.settings.start_timeout
    elif state.now > slot.deadline:
        key, first = worker.loading, not slot.late
        slot.late, slot.deadline = True, state.now + state.settings.start_timeout
        for job in list(state.users(worker)):  # on threads it cannot be ended, and other keys wait behind it for ever
            if job.key == key or not (first or worker.slot(job.key).ready):
                retire(state, job, worker, f"not ready within {state.settings.start_timeout:.0f} s")
        if first and worker.health.lost is None:
            worker.health.restarted = True
            state.emit(Interrupt(worker.id, key, worker.id))


def _end_hung(state: State, key: str, workers: Iterable[Worker]) -> None:
    """End what gives no sign of life: its death is then reported."""
    resident = state.keys[key]
    for worker in workers:
        hung = resident.watch.hung(worker.id) if worker.slot(key).ready and worker.health.lost is None else None
        if hung is not None:
            resident.watch.forget(worker.id)  # until it says something
            _end(state, key, worker, hung.who, hung.reason)
    checker = state.workers.get(resident.checker or "")
    if checker is not None and state.now > resident.check_deadline:
        patience = resident.check_patience(state.settings)
        resident.check_deadline = state.now + patience
        reason = f"the key's check takes longer than {patience:.0f} s"
        _end(state, key, checker, checker.id, reason)


def _end(state: State, key: str, worker: Worker, who: str, reason: str) -> None:
    """End a process that hangs, and give up its worker or synthesiser when that was not the first time, unless it is
    the last one that is left."""
    given_up = False
    for job in list(state.users(worker, key)):
        state.note_worker(job, "hung", who, reason)
        standing = worker.health.of(job.id, who)
        standing.hangs += 1
        at = worker.slot(key).at_work_on(job.id) if who == worker.id else None
        standing.failed_at |= {at} if at is not None else set()
        others = state.live(job) if who == worker.id else worker.synthesisers_of(job.id)
        if standing.hangs >= MAX_HANGS and len(others) > 1:
            give_up(state, job, worker, who, f"hung {count_of(standing.hangs, 'time')}, the last: {reason}")
            given_up = True
    if worker.health.lost is None and (state.standing or not given_up):  # others still use it
        state.emit(Interrupt(worker.id, key, who))
