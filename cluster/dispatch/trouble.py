"""Handles trouble: bad proofs and faults, workers that die or hang, what is tried again, and who is given up."""

from __future__ import annotations

import time

from cluster.dispatch import handing
from cluster.dispatch.members import Member
from cluster.dispatch.partitions import OVER, SAFE, Item, Stage
from cluster.dispatch.state import State
from cluster.record.report import public_message
from distprove.errors import ClusterError, InputError
from kernels.errors import OutOfMemory

MAX_STRIKES = 3
"""Bad proofs, faults or deaths of one worker in a row before it is retired."""


def see_to_workers(state: State) -> None:
    """Look for workers that are late or hang, and whether any is left."""
    _retire_the_late(state)
    _end_the_hung(state)
    _fail_if_stranded(state)


# -- of partitions ----------------------------------------------------------------------------------------------


def suspect(state: State, item: Item, reason: str) -> None:
    """Ask the prover of a proof that does not verify whether the witness is to blame."""
    member = state.members.provers[item.home or ""]
    item.suspicion = reason
    if member.usable:
        handing.diagnose(state, item, member)
    else:
        bad_proof(state, item, reason)


def bad_proof(state: State, item: Item, reason: str) -> None:
    """A prover's proof or commitment does not hold, and its witness is not known to be to blame."""
    member = state.members.provers[item.home or ""]
    state.report.counters.bad_proofs += 1
    member.report.bad_proofs += 1
    item.report.bad_proofs += 1
    _count_against(state, member, item, "bad-proof", reason)


def refused(state: State, item: Item, member: Member, error: InputError) -> None:
    """A node refuses an input, which is its own fault until another one says the same: it may lack the file, or have
    another one. The partition fails once two agree, or no other is there to ask."""
    node, kind = _node(member), type(error).__name__
    agreed = kind in item.refused.values()
    item.refused[node] = kind
    others = {_node(other) for other in state.members.live()} - item.refused.keys()
    if agreed or not others:
        state.fail(item, str(error), kind)
        return
    item.avoid |= {other.worker.id for other in state.members.provers.values() if _node(other) == node}
    state.run.note("fault", partition=item.partition.name, worker=member.report.id, reason=str(error))
    again(state, item, "its input was refused", charge=False)


def taken(state: State, item: Item) -> None:
    """A partition is proven: the nodes that refused its input have another one, or none, and are given up after some in
    a row."""
    state.refusals[_node(state.members.provers[item.home or ""])] = 0
    for node, kind in item.refused.items():
        state.refusals[node] += 1
        if state.refusals[node] >= MAX_STRIKES:
            reason = f"{MAX_STRIKES} inputs in a row were refused there and taken on another node, the last: {kind}"
            for member in state.members.live():
                if _node(member) == node:
                    retire(state, member, f"{reason} for {item.partition.name}")


def _node(member: Member) -> str:
    """The name of a worker's node that no other has."""
    return member.worker.node_id or member.worker.node


def _fits_nowhere(state: State, item: Item, member: Member) -> bool:
    """Whether a partition has been too large for every kind of device, and for none of them by chance: twice."""
    item.too_large.append(str(member.report.facts.get("device")))
    kinds = {str(other.report.facts.get("device")) for other in state.members.live() if other.ready}
    return len(item.too_large) > 1 and kinds <= set(item.too_large)


def fault(state: State, item: Item, member: Member, error: BaseException) -> None:
    """A worker came to nothing with a partition, and the input is not at fault."""
    if isinstance(error, OutOfMemory) and member.proves and _fits_nowhere(state, item, member):
        state.fail(item, f"it fits no device here: {error}", OutOfMemory.__name__)
        return
    state.report.counters.faults += 1
    member.report.faults += 1
    # Too little memory for this partition says nothing against the worker.
    _count_against(state, member, item, "fault", public_message(error), strike=not isinstance(error, OutOfMemory))


def _count_against(state: State, member: Member, item: Item, event: str, reason: str, strike: bool = True) -> None:
    if member.proves:
        item.avoid.add(member.report.id)
    state.run.note(event, partition=item.partition.name, worker=member.report.id, reason=reason)
    again(state, item, reason)
    if strike:
        _strike(state, member, f"{MAX_STRIKES} bad proofs or faults in a row, the last: {reason}")


def again(state: State, item: Item, reason: str, charge: bool = True) -> None:
    """Put a partition back in line; `charge` an attempt, so that no partition is tried for ever."""
    item.charged += charge
    most = state.settings.max_retries
    if charge and item.charged > most:
        state.fail(item, f"given up after {most + 1} attempts; the last: {reason}")
        return
    state.report.counters.retries += 1
    item.home, item.proof = None, None
    state.items.move(item, Stage.WAITING)


