"""Hands out: decides which partition goes to which worker, and what is asked back."""

from __future__ import annotations

import itertools
import math

from actors.worker import Ask, Order
from cluster.dispatch.barrier import raise_barrier
from cluster.dispatch.state import PREPARING, PartitionState, Stage, State, WorkerState
from distprove.system import DrawsChallenge

CHUNK = 0.5
"""Seconds of work in a chunk, about."""

MAX_CHUNK = 2000
"""Partitions in a chunk, at most."""


def hand_out(state: State) -> None:
    """Hand out all that can be handed out now."""
    if state.system.needs_barrier and state.barrier is None:
        raise_barrier(state)
    if state.barrier is not None and state.partitions.at[Stage.COMMITTED]:
        _hand_home(state, state.barrier[1])
    live = state.workers.live()
    # Those with the least to do first, for other jobs too: a job of one partition goes where there is room.
    busy = state.executor.backlog
    usable = sorted(
        (worker for worker in live if worker.ready), key=lambda worker: len(worker.handed) + busy(worker.handle)
    )
    if state.partitions.at[Stage.WAITING]:
        left = state.partitions.count(Stage.WAITING) + sum(len(worker.handed) for worker in live)
        for worker in usable:
            _hand_to(state, worker, live, fair=math.ceil(left / len(live)))
    elif usable:
        _ask_back(state, usable)


def diagnose(state: State, partition: PartitionState, worker: WorkerState) -> None:
    """Have a worker say whether the witness of a partition is good."""
    _hand(state, worker, [partition], Ask.DIAGNOSE)


def check_key(state: State) -> None:
    """Have the key checked by a worker that is ready, unless that is done or under way."""
    ready = next((worker for worker in state.workers.by_id.values() if worker.usable), None)
    if not state.key_checked and state.checker is None and ready is not None:
        state.checker, ready.deadline = ready.handle.id, state.deadline()
        state.executor.check(ready.handle)
        state.tell.wait(f"the key's check on {state.checker}")


def _hand_to(state: State, worker: WorkerState, live: list[WorkerState], fair: int) -> None:
    """A chunk for a worker that has less than one; near the end no more than its fair share of what is left."""
    in_flight, parallel = state.settings.in_flight, state.settings.parallel
    chunk = max(in_flight + len(worker.handle.synthesisers), min(MAX_CHUNK, math.ceil(worker.rate * CHUNK)))
    if worker.doubtful:
        chunk = 1
    room = min(2 * chunk, max(in_flight, fair)) - len(worker.handed)
    if room <= 0 or len(worker.handed) > chunk:
        return
    if parallel is not None and parallel < len(live):  # one at a time, wherever a worker is free
        room = min(1, parallel - state.partitions.count(*PREPARING), in_flight - len(worker.handed))
        if room <= 0:
            return
    free = (
        partition for partition in state.partitions.at[Stage.WAITING].values() if _may_have(worker, partition, live)
    )
    _hand(state, worker, list(itertools.islice(free, room)), *_what_for(state))


def _what_for(state: State) -> tuple[Ask, bytes | None]:
    """What a partition that waits is handed out for, and the challenge. After the barrier somebody has committed to it,
    and the next one does so as it proves it; only where proofs do not tell their commitment, it is asked for first."""
    if not state.system.needs_barrier:
        return Ask.PROVE, None
    if state.barrier is None or not isinstance(state.system, DrawsChallenge):
        return Ask.COMMIT, None
    return Ask.PROVE, state.barrier[1]


def _may_have(worker: WorkerState, partition: PartitionState, live: list[WorkerState]) -> bool:
    """Whether the worker may have the partition: not if it has failed with it, unless all have."""
    return worker.handle.id not in partition.avoid or all(other.handle.id in partition.avoid for other in live)


def _hand_home(state: State, challenge: bytes) -> None:
    """Hand out partitions after the barrier: to the workers that committed to them, in the plan's order."""
    for worker in state.workers.by_id.values():
        partitions = [
            partition
            for partition in state.partitions.at[Stage.COMMITTED].values()
            if partition.home == worker.handle.id
        ]
        if worker.usable:
            _hand(
                state, worker, sorted(partitions, key=lambda partition: partition.planned.index), Ask.PROVE, challenge
            )


def _hand(
    state: State, worker: WorkerState, partitions: list[PartitionState], ask: Ask, challenge: bytes | None = None
) -> None:
    if not partitions:
        return
    for partition in partitions:
        partition.home = worker.handle.id
        state.partitions.move(partition, Stage.HANDED if ask is not Ask.DIAGNOSE else Stage.DIAGNOSING)
        worker.handed[partition.planned.name] = None
    orders = [Order(partition.planned, ask, challenge) for partition in partitions]
    state.executor.hand(worker.handle, orders, state.session.began, _parallel(state, worker))


def _parallel(state: State, worker: WorkerState) -> int | None:
    """A worker's share of the setting `parallel`. Where there are more workers, `_hand_to` counts over all."""
    live, parallel = state.workers.live(), state.settings.parallel
    if parallel is None:
        return None
    share, more = divmod(parallel, len(live))
    return max(1, share + (live.index(worker) < more))


def _ask_back(state: State, usable: list[WorkerState]) -> None:
    """Have the worker with the most left return part of what it has not begun, while others have nothing: what its
    prover holds a commitment of only to other devices, which would make that again while the own one proves. Where
    `parallel` allows fewer witnesses than there are workers, what has one stays with it: nobody may make another."""
    if state.settings.parallel is not None and state.settings.parallel < len(state.workers.live()):
        return
    idle, most = [worker for worker in usable if not worker.handed], usable[-1]
    spare = len(most.handed) - state.settings.in_flight
    if idle and spare > 0 and not most.asked_back:
        most.asked_back = True
        elsewhere = all(worker.device != most.device for worker in idle)
        state.executor.ask_back(most.handle, max(1, spare // (len(idle) + 1)), committed=elsewhere)
