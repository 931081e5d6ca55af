"""Handles trouble: bad proofs and faults, workers that die or hang, what is tried again, and who is given up.

A worker is given up, and its partitions go to others, by these rules. A failure is a bad proof whose witness holds, a
fault, or a death at a partition; what fails is tried again at once, on another worker.

    it fails 3 times in a row              at partitions at which no other worker failed before
    3 failures more than it made up for    at partitions that another worker then proved; 20 good proofs make up for one
    it hangs twice                         whatever it did in between, where there is another worker
    others take 3 inputs in a row          that its node refused

So a worker that fails at more than one partition in twenty is found however often it succeeds in between, and one that
meets partitions at which every worker fails is not.
"""

from __future__ import annotations

import os
import time

from actors.processes import WorkerDied, WorkerStuck
from cluster.dispatch import handing
from cluster.dispatch.state import OVER, SAFE, PartitionState, Stage, State, WorkerState
from cluster.record.report import public_message
from distprove.errors import ClusterError, InputError, ResourceError
from kernels.errors import OutOfMemory

LOOK = 0.25
"""Seconds between two looks for workers that are late or hang: each is a walk over all workers."""
MAX_STRIKES = 3
"""Bad proofs, faults or deaths of one worker before it is retired: in a row, or that are known to be its own."""
MADE_UP = 1 / 20
"""Part of a failure that a good proof makes up for."""
MAX_HANGS = 2
"""Times that a worker hangs before it is retired, whatever it did in between, where there is another one."""


def see_to_workers(state: State) -> None:
    """Look for workers that are late, hang or wait in a queue, some times a second, and whether any is left."""
    now = time.monotonic()
    if now >= state.look_due:
        state.look_due = now + min(LOOK, state.settings.hang_timeout / 8)
        _take_on_newcomers(state)
        _tell_remarks(state)
        _tell_the_queued(state)
        _retire_the_late(state)
        _end_the_hung(state)
    _fail_if_stranded(state)


# -- of partitions ----------------------------------------------------------------------------------------------


def suspect(state: State, partition: PartitionState, reason: str) -> None:
    """Ask the worker that made a proof that does not verify whether the witness is to blame."""
    worker = state.workers.by_id[partition.home or ""]
    partition.suspicion = reason
    if worker.usable:
        handing.diagnose(state, partition, worker)
    else:
        bad_proof(state, partition, reason)


def bad_proof(state: State, partition: PartitionState, reason: str) -> None:
    """A worker's proof or commitment does not hold, and its witness is not known to be to blame."""
    worker = state.workers.by_id[partition.home or ""]
    state.report.counters.bad_proofs += 1
    worker.report.bad_proofs += 1
    partition.report.bad_proofs += 1
    _count_against(state, worker, partition, "bad-proof", reason)


def refused(state: State, partition: PartitionState, worker: WorkerState, error: InputError) -> None:
    """A node refuses an input, which is its own fault until another one says the same: it may lack the file, or have
    another one. The partition fails once two agree, or no other is there to ask."""
    node, kind = worker.node, type(error).__name__
    agreed = kind in partition.refused.values()
    partition.refused[node] = kind
    others = {other.node for other in state.workers.live()} - partition.refused.keys()
    if agreed or not others:
        source = partition.planned.source.get("path")
        gone = isinstance(source, str) and not os.path.lexists(source)  # it was there when the job began
        state.fail(partition, str(error), ResourceError.__name__ if gone else kind)
        return
    partition.avoid |= {other.handle.id for other in state.workers.by_id.values() if other.node == node}
    state.run.note("fault", partition=partition.planned.name, worker=worker.report.id, reason=str(error))
    again(state, partition, "its input was refused", charge=False)


def taken(state: State, partition: PartitionState) -> None:
    """A partition is proven. So the workers that failed at it are to blame, and the nodes that refused its input have
    another one, or none: these are given up after some in a row."""
    prover = state.workers.by_id[partition.home or ""]
    prover.strikes, prover.blame = 0, max(0.0, prover.blame - MADE_UP)
    for name in partition.failed_on:
        if name != partition.home:
            _blame(state, state.workers.by_id[name], partition)
    state.refusals[prover.node] = 0
    for node, kind in partition.refused.items():
        state.refusals[node] += 1
        if state.refusals[node] >= MAX_STRIKES:
            reason = f"{MAX_STRIKES} inputs in a row were refused there and taken on another node, the last: {kind}"
            for worker in state.workers.live():
                if worker.node == node:
                    retire(state, worker, f"{reason} for {partition.planned.name}")
    if state.suspects:
        _set_devices_aside(state)


