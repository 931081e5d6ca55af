"""What a scheduler tells of its keys and workers, and how it names a key."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress

from actors import patience
from actors.messages import files_of
from cluster.executor.fleet import files_bytes
from cluster.scheduler.state import Key, State
from cluster.scheduler.told import KeyView, WorkerView
from cluster.scheduler.workers import SlotStage, Worker
from distprove.errors import DistproveError
from distprove.system import ProofSystem


def key_views(state: State) -> list[KeyView]:
    """The resident keys, and the keys that workers load now."""
    views = [_key_view(state, key) for key in state.keys.values()]
    return [view for view in views if view.workers or view.loading]


def worker_views(state: State) -> list[WorkerView]:
    """The workers, those that were given up included."""
    return [_worker_view(worker) for worker in state.workers.values()]


def identity(system: ProofSystem) -> str:
    """What two systems must have in common to share key slots: key, program and files."""
    facts = json.dumps(system.describe(), sort_keys=True, default=str)
    state = hashlib.sha256(f"{system.name} {system.key_digest().hex()} {facts}".encode())
    shared = system.shared()
    files = files_of(shared)
    for name, array in sorted(shared.items()):
        content = repr(files[name]).encode() if name in files else hashlib.sha256(array.tobytes()).digest()
        state.update(name.encode() + content)
    return state.hexdigest()


def _key_view(state: State, key: Key) -> KeyView:
    slots = [worker.slots[key.id] for worker in state.workers.values() if key.id in worker.slots]
    loaded = [slot.loaded for slot in slots if slot.ready and slot.loaded is not None]
    size = max((int(each.prover.value.get("key_bytes", 0)) for each in loaded), default=0)
    with suppress(DistproveError):  # the key's file was replaced or is gone: its loading says so
        size = size or files_bytes(key.system)
    digest, system = key.system.key_digest().hex(), key.system
    jobs = sum(not job.ahead for job in key.jobs.values())
    loading = sum(slot.stage is SlotStage.LOADING for slot in slots)
    title = _title(system)
    used = key.last_used
    return KeyView(digest, system.name, title, len(loaded), size, jobs, used, loading, key.checked, key.id)


def _title(system: ProofSystem) -> str:
    """What a person calls the key, in few words."""
    facts = system.describe()
    return str(facts.get("program") or facts.get("circuit") or system.name)


def _worker_view(worker: Worker) -> WorkerView:
    facts = worker.facts
    return WorkerView(
        worker.id,
        str(facts.get("node", worker.handle.node)),
        str(facts.get("device", "")),
        str(facts.get("kind", "")),
        min(1.0, worker.busy.total(time.time()) / (1e6 * patience.RATE)),
        worker.proven,
        facts.get("memory_used") or None,
        facts.get("memory_total") or None,
        worker.health.lost,
    )
