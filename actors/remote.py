"""The workers as Ray actors: placement, the node's governor and clocks around `ProverWorker` and `SynthesiserWorker`.

A prover has as many threads as partitions may be in flight; `ProverWorker` lets one compute at a time. Only `load` is
retried by Ray, which is how a restarted actor gets its key again; a lost computation is the driver's to hand out anew.

Values that go to the driver are small. A witness is a second return value, which stays in the object store of the node
that made it until the prover's node fetches it.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray import cloudpickle

from actors.backends import BackendChoice, leases_from
from actors.leases import Governed
from actors.prover import SWITCH_INTERVAL, ProverWorker
from actors.synthesiser import SynthesiserWorker
from distprove.inflight import Timed
from distprove.phases import Phase
from distprove.system import Partition, ProofSystem, Synthesised
from kernels.host_arena import HostArena


class Carried:
    """A value on its way to an actor, where it arrives as itself. It may be of a class that lies in the folder that the
    driver is run in: the actor then imports from there too, after all that is installed."""

    def __init__(self, value: object) -> None:
        here = os.getcwd()
        self._folders = [here] if here in map(os.path.abspath, sys.path) else []
        self._data = cloudpickle.dumps(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (self._folders, self._data)


def _unpacked(folders: list[str], data: bytes) -> Any:
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    return cloudpickle.loads(data)


class RemoteProver:
    """One device with one key resident."""

    def __init__(self, system: ProofSystem, choice: BackendChoice, driver: str) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._governed = Governed(driver)
        self._worker = ProverWorker(system, choice, leases_from(self._governed, choice), _arena(self._governed))

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator, unused-ignore]
    def load(self, shared: dict[str, ray.ObjectRef]) -> Timed:
        self._worker.yield_to(self._governed.throttle())
        loaded = self._worker.load(_views(shared))
        return replace(loaded, value={**loaded.value, **_place()})

    def commit(self, partition: Partition, work: Synthesised) -> Timed:
        return self._worker.commit(partition, work)

    def prove(self, partition: Partition, work: Synthesised, challenge: bytes | None) -> Timed:
        with self._governed.proving():
            return self._worker.prove(partition, work, challenge)

    def check(self) -> Timed:
        return self._worker.check()

    def diagnose(self, partition: Partition, work: Synthesised) -> Timed:
        return self._worker.diagnose(partition, work)

    def close(self) -> None:
        """Give back the device, in the node's deallocation lane."""
        with self._governed.lease(lane=True):
            self._worker.close()


class RemoteSynthesiser:
    """Synthesis under leases of the node's governor."""

    def __init__(self, system: ProofSystem, threads: int, driver: str) -> None:
        self._governed = Governed(driver)
        self._worker = SynthesiserWorker(system, threads, _arena(self._governed))
        self._threads = threads

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator, unused-ignore]
    def load(self, shared: dict[str, ray.ObjectRef]) -> Timed:
        started = time.time()
        self._worker.yield_to(self._governed.throttle())
        facts = self._worker.load(_views(shared))
        return Timed({**facts, **_place()}, started, time.time())

    @ray.method(num_returns=2)  # type: ignore[untyped-decorator, unused-ignore]
    def synthesise(
        self, partition: Partition, memory: int, errand: tuple[str, int] | None
    ) -> tuple[Timed, Synthesised]:
        """(bytes, seconds and lease of the witness, the witness). `memory` is what to lease, in bytes.

        `errand`: by that name the witness's share of that is handed on to the driver, which gives it back by the node
        and ticket that are returned. None: nothing stays leased.
        """
        with self._governed.lease(phase=Phase.SYNTHESIS, threads=self._threads, memory=memory) as lease:
            started = time.time()
            work = self._worker.synthesise(partition)
            # A subclass of ndarray, such as a map of a file, would be copied into the message instead of the store.
            work.arrays = {name: np.asarray(array) for name, array in work.arrays.items()}
            kept = lease.hand_on(work.nbytes, errand) if errand is not None else None
            return Timed((work.nbytes, work.seconds, kept), started, time.time()), work


def _arena(governed: Governed) -> HostArena:
    return HostArena(lane=lambda: governed.lease(lane=True))


def _views(shared: dict[str, ray.ObjectRef]) -> dict[str, NDArray[np.uint8]]:
    """Read-only views of the node's copies, which all its actors share."""
    return dict(zip(shared, ray.get(list(shared.values())), strict=True))


def _place() -> dict[str, Any]:
    context = ray.get_runtime_context()
    return {"node": context.get_node_id(), "gpus": context.get_accelerator_ids().get("GPU", [])}
