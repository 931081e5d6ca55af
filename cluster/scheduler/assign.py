"""Decides every order: which partition goes to which worker, in which place, and which orders come back.

The order of everything is its `Place`: the rank of its job's priority, then its turn in the fair queue of that rank. A
job's turn counts its orders, and begins where the others of its rank are by then, so that jobs of one rank alternate
partition by partition and a large job does not hold up a small one. A partition that needs others has the first of
their places, before all that its job still has to do: its work fills in where these leave the device idle, and at the
end little of it is left. Workers follow the places and decide nothing.

A worker has orders for about `CHUNK` seconds of work, and as many again behind them; orders that go after a job's next
one do not count, so that an urgent job never waits for room. Near the end each worker gets its share of what is left,
and returns orders that it has not begun when another worker is idle.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from actors import patience
from actors.protocol import Order, Place, WorkKind
from cluster.scheduler.events import AskBack, Hand
from cluster.scheduler.jobs import Job, PartitionState
from cluster.scheduler.rules import PREPARING, Fact, Stage
from cluster.scheduler.state import State
from cluster.scheduler.workers import Slot, Worker
from distprove.system import DrawsChallenge, implements

MAX_CHUNK = 2000
"""Orders in a chunk, at most."""


def assign(state: State, moved: Iterable[Job]) -> None:
    """Hand out all that can be handed out now. `moved`: jobs of which something may wait that did not before."""
    for job in moved:
        state.waiting[job.id] = job
    waiting: list[Job] = []
    for job in list(state.waiting.values()):
        if job.over or not (job.at[Stage.WAITING] or job.at[Stage.COMMITTED]):
            del state.waiting[job.id]
            continue
        if job.barrier is not None and job.at[Stage.COMMITTED]:
            _hand_to_committers(state, job)
        if job.at[Stage.WAITING]:
            waiting.append(job)
    if not waiting and len(state.workers) < 2:
        return  # no partition waits, and no second worker could take returned orders
    # Among idle workers a node goes to the one that was idle for longest, which has prepared what nodes take.
    nodes = any(next(iter(job.at[Stage.WAITING].values())).planned.needs for job in waiting)
    live = (w for w in state.workers.values() if w.health.lost is None)
    workers = sorted(live, key=lambda worker: (worker.load(), worker.handed if nodes else 0))
    if waiting:
        _hand_chunks(state, waiting, workers)
    busy = {job.key for job in waiting}
    for key in state.keys.values():
        if key.id not in busy and key.jobs and len(workers) > 1:
            _ask_back(state, key.id, [w for w in workers if w.slot(key.id).ready])


def diagnose(state: State, job: Job, partition: PartitionState, worker: Worker) -> None:
    """Have a worker tell whether the witness of a partition is good."""
    state.apply(job, partition, Fact.SUSPECT)
    _hand(state, job, worker, [partition], diagnoses=True)


def _hand_chunks(state: State, waiting: list[Job], workers: Sequence[Worker]) -> None:
    """Give each worker, those with the fewest orders first, what it has room for of the jobs that wait."""
    left = sum(len(job.at[Stage.WAITING]) for job in waiting) + sum(map(Worker.load, workers))
    fair = math.ceil(left / max(1, len(workers)))
    queue = [(*state.queue.peek(job.rank, job.id), number, job) for number, job in enumerate(waiting)]
    heapq.heapify(queue)
    for worker in workers:
        later: list[tuple[int, int, int, Job]] = []
        given, chunk = 0, _chunk(state, worker)
        while queue:
            rank, turn, number, job = queue[0]
            usable, doubtful = worker.usable(job.id, job.key), worker.doubtful(job.id)
            # Up to the next job's turn the orders are this one's.
            wanted = len(job.at[Stage.WAITING]) if len(queue) == 1 else 1
            first, chunk_here = _allowed(state, job, worker, 1) if usable else [], 1 if doubtful else chunk
            place = _place(job, first[0], Place(rank, turn)) if first else Place(rank, turn)
            room = _room(state, job, worker, place, fair, given, chunk_here, wanted) if first else 0
            if first and not room and not doubtful and state.settings.parallel is None:
                break  # the worker is full: the jobs behind this one in the queue get no room either
            partitions = _allowed(state, job, worker, room)
            if not partitions:
                later.append(heapq.heappop(queue))
                continue
            _hand(state, job, worker, partitions)
            given += len(partitions)
            if job.at[Stage.WAITING]:
                heapq.heapreplace(queue, (*state.queue.peek(job.rank, job.id), number, job))
            else:
                heapq.heappop(queue)
        for each in later:
            heapq.heappush(queue, each)


def _chunk(state: State, worker: Worker) -> int:
    """Orders for about `CHUNK` seconds of a worker."""
    least = state.settings.in_flight + len(worker.handle.synthesisers)
    return max(least, min(MAX_CHUNK, math.ceil(worker.rate * patience.CHUNK)))


def _room(state: State, job: Job, worker: Worker, place: Place, fair: int, given: int, chunk: int, wanted: int) -> int:
    """Number of orders that a worker may get of a job, which has `wanted` of them: up to two chunks, once it has less
    than one; near the end no more than its fair share of what is left. It was `given` some just now."""
    in_flight, parallel, held = state.settings.in_flight, state.settings.parallel, worker.before(place)
    if held - given > chunk:
        return 0
    most = min(2 * chunk, max(in_flight, fair))
    room = min(most - held, wanted)
    while room > 1 and worker.before(place._replace(turn=place.turn + room - 1)) + room > most:
        room //= 2  # its later orders go behind more of the others'
    if parallel is not None and parallel < len(state.live(job)):  # one at a time, wherever a worker is free
        room = min(room, 1 - given, parallel - job.count(*PREPARING), in_flight - held)
    return max(0, room)


def _allowed(state: State, job: Job, worker: Worker, count: int) -> list[PartitionState]:
    """Up to `count` waiting partitions that the worker may have. It gets none that it failed at, unless all workers
    failed at that one. Either all of them need others, or none."""
    found: list[PartitionState] = []
    live: list[Worker] | None = None
    for partition in job.at[Stage.WAITING].values() if count else ():
        if worker.id in partition.avoid:
            if live is None:  # but for workers where the key waits for memory: that may take for ever
                crowded = state.keys[job.key].crowded_on
                live = [other for other in state.live(job) if other.id not in crowded]
            if any(other.id not in partition.avoid for other in live):
                continue
        if found and bool(partition.planned.needs) != bool(found[0].planned.needs):
            break  # its place is another one, and so is the room there
        found.append(partition)
        if len(found) == count:
            break
    return found


def _work(job: Job, partition: PartitionState) -> tuple[WorkKind, bytes | None]:
    """The work on a partition that is handed out, and the challenge. After the barrier its commitment is known, and
    the next worker makes it again as it proves; only where proofs do not name their commitment, it is asked for first.
    """
    if not job.system.needs_barrier or not partition.planned.commits:
        return WorkKind.PROVE, None
    known = partition.stage is Stage.COMMITTED or implements(type(job.system), DrawsChallenge)
    if job.barrier is None or not known:
        return WorkKind.COMMIT, None
    return WorkKind.PROVE, job.barrier[1]


def _place(job: Job, partition: PartitionState, own: Place) -> Place:
    """The place of a partition's order: `own`, or the lowest place of its children's orders."""
    return min((place for name in partition.planned.needs if (place := job.partitions[name].place)), default=own)


def _hand_to_committers(state: State, job: Job) -> None:
    """Hand out the partitions of a job after its barrier to the workers that committed to them."""
    for worker in state.workers.values():
        mine = [partition for partition in job.at[Stage.COMMITTED].values() if partition.worker == worker.id]
        if mine and worker.usable(job.id, job.key):
            mine.sort(key=lambda partition: partition.planned.index)
            _hand(state, job, worker, mine)


def _hand(
    state: State, job: Job, worker: Worker, partitions: Sequence[PartitionState], *, diagnoses: bool = False
) -> None:
    slot, orders = worker.slot(job.key), []
    worker.served.add(job.id)
    state.hands += 1
    worker.handed = state.hands
    for partition in partitions:
        partition.worker = worker.id
        kind, challenge = (WorkKind.DIAGNOSE, None) if diagnoses else _work(job, partition)
        if not diagnoses:
            state.apply(job, partition, Fact.HANDED)
        place = partition.place = _place(job, partition, state.queue.take(job.rank, job.id))
        slot.handed[partition.id] = place
        worker.last = max(worker.last, place)
        planned = partition.planned
        if planned.needs:
            partition.made_of = job.children(partition)
            planned = replace(planned, children=partition.made_of)
        orders.append(Order(planned, kind, challenge, place, job.session.began))
    last = state.out[-1] if state.out else None
    if isinstance(last, Hand) and (last.worker, last.key) == (worker.id, job.key):
        last.orders.extend(orders)
    else:
        state.emit(Hand(worker.id, job.key, slot.epoch, orders, _parallel(state, job, worker)))


def _parallel(state: State, job: Job, worker: Worker) -> int | None:
    """A worker's share of the setting `parallel`. Where there are more workers, `_room` counts over all."""
    parallel = state.settings.parallel
    if parallel is None:
        return None
    live = state.live(job)
    share, more = divmod(parallel, len(live))
    return max(1, share + (live.index(worker) < more))


def _ask_back(state: State, key: str, ready: Sequence[Worker]) -> None:
    """Have the worker with the most orders return part of what it has not begun, while others are idle: what its prover
    holds a commitment of only for other devices, which would make it again while its own device proves. Where
    `parallel` allows fewer witnesses than there are workers, the orders stay: nobody else may make a witness."""
    if len(ready) < 2 or (state.settings.parallel is not None and state.settings.parallel < len(ready)):
        return
    most = max(ready, key=lambda worker: len(worker.slot(key).handed))
    slot: Slot = most.slot(key)
    idle = [worker for worker in ready if not worker.load()]
    spare = len(slot.handed) - state.settings.in_flight
    if idle and spare > 0 and not slot.asked_back:
        slot.asked_back = True
        elsewhere = all(worker.device != most.device for worker in idle)
        state.emit(AskBack(most.id, key, max(1, spare // (len(idle) + 1)), elsewhere))