# -- of workers -------------------------------------------------------------------------------------------------


def died(state: State, member: Member, reason: str, was_ready: bool = True) -> None:
    """Count the death of a worker's process once, however often it is reported, and have the worker loaded again.
    What it had goes back; only the partition at work may be to blame and is charged for it."""
    if member.retired or (was_ready and not member.ready):
        return
    blamed = member.at_work_on()
    state.watch.forget(member.worker.id)
    _note_death(state, member, reason)
    _take_back(state, member, "its worker died", blamed)
    for maker in state.members.makers_of(member.worker):
        maker.ready, maker.report.status = False, "starting"
    if state.checker == member.worker.id:
        state.checker = None
    _strike(state, member, f"died {MAX_STRIKES} times in a row, the last: {reason}")
    if not member.retired:
        member.deadline = state.deadline()
        state.executor.load(member.worker, state.key_checked)
    handing.check_key(state)


def maker_died(state: State, maker: Member, item: Item, reason: str) -> None:
    """Count the death of a synthesiser, which was at a partition; its worker loads it again."""
    _note_death(state, maker, reason)
    again(state, item, "its worker died")
    _strike(state, maker, f"died {MAX_STRIKES} times in a row, the last: {reason}")


def retire(state: State, member: Member, reason: str) -> None:
    """Give up a worker, and its synthesisers with it."""
    if member.retired:
        return
    _note_retired(state, member, reason)
    for maker in state.members.makers_of(member.worker):
        maker.retired, maker.report.status, maker.report.reason = True, "retired", "its prover was retired"
    state.executor.retire(member.worker)
    _take_back(state, member, "its worker was retired")


def retire_maker(state: State, maker: Member, reason: str) -> None:
    """Give up a synthesiser, and with the last one its worker."""
    if maker.retired:
        return
    _note_retired(state, maker, reason)
    state.executor.dismiss(maker.worker, maker.report.id)
    if not state.members.makers_of(maker.worker):
        retire(state, state.members.provers[maker.worker.id], f"it has no synthesiser left ({reason})")


def _strike(state: State, member: Member, reason: str) -> None:
    member.strikes += 1
    if member.strikes >= MAX_STRIKES:
        (retire if member.proves else retire_maker)(state, member, reason)


def _take_back(state: State, member: Member, reason: str, blamed: str | None = None) -> None:
    """Hand out again what a worker had: its witnesses and what it committed to went with it."""
    names, member.tasks, member.under_way, member.asked_back = list(member.tasks), {}, [], False
    committed = [item for item in state.items.at[Stage.COMMITTED].values() if item.home == member.worker.id]
    for item in (*(state.items[name] for name in names), *committed):
        if item.stage is Stage.DIAGNOSING:
            bad_proof(state, item, item.suspicion)  # nothing more can be found out
        elif item.stage not in OVER:
            item.report.attempts += item.stage is Stage.PROVING
            again(state, item, reason, charge=item.partition.name == blamed)


def _note_death(state: State, member: Member, reason: str) -> None:
    member.ready = False
    member.report.status = "starting"
    member.report.deaths += 1
    state.report.counters.deaths += 1
    state.note("death", member, reason)


def _note_retired(state: State, member: Member, reason: str) -> None:
    member.retired = True
    member.report.status, member.report.reason = "retired", reason
    state.report.counters.retired += 1
    state.note("retired", member, reason)


# -- of time ----------------------------------------------------------------------------------------------------


def _retire_the_late(state: State) -> None:
    now = time.monotonic()
    for member in state.members.live():
        if not member.ready and now > member.deadline:
            retire(state, member, f"not ready within {state.settings.start_timeout:.0f} s")


def _end_the_hung(state: State) -> None:
    """End what gives no sign of life: it is then taken for what it is, dead."""
    state.watch.look(time.monotonic())
    for member in state.members.provers.values():
        hung = state.watch.hung(member.worker.id) if member.usable else None
        if hung is not None:
            state.run.note("hung", worker=hung.who, reason=hung.reason)
            state.tell("hung", None, member, hung.reason)
            state.watch.forget(member.worker.id)  # until it says something
            state.executor.interrupt(member.worker, hung.who)


def _fail_if_stranded(state: State) -> None:
    """Fail what needs a worker when none is left."""
    if state.members.live():
        return
    reason = next((m.report.reason for m in state.members.provers.values() if m.report.reason), "there is none")
    for item in [item for stage in Stage if stage not in SAFE for item in state.items.at[stage].values()]:
        state.fail(item, f"no prover is left ({reason})", ClusterError.__name__)
