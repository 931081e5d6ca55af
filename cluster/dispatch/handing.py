"""Handing out: which partition goes to which worker, and what is asked back."""

from __future__ import annotations

import itertools
import math

from actors.worker import Ask, Order
from cluster.dispatch.barrier import raise_barrier
from cluster.dispatch.members import Member
from cluster.dispatch.partitions import PREPARING, Item, Stage
from cluster.dispatch.state import State

CHUNK = 0.5
"""Seconds of work in a chunk, about."""

MAX_CHUNK = 2000
"""Partitions in a chunk, at most."""


def hand_out(state: State) -> None:
    """All that can be handed out now."""
    if state.system.needs_barrier and state.barrier is None:
        raise_barrier(state)
    if state.barrier is not None and state.items.at[Stage.COMMITTED]:
        _hand_home(state, state.barrier[1])
    live = state.members.live()
    usable = sorted((member for member in live if member.ready), key=lambda member: len(member.tasks))
    if state.items.at[Stage.WAITING]:
        left = state.items.count(Stage.WAITING) + sum(len(member.tasks) for member in live)
        for member in usable:
            _hand_to(state, member, live, fair=math.ceil(left / len(live)))
    elif usable:
        _ask_back(state, usable)


def diagnose(state: State, item: Item, member: Member) -> None:
    """Have a worker say whether the witness of a partition is good."""
    _hand(state, member, [item], Ask.DIAGNOSE)


def check_key(state: State) -> None:
    """Have the key checked by a prover that is ready, unless that is done or under way."""
    ready = next((member for member in state.members.provers.values() if member.usable), None)
    if not state.key_checked and state.checker is None and ready is not None:
        state.checker = ready.worker.id
        state.executor.check(ready.worker)
        state.tell.wait(f"the key's check on {state.checker}")


def _hand_to(state: State, member: Member, live: list[Member], fair: int) -> None:
    """A chunk for a worker that has less than one; near the end no more than its fair share of what is left."""
    in_flight, parallel = state.settings.in_flight, state.settings.parallel
    chunk = max(in_flight + len(member.worker.synthesisers), min(MAX_CHUNK, math.ceil(member.rate * CHUNK)))
    room = min(2 * chunk, max(in_flight, fair)) - len(member.tasks)
    if room <= 0 or len(member.tasks) > chunk:
        return
    if parallel is not None and parallel < len(live):  # one at a time, wherever a prover is free
        room = min(1, parallel - state.items.count(*PREPARING), in_flight - len(member.tasks))
        if room <= 0:
            return
    free = (item for item in state.items.at[Stage.WAITING].values() if _may_have(state, member, item, live))
    ask = Ask.COMMIT if state.system.needs_barrier else Ask.PROVE
    _hand(state, member, list(itertools.islice(free, room)), ask)


def _may_have(state: State, member: Member, item: Item, live: list[Member]) -> bool:
    """Whether the worker may have the partition: not if it has failed with it, unless all have."""
    return member.worker.id not in item.avoid or all(other.worker.id in item.avoid for other in live)


def _hand_home(state: State, challenge: bytes) -> None:
    """Hand out partitions after the barrier: to the workers that committed to them, in the plan's order."""
    for member in state.members.provers.values():
        items = [item for item in state.items.at[Stage.COMMITTED].values() if item.home == member.worker.id]
        if member.usable:
            _hand(state, member, sorted(items, key=lambda item: item.partition.index), Ask.PROVE, challenge)


def _hand(state: State, member: Member, items: list[Item], ask: Ask, challenge: bytes | None = None) -> None:
    if not items:
        return
    for item in items:
        item.home = member.worker.id
        state.items.move(item, Stage.HANDED if ask is not Ask.DIAGNOSE else Stage.DIAGNOSING)
        member.tasks[item.partition.name] = None
    orders = [Order(item.partition, ask, challenge) for item in items]
    state.executor.hand(member.worker, orders, state.session.began, _parallel(state, member))


def _parallel(state: State, member: Member) -> int | None:
    """A worker's share of the setting `parallel`. Where there are more workers, `_hand_to` counts over all."""
    live, parallel = state.members.live(), state.settings.parallel
    if parallel is None:
        return None
    share, more = divmod(parallel, len(live))
    return max(1, share + (live.index(member) < more))


def _ask_back(state: State, usable: list[Member]) -> None:
    """Have the worker with the most left return part of what it has not begun, while others have nothing."""
    idle, most = sum(not member.tasks for member in usable), usable[-1]
    spare = len(most.tasks) - state.settings.in_flight
    if idle and spare > 0 and state.barrier is None and not most.asked_back:
        most.asked_back = True
        state.executor.ask_back(most.worker, max(1, spare // (idle + 1)))
