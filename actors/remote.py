"""The workers as Ray actors: placement, the node's governor and clocks around `ProverWorker` and `SynthesiserWorker`.

A prover's default group has as many threads as partitions may be in flight; `ProverWorker` lets one compute at a time.
`ping` has a group of its own, so that a busy actor still answers. Only `load` is retried by Ray, which is how a
restarted actor gets its key again; a lost computation is the driver's to hand out anew.

Values that go to the driver are small. A witness is a second return value, which stays in the object store of the node
that made it until the prover's node fetches it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayError

from actors.backends import BackendChoice
from actors.prover import SWITCH_INTERVAL, ProverWorker
from actors.synthesiser import SynthesiserWorker
from distprove.inflight import Timed
from distprove.phases import Phase
from distprove.system import Partition, ProofSystem, Synthesised
from kernels.host_arena import HostArena, Lane

NAMESPACE = "distprove"
HEALTH = {"health": 1}
"""Concurrency groups of both actors."""


class RemoteProver:
    """One device with one key resident."""

    def __init__(self, system: ProofSystem, choice: BackendChoice, governor_prefix: str) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._worker = ProverWorker(system, choice, self._host_lease, HostArena(lane=_lane(governor_prefix)))
        self._host_threads = choice.host_threads
        self._governor_prefix = governor_prefix

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator, unused-ignore]
    def load(self, shared: dict[str, ray.ObjectRef]) -> Timed:
        self._worker.yield_to(_throttle(self._governor_prefix))
        loaded = self._worker.load(_views(shared))
        return replace(loaded, value={**loaded.value, **_place()})

    def commit(self, partition: Partition, work: Synthesised) -> Timed:
        return self._worker.commit(partition, work)

    def prove(self, partition: Partition, work: Synthesised, challenge: bytes | None) -> Timed:
        governor, proven = _governor(self._governor_prefix), False
        if governor is None:
            return self._worker.prove(partition, work, challenge)
        # Neither is retried: a governor that was started anew counts from there.
        governor.taken.options(max_task_retries=0).remote()
        try:
            found = self._worker.prove(partition, work, challenge)
            proven = True
            return found
        finally:
            governor.returned.options(max_task_retries=0).remote(proven)

    def check(self) -> Timed:
        return self._worker.check()

    def diagnose(self, partition: Partition, work: Synthesised) -> Timed:
        return self._worker.diagnose(partition, work)

    def close(self) -> None:
        """Give back the device, in the node's deallocation lane."""
        with _lane(self._governor_prefix)():
            self._worker.close()

    @ray.method(concurrency_group="health")  # type: ignore[untyped-decorator, unused-ignore]
    def ping(self) -> bool:
        return True

    @contextmanager
    def _host_lease(self, phase: str) -> Iterator[int]:
        with _lease(_governor(self._governor_prefix), phase=Phase(phase), threads=self._host_threads) as lease:
            yield lease.threads()


class RemoteSynthesiser:
    """Synthesis under leases of the node's governor."""

    def __init__(self, system: ProofSystem, threads: int, governor_prefix: str) -> None:
        self._worker = SynthesiserWorker(system, threads, HostArena(lane=_lane(governor_prefix)))
        self._threads = threads
        self._governor_prefix = governor_prefix

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator, unused-ignore]
    def load(self, shared: dict[str, ray.ObjectRef]) -> Timed:
        started = time.time()
        self._worker.yield_to(_throttle(self._governor_prefix))
        facts = self._worker.load(_views(shared))
        return Timed({**facts, **_place()}, started, time.time())

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator, unused-ignore]
    def synthesise(self, partition: Partition, memory: int, keep: bool) -> tuple[Timed, Synthesised]:
        """(bytes, seconds and lease of the witness, the witness). `memory` is what to lease, in bytes.

        `keep`: the witness's share of that stays leased, by the node and ticket that are returned, until the driver
        gives it back.
        """
        governor = _governor(self._governor_prefix)
        with _lease(governor, phase=Phase.SYNTHESIS, threads=self._threads, memory=memory) as lease:
            started = time.time()
            work = self._worker.synthesise(partition)
            # A subclass of ndarray, such as a map of a file, would be copied into the message instead of the store.
            work.arrays = {name: np.asarray(array) for name, array in work.arrays.items()}
            nbytes = sum(array.nbytes for array in work.arrays.values())
            kept = lease.hand_on(nbytes) if keep else None
            return Timed((nbytes, work.seconds, kept), started, time.time()), work

    @ray.method(concurrency_group="health")  # type: ignore[untyped-decorator, unused-ignore]
    def ping(self) -> bool:
        return True


def _views(shared: dict[str, ray.ObjectRef]) -> dict[str, NDArray[np.uint8]]:
    """Read-only views of the node's copies, which all its actors share."""
    return dict(zip(shared, ray.get(list(shared.values())), strict=True))


def _place() -> dict[str, Any]:
    context = ray.get_runtime_context()
    return {"node": context.get_node_id(), "gpus": context.get_accelerator_ids().get("GPU", [])}


def _governor(prefix: str) -> Any | None:
    """The governor of the node this actor is on now: Ray may have moved it. None on a node that joined later."""
    try:
        return ray.get_actor(prefix + ray.get_runtime_context().get_node_id(), namespace=NAMESPACE)
    except ValueError:
        return None


def _lane(prefix: str) -> Lane:
    """The deallocation lane of the node this actor is on, whenever it is entered."""
    return lambda: _lease(_governor(prefix), lane=True)


def _throttle(prefix: str) -> Path | None:
    """Where the node's throttle word is."""
    governor = _governor(prefix)
    return Path(ray.get(governor.start.remote())) if governor is not None else None


class _Lease:
    """A lease of the node's governor, if there is one."""

    def __init__(self, governor: Any | None, ticket: int, asked: int) -> None:
        self._governor = governor
        self._ticket = ticket
        self._asked = asked

    def threads(self) -> int:
        """How many threads were granted, of those asked for."""
        return self._asked if self._governor is None else int(ray.get(self._governor.threads.remote(self._ticket)))

    def hand_on(self, memory: int) -> tuple[str, int] | None:
        """Give back all but `memory` bytes, which outlive this process: the node and the ticket to release there."""
        if self._governor is None:
            return None
        ray.get(self._governor.hand_on.remote(self._ticket, memory))
        ticket, self._ticket = self._ticket, 0
        return ray.get_runtime_context().get_node_id(), ticket

    def release(self) -> None:
        """Give back the lease, and wait for that: else the thread's next request may be there before."""
        if self._governor is None or not self._ticket:
            return
        # Not retried: a governor that is gone has forgotten its leases, and Ray would tell the driver's user.
        with suppress(RayError):
            ray.get(self._governor.release.options(max_task_retries=0).remote(self._ticket))


@contextmanager
def _lease(
    governor: Any | None,
    *,
    phase: Phase = Phase.SYNTHESIS,
    threads: int = 0,
    memory: int = 0,
    lane: bool = False,
) -> Iterator[_Lease]:
    """Hold a lease for the length of the block. A process's threads may each hold one."""
    ticket = 0
    if governor is not None:
        asked = governor.acquire.remote(
            os.getpid(), threads, memory, lane, phase=phase.value, thread=threading.get_ident()
        )
        ticket = ray.get(asked)
    lease = _Lease(governor, ticket, threads)
    try:
        yield lease
    finally:
        lease.release()
