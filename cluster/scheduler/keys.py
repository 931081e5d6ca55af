"""Resident keys: which are opened, loaded where, and evicted for others.

A key comes with its first job and is loaded on every worker; it stays when its jobs are over. One that does not fit, on
a device or in a node's budget, takes the place of the key that was used longest ago and that no job uses. While every
other key is in use its jobs wait.
"""

from __future__ import annotations

from cluster.scheduler.events import CloseKey, Load, OpenKey
from cluster.scheduler.jobs import Job
from cluster.scheduler.state import Key, KeyStage, State
from cluster.scheduler.workers import SlotStage, Watch, Worker
from distprove.errors import ClusterError

NO_ROOM = "room for its key beside those in use"


def admit(state: State, job: Job) -> None:
    """Find the key of a job, or begin to open it."""
    key = state.keys.get(job.key)
    if key is None:
        _open(state, job.key, {job.id: job})
        job.cold = True
    else:
        job.cold = key.stage is KeyStage.CLOSING or not (key.jobs or _resident(state, key))
        key.jobs[job.id] = job
        for worker in state.workers.values():
            if key.id in worker.slots and worker.slots[key.id].stage is SlotStage.FAILED:
                worker.slots[key.id].stage = SlotStage.ABSENT  # it is tried again for each job
    _use(state, state.keys[job.key])
    for worker in state.live(job):
        job.add_worker(worker)
    state.must_load = True
    state.check_key(state.keys[job.key])
    state.loading(job)


def leave(state: State, job: Job) -> None:
    """A job is over. Its key stays, unless no worker could load it."""
    key = state.keys.get(job.key)
    if key is None or key.jobs.get(job.id) is not job:  # another one may have its id by now
        return
    del key.jobs[job.id]
    _use(state, key)
    if key.jobs:
        return
    if key.stage is KeyStage.REFUSED:
        del state.keys[key.id]
    close_unused(state, key)
    state.must_load = True


def close_unused(state: State, key: Key) -> None:
    """Close a key that no job uses and no worker has."""
    if key.stage is KeyStage.OPEN and not key.jobs and state.standing and not _resident(state, key):
        close(state, key)


def opened(state: State, key: Key) -> None:
    """The files of a key are there, and the memory for it is leased."""
    if key.stage is not KeyStage.OPENING:
        return
    key.stage = KeyStage.OPEN
    state.must_load = True
    if not key.jobs and state.standing:
        close(state, key)


def refused(state: State, key: Key, error: BaseException) -> None:
    """A key cannot be opened now: it waits for the memory of another one, or its jobs end."""
    if key.stage is not KeyStage.OPENING:
        return
    if isinstance(error, ClusterError) and state.wanting(key) and make_room(state, key):
        key.stage = KeyStage.REFUSED
        return
    del state.keys[key.id]
    for job in state.wanting(key):
        state.end(job, error)
    _try_again(state)


def closed(state: State, key: Key) -> None:
    """The memory of a key is free: those that wait for memory try again."""
    if key.stage is not KeyStage.CLOSING:
        return
    del state.keys[key.id]
    for worker in state.workers.values():
        worker.slots.pop(key.id, None)
    if key.jobs:  # they came meanwhile
        _open(state, key.id, key.jobs)
    _try_again(state)


def _try_again(state: State, *keys: Key) -> None:
    """Have keys that wait for memory opened and loaded: these, or all."""
    for key in keys or state.keys.values():
        key.crowded_on.clear()
        if key.stage is KeyStage.REFUSED:
            key.stage = KeyStage.OPENING
            state.emit(OpenKey(key.id, key.system))
    state.must_load = True


def close(state: State, key: Key) -> None:
    """Give back the memory of a key."""
    key.stage = KeyStage.CLOSING
    key.checked = False
    key.crowded_on.clear()
    for worker in state.workers.values():
        slot = worker.slots.get(key.id)
        if slot is not None:
            slot.stage, slot.epoch = SlotStage.ABSENT, 0
    state.emit(CloseKey(key.id))


def put_away(state: State, key: Key) -> None:
    """Close a key on request, unless a job uses it or a worker loads it."""
    if _idle(state, key):
        close(state, key)