def _fits_nowhere(state: State, partition: PartitionState, worker: WorkerState) -> bool:
    """Whether a partition has been too large for every kind of device, and for none of them by chance: twice."""
    partition.too_large.append(str(worker.report.facts.get("device")))
    kinds = {str(other.report.facts.get("device")) for other in state.workers.live() if other.ready}
    return len(partition.too_large) > 1 and kinds <= set(partition.too_large)


def fault(state: State, partition: PartitionState, worker: WorkerState, error: BaseException) -> None:
    """A worker came to nothing with a partition, and the input is not at fault."""
    if isinstance(error, OutOfMemory) and worker.proves and _fits_nowhere(state, partition, worker):
        state.fail(partition, f"it fits no device here: {error}", OutOfMemory.__name__)
        return
    state.report.counters.faults += 1
    worker.report.faults += 1
    # Too little memory for this partition says nothing against the worker.
    _count_against(state, worker, partition, "fault", public_message(error), strike=not isinstance(error, OutOfMemory))


def _count_against(
    state: State, worker: WorkerState, partition: PartitionState, event: str, reason: str, strike: bool = True
) -> None:
    if worker.proves:
        partition.avoid.add(worker.report.id)
    state.run.note(event, partition=partition.planned.name, worker=worker.report.id, reason=reason)
    again(state, partition, reason)
    if strike and worker.proves:
        worker.failed_at.add(partition.planned.name)
    if strike:
        _strike(state, worker, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {reason}", partition)


def again(state: State, partition: PartitionState, reason: str, charge: bool = True) -> None:
    """Put a partition back in line; `charge` an attempt, so that no partition is tried for ever."""
    partition.charged += charge
    most = state.settings.max_retries
    if charge and partition.charged > most:
        state.fail(partition, f"given up after {most + 1} attempts; the last: {reason}")
        return
    state.report.counters.retries += 1
    partition.home, partition.proof = None, None
    state.partitions.move(partition, Stage.WAITING, first=charge)


# -- of workers -------------------------------------------------------------------------------------------------


def died(state: State, worker: WorkerState, error: WorkerDied, was_ready: bool = True, *, blame: bool = True) -> None:
    """Count the death of a worker's process once, however often it is reported, and have the worker loaded again.
    What it had goes back; only the partition at work may be to `blame` and is charged for it, unless the process was at
    another job's. A worker whose process cannot be ended is given up: what it holds of its device, nobody else can
    have."""
    if worker.retired or (was_ready and not worker.ready):
        return
    reason, at = str(error), error.at
    blamed = at[1] if at is not None and at[1] in worker.handed else worker.at_work_on()
    state.watch.forget(worker.handle.id)
    _note_death(state, worker, reason)
    _take_back(state, worker, "its worker died", blamed if blame else None)
    for synthesiser in state.workers.synthesisers_of(worker.handle):
        synthesiser.ready, synthesiser.report.status = False, "starting"
    if state.checker == worker.handle.id:
        state.checker = None
    if isinstance(error, WorkerStuck):
        worker.failed_at |= {blamed} if blamed is not None else set()
        _give_up(state, worker, reason)
    elif blame:
        at_work = state.partitions[blamed] if blamed is not None else None
        if at_work is not None:
            at_work.avoid.add(worker.handle.id)
        _strike(state, worker, f"died {MAX_STRIKES} times in a row, the last: {reason}", at_work)
    if not worker.retired:
        worker.deadline = state.deadline()
        state.executor.load(worker.handle, state.key_checked)
    handing.check_key(state)


def synthesiser_died(state: State, synthesiser: WorkerState, partition: PartitionState, reason: str) -> None:
    """Count the death of a synthesiser, which was at a partition; its worker loads it again."""
    _note_death(state, synthesiser, reason)
    again(state, partition, "its worker died")
    _strike(state, synthesiser, f"died {MAX_STRIKES} times in a row, the last: {reason}")


def _give_up(state: State, worker: WorkerState, reason: str) -> None:
    """Give up a worker whose device may be at fault."""
    if worker.retired:
        return
    retire(state, worker, reason)
    if worker.report.facts.get("uuid"):
        state.suspects.append(worker)
        _set_devices_aside(state)


def _set_devices_aside(state: State) -> None:
    """Have devices that were given up not used by later jobs, once another device has proven what they failed at:
    before that the partition may be to blame. CPUs have no UUID, and are never set aside."""
    for worker in list(state.suspects):
        device = worker.report.facts["uuid"]
        proven_by = [
            state.workers.by_id[partition.home]
            for partition in map(state.partitions.__getitem__, worker.failed_at)
            if partition.stage in (Stage.KEEPING, Stage.DONE) and partition.home is not None
        ]
        if any(other.report.facts.get("uuid") != device for other in proven_by):
            state.suspects.remove(worker)
            reason = worker.report.reason or ""
            state.executor.remember(worker.handle, device, reason)
            state.note("set-aside", worker, f"{device} is not used by later jobs: {reason}")


def retire(state: State, worker: WorkerState, reason: str) -> None:
    """Give up a worker, and its synthesisers with it."""
    if worker.retired:
        return
    _note_retired(state, worker, reason)
    for synthesiser in state.workers.synthesisers_of(worker.handle):
        synthesiser.retired = True
        synthesiser.report.status, synthesiser.report.reason = "retired", "its prover was retired"
    state.executor.retire(worker.handle)
    _take_back(state, worker, "its worker was retired")


def retire_synthesiser(state: State, synthesiser: WorkerState, reason: str) -> None:
    """Give up a synthesiser, and with the last one its worker."""
    if synthesiser.retired:
        return
    _note_retired(state, synthesiser, reason)
    state.executor.dismiss(synthesiser.handle, synthesiser.report.id)
    if not state.workers.synthesisers_of(synthesiser.handle):
        retire(state, state.workers.by_id[synthesiser.handle.id], f"it has no synthesiser left ({reason})")


def _take_on_newcomers(state: State) -> None:
    """Load workers on devices that were added to the cluster while the job runs."""
    for handle in state.executor.newcomers():
        state.workers.add(handle, state.deadline())
        worker = state.workers.by_id[handle.id]
        state.report.workers += [
            worker.report,
            *(synthesiser.report for synthesiser in state.workers.synthesisers_of(handle)),
        ]
        state.note("joined", worker, f"{handle.node} joined the cluster")
        state.executor.load(handle, state.key_checked)


def _strike(state: State, worker: WorkerState, reason: str, partition: PartitionState | None = None) -> None:
    """Count a failure, at that partition; a worker's only where no other one failed there before."""
    if partition is not None and worker.proves:
        others = set(partition.failed_on) - {worker.handle.id}
        partition.failed_on.append(worker.handle.id)
        if others:
            return
    worker.strikes += 1
    if worker.strikes >= MAX_STRIKES:
        (_give_up if worker.proves else retire_synthesiser)(state, worker, reason)


def _blame(state: State, worker: WorkerState, partition: PartitionState) -> None:
    """Count a failure of a worker at a partition that another one proved."""
    worker.blame += 1
    if worker.blame >= MAX_STRIKES and len(state.workers.live()) > 1:
        _give_up(
            state, worker, f"it fails again and again, the last time at {partition.planned.name}, which another proved"
        )


def _tell_remarks(state: State) -> None:
    """Tell what is new of devices that are not used."""
    for remark in state.executor.remarks()[state.remarked :]:
        state.remarked += 1
        state.report.set_aside.append(remark)
        state.run.note("set-aside", reason=remark)
        state.tell("set-aside", None, None, remark)


def _take_back(state: State, worker: WorkerState, reason: str, blamed: str | None = None) -> None:
    """Hand out again what a worker had: its witnesses and what it committed to went with it."""
    names, worker.handed, worker.under_way, worker.asked_back = list(worker.handed), {}, [], False
    committed = [
        partition for partition in state.partitions.at[Stage.COMMITTED].values() if partition.home == worker.handle.id
    ]
    for partition in (*(state.partitions[name] for name in names), *committed):
        if partition.stage is Stage.DIAGNOSING:
            bad_proof(state, partition, partition.suspicion)  # nothing more can be found out
        elif partition.stage not in OVER:
            partition.report.attempts += partition.stage is Stage.PROVING
            again(state, partition, reason, charge=partition.planned.name == blamed)


def _note_death(state: State, worker: WorkerState, reason: str) -> None:
    worker.ready = False
    worker.report.status = "starting"
    worker.report.deaths += 1
    state.report.counters.deaths += 1
    state.note("death", worker, reason)


def _note_retired(state: State, worker: WorkerState, reason: str) -> None:
    worker.retired = True
    worker.report.status, worker.report.reason = "retired", reason
    state.report.counters.retired += 1
    state.note("retired", worker, reason)


# -- of time ----------------------------------------------------------------------------------------------------


def _tell_the_queued(state: State) -> None:
    """Tell of workers that wait for what other jobs have of a cluster, and hold no time against them."""
    queued = [w for w in state.workers.live() if not w.ready and state.executor.queued(w.handle)]
    for worker in queued:
        worker.deadline = state.deadline()
        if worker.report.status != "queued":
            worker.report.status = "queued"
            state.note("queued", worker, f"others have the CPUs or GPUs of {worker.handle.node}")
    if queued:
        state.tell.wait(f"room on the cluster, for {len(queued)} of {len(state.workers.live())} provers")


def _retire_the_late(state: State) -> None:
    now = time.monotonic()
    for worker in state.workers.live():
        if not worker.ready and now > worker.deadline:
            retire(state, worker, f"not ready within {state.settings.start_timeout:.0f} s")


def _end_the_hung(state: State) -> None:
    """End what gives no sign of life: it is then taken for what it is, dead."""
    state.watch.look(time.monotonic())
    for worker in state.workers.by_id.values():
        hung = state.watch.hung(worker.handle.id) if worker.usable else None
        if hung is not None:
            state.note("hung", state.workers.synthesisers.get(hung.who, worker), hung.reason)
            state.watch.forget(worker.handle.id)  # until it says something
            _end(state, worker, hung.who, hung.reason)
    checker = state.workers.by_id.get(state.checker or "")
    if checker is not None and time.monotonic() > checker.deadline:
        checker.deadline = state.deadline()
        reason = f"the key's check takes longer than {state.settings.start_timeout:.0f} s"
        state.note("hung", checker, reason)
        _end(state, checker, checker.handle.id, reason)


def _end(state: State, worker: WorkerState, who: str, reason: str) -> None:
    """End a process that hangs, and set its worker or synthesiser aside when that was not the first time, unless it is
    the last one that is left."""
    one = state.workers.synthesisers.get(who, worker)
    one.hangs += 1
    others = state.workers.live() if one.proves else state.workers.synthesisers_of(one.handle)
    at = worker.at_work_on() if one.proves else None
    one.failed_at |= {at} if at is not None else set()
    if one.hangs >= MAX_HANGS and len(others) > 1:
        (_give_up if one.proves else retire_synthesiser)(state, one, f"hung {one.hangs} times, the last: {reason}")
    else:
        state.executor.interrupt(worker.handle, who)


def _fail_if_stranded(state: State) -> None:
    """Fail what needs a worker when none is left, and no node joins for as long as the settings have the job wait."""
    if state.workers.live():
        state.stranded = None
        return
    reason = next((m.report.reason for m in state.workers.by_id.values() if m.report.reason), "there is none")
    patience, now = state.settings.wait_for_nodes, time.monotonic()
    if patience is not None and state.executor.grows:
        if state.stranded is None:
            state.stranded = now
            state.run.note("stranded", reason=f"no prover is left ({reason}); a node may join for {patience:g} s")
            state.tell.wait("a node to join: no prover is left")
        if now - state.stranded < patience:
            return
    for partition in [
        partition for stage in Stage if stage not in SAFE for partition in state.partitions.at[stage].values()
    ]:
        state.fail(partition, f"no prover is left ({reason})", ClusterError.__name__)