def look_ahead(state: State, job: Job) -> None:
    """End a job that loads a key ahead, once the key is loaded wherever there is room for it and, if it has to be,
    checked; or where no worker is left."""
    key, live = state.keys[job.key], state.live(job)
    if state.workers and not live:
        reasons = [each.reason for each in job.workers.values()] + [w.health.lost for w in state.workers.values()]
        state.end(job, ClusterError(f"no prover is left ({next(filter(None, reasons), 'there is none')})"))
        return
    # One that waits for the memory of a device may do so for as long as others prove there.
    ready = [worker for worker in live if worker.slot(key.id).ready]
    if ready and key.checked and all(worker in ready or worker.id in key.crowded_on for worker in live):
        state.end(job)


def evict_oldest(state: State, but: Key | None = None) -> bool:
    """Close the key that was used longest ago and that no job uses; whether there was one."""
    idle = [key for key in state.keys.values() if key is not but and _idle(state, key)]
    oldest = min(idle, key=lambda key: key.used, default=None)
    if oldest is not None:
        state.evicted += 1
        close(state, oldest)
    return oldest is not None


def make_room(state: State, key: Key) -> bool:
    """Evict a key for this one, or have its jobs wait for that; False where there is no other key."""
    closing = any(other.stage is KeyStage.CLOSING for other in state.keys.values())
    if closing or evict_oldest(state, key):
        return True
    if not _others_take_room(state, key):
        return False
    for job in state.wanting(key):
        state.wait(job, NO_ROOM)
    return True


def load_all(state: State) -> None:
    """Have each worker load the keys that its jobs want: one at a time, the key of the most urgent job first."""
    _make_way(state)
    state.must_load = False
    for worker in state.workers.values():
        if worker.loading is not None or worker.health.lost is not None:
            continue
        wanted = [key for key in state.keys.values() if _wants(state, worker, key)]
        first = min(wanted, key=lambda key: (key.rank, key.number), default=None)
        if first is not None:
            load(state, worker, first)


def _make_way(state: State) -> None:
    """Evict a key for those that wait for memory, unless one is being closed."""
    waiting = [key for key in state.keys.values() if key.stage is KeyStage.REFUSED or key.crowded_on]
    for key in waiting:
        if not _others_take_room(state, key):  # what it waited for ended in another way
            _try_again(state, key)
    closing = any(key.stage is KeyStage.CLOSING for key in state.keys.values())
    if not closing and any(state.wanting(key) for key in waiting):
        evict_oldest(state)


def load(state: State, worker: Worker, key: Key) -> None:
    """Have a worker load a key."""
    state.epochs += 1
    slot = worker.slot(key.id)
    slot.stage, slot.epoch, slot.late = SlotStage.LOADING, state.epochs, False
    slot.deadline = state.now + state.settings.start_timeout
    slot.forgotten.clear()
    worker.loading = key.id
    state.emit(Load(worker.id, key.id, slot.epoch, key.checked))


def _wants(state: State, worker: Worker, key: Key) -> bool:
    """Whether a worker is to load a key now."""
    if key.stage is not KeyStage.OPEN or worker.id in key.crowded_on:
        return False
    return worker.slot(key.id).stage is SlotStage.ABSENT and any(worker.serves(job.id) for job in state.wanting(key))


def _open(state: State, id: str, jobs: dict[str, Job]) -> None:
    system = next(iter(jobs.values())).system
    watch = Watch(state.settings.hang_timeout, state.settings.in_flight)
    state.keys[id] = Key(id, system, watch, state.uses, jobs=dict(jobs))
    state.emit(OpenKey(id, system))


def _use(state: State, key: Key) -> None:
    state.uses += 1
    key.used, key.last_used = state.uses, state.time


def _resident(state: State, key: Key) -> bool:
    """Whether some worker has the key, or loads it."""
    slots = [worker.slots[key.id].stage for worker in state.workers.values() if key.id in worker.slots]
    return SlotStage.READY in slots or SlotStage.LOADING in slots


def _others_take_room(state: State, key: Key) -> bool:
    """Whether others have what a key waits for: memory of nodes if it is not open, and of devices if it is."""
    others = [other for other in state.keys.values() if other is not key and other.stage is not KeyStage.REFUSED]
    return any(key.stage is not KeyStage.OPEN or _resident(state, other) for other in others)


def _idle(state: State, key: Key) -> bool:
    """Whether a key may give way to others."""
    loading = any(worker.loading == key.id for worker in state.workers.values())
    return key.stage is KeyStage.OPEN and not key.jobs and not loading
