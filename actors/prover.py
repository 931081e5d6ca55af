"""A prover: one backend with one key resident. The same class works in a thread and inside a Ray actor."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.backends import BackendChoice, leased, make_backend
from actors.grants import Governor
from actors.inflight import InFlight, Line, Turn
from actors.messages import MappedFile, SynthesiserSpec, WorkerSpec
from actors.protocol import Timed
from distprove.system import (
    ChecksKey,
    DeviceTask,
    Diagnoses,
    KeepsCommitted,
    Partition,
    PartitionId,
    PreparesIdle,
    ProofSystem,
    Prover,
    StepTimes,
    Witness,
)

if TYPE_CHECKING:  # NumPy, which a Ray actor does without, and what imports it
    import numpy as np
    from numpy.typing import NDArray

    from kernels.host.arena import HostArena
    from kernels.interface.backend import Backend

Shared: TypeAlias = "dict[str, NDArray[np.uint8]]"
"""A system's files, by name."""

SWITCH_INTERVAL = 1e-4
"""Seconds that a thread waits for the interpreter, at most, while another computes in Python. With Python's own 5 ms a
proof of 17 ms that waits for its device 30 times took 25 beside a verification; with this, 20."""


@contextmanager
def switching_quickly() -> Iterator[None]:
    """Inside the block, threads of this process wait for the interpreter at most `SWITCH_INTERVAL`.

    Several threads may be inside: the first one changes what holds for the process, the last one restores it.
    """
    global _inside, _slow
    with _switching:
        _inside += 1
        if _inside == 1:
            _slow = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        with _switching:
            _inside -= 1
            if not _inside:
                sys.setswitchinterval(_slow)


_switching = threading.Lock()
_inside, _slow = 0, sys.getswitchinterval()
"""Number of blocks of `switching_quickly` at work, and the interval before the first of them."""


class Device:
    """One device: its backend, which is opened once for all keys, and the line of all that use it."""

    def __init__(
        self,
        choice: BackendChoice,
        governor: Governor | None = None,
        arena: HostArena | None = None,
        gpus: tuple[str, ...] | None = None,
    ) -> None:
        """Computations on the CPU hold leases of the `governor`, if there is one. Large buffers on the host come from
        `arena`. `gpus` are as of `HostSpec`."""
        self.choice = choice
        self.gpus = (str(choice.device),) if gpus is None else gpus
        self.governor = governor
        self.arena = arena
        self.in_flight = InFlight(self._give_way)
        self.provers: list[ProverWorker] = []
        """Those that have loaded their key."""
        self._backend: Backend | None = None

    def backend(self) -> Backend:
        """The backend. Called alone in the line. Raises BackendError."""
        if self._backend is None:
            self._backend = make_backend(self.choice, self.arena, leased(self.governor, self.choice.threads))
        return self._backend

    def close(self) -> None:
        """Give back the device, once whoever is in the line has left it."""
        self.in_flight.alone(self._close, staging=False)

    def _close(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

    def _give_way(self) -> bool:
        return any([prover.give_way() for prover in self.provers])  # noqa: C419 (all of them)


class ProverWorker:
    """Commits and proves with one key, in the order in which it is asked. `load` must have succeeded before anything
    else is asked.

    Several threads may ask. One partition computes at a time; the next one's data travels meanwhile (see
    `actors.inflight`). `turn` is a place that was taken earlier on `line`, by a caller to whom the order matters.
    """

    def __init__(self, system: ProofSystem, device: Device) -> None:
        """The `device` may have other provers; whoever made it closes it after them."""
        self._system = system
        self._device = device
        self._shared: Shared = {}
        self._prover: Prover | None = None
        self._in_flight = device.in_flight
        self._prepares = False
        self.beside = 0
        """Most bytes of the device's memory that loading took beside the key, and proofs will take."""

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on the threads that synthesis wants, too."""
        return self._device.choice.name == "cpu"

    @property
    def line(self) -> Line:
        """The line in which all that use the device wait for their turn."""
        return self._in_flight.line

    def load(self, shared: Shared) -> Timed:
        """Make the backend and bring the key onto it; public facts of the device. Does nothing the second time.

        Raises InputError when the key is at fault, BackendError when the device is.
        """
        return self._in_flight.alone(lambda: self._load(shared), staging=False)

    def commit(self, partition: Partition, witness: Witness, turn: Turn | None = None) -> Timed:
        """(commitment, StepTimes); the commitment is bytes or None."""
        return self._in_flight.alone(lambda: self._commit(partition, witness), turn)

    def make_proof(
        self, partition: Partition, witness: Witness, challenge: bytes | None, turn: Turn | None = None
    ) -> Timed:
        """(PartitionProof, StepTimes)"""
        timed = self._in_flight.staged(self._ready(), partition, witness, challenge, turn)
        times: StepTimes = timed.value[1]
        times.device_peak = int(self._device.backend().info().details.get("peak_bytes", 0))
        return timed

    def check(self) -> Timed:
        """Check the key on this backend, for systems that have a check. Raises InvalidKey."""
        return self._in_flight.alone(self._check)

    def diagnose(self, partition: Partition, witness: Witness, turn: Turn | None = None) -> Timed:
        """Raise UnsatisfiedWitness after a bad proof if the witness is to blame and the system can tell."""
        return self._in_flight.alone(lambda: self._diagnose(partition, witness), turn)

    @property
    def prepares(self) -> bool:
        """Whether it may have something to prepare while there is nothing to prove."""
        return self._prepares

    def prepare_more(self) -> None:
        """Prepare a piece of what later proofs need. Raises nothing: a proof that needs it meets the same fault."""
        self._in_flight.alone(self._prepare_more)

    def run(self, task: DeviceTask) -> Any:
        """Return what a task comes to on the device, which it has to itself. Raises what the task raises."""
        return self._in_flight.alone(lambda: self._run(task)).value

    @property
    def keeps(self) -> bool:
        """Whether it keeps something for a job, of which it is to be told that it is over."""
        return isinstance(self._prover, KeepsCommitted)

    def holds(self, partition: PartitionId) -> bool:
        """Whether it keeps its commitment to a partition, and need not make it again to prove it. Waits for nothing."""
        prover = self._prover  # read once: closing, on another thread, sets it to None
        return isinstance(prover, KeepsCommitted) and prover.holds(partition)

    def drop(self, job: str | None, partitions: Container[PartitionId] | None = None) -> None:
        """Give back what is kept for a job, which is over, or for some partitions, which others prove."""
        self._in_flight.alone(lambda: self._drop(job, partitions))

    def give_way(self) -> bool:
        """Give back memory that it can do without; whether there was any. Called alone in the line."""
        return isinstance(self._prover, KeepsCommitted) and self._prover.drop()

    def close(self) -> None:
        """Give back the key's memory."""
        self._in_flight.alone(self._close, staging=False)

    def _load(self, shared: Shared) -> dict[str, Any]:
        device, took = self._device.backend(), 0
        if self._prover is None:
            took = self._bring(shared, device)
        info = device.info()
        return {
            "device": info.name,
            "kind": info.kind,
            "uuid": str(info.details.get("uuid", "")),
            "memory_total": info.memory_total,
            "memory_budget": info.memory_budget,
            "memory_used": _used(device),
            "key_bytes": took,
            "gpus": list(self._device.gpus) if info.kind != "cpu" else [],
            **process_facts(),
        }

    def _bring(self, shared: Shared, device: Backend) -> int:
        """Bring the key onto the device; returns the bytes that it takes there.

        Meanwhile memory is held that proofs under the other keys take: a key may take what is free for tables that make
        proofs faster.
        """
        others = max((prover.beside for prover in self._device.provers), default=0)
        import numpy as np

        reserved = device.empty((others,), np.uint8) if others else None
        before = _used(device)
        try:
            self._shared = shared
            self._prover = self._system.prover(shared, device)
        except BaseException:
            self._close()
            raise
        finally:
            del reserved
        self._prepares = isinstance(self._prover, PreparesIdle)
        self._device.provers.append(self)
        peak, after = device.memory_peak() or 0, _used(device)
        self.beside = max(0, peak - after - others)
        return max(0, after + others - before)

    def _commit(self, partition: Partition, witness: Witness) -> tuple[bytes | None, StepTimes]:
        prover = self._ready()
        busy = self._device.backend().watch_busy()
        commitment = prover.commit(partition, witness)
        busy.end()
        return commitment, StepTimes(on_device=busy.time())

    def _check(self) -> None:
        self._ready()
        if isinstance(self._system, ChecksKey):
            self._system.check(self._shared, self._device.backend())

    def _diagnose(self, partition: Partition, witness: Witness) -> None:
        prover = self._ready()
        if isinstance(prover, Diagnoses):
            prover.diagnose(partition, witness)

    def _prepare_more(self) -> None:
        prover, self._prepares = self._prover, False
        with suppress(Exception):
            self._prepares = isinstance(prover, PreparesIdle) and prover.prepare_more()

    def _run(self, task: DeviceTask) -> Any:
        backend, threads = self._device.backend(), self._device.choice.host_threads
        if self.on_cpu:
            return task.run(backend, None)
        from kernels.cpu.backend import CpuBackend

        with CpuBackend(threads=threads) as host:
            return task.run(backend, host)

    def _drop(self, job: str | None, partitions: Container[PartitionId] | None) -> None:
        if isinstance(self._prover, KeepsCommitted):
            self._prover.drop(job, partitions)

    def _close(self) -> None:
        prover, self._prover = self._prover, None
        self._prepares = False
        if self in self._device.provers:
            self._device.provers.remove(self)
        if prover is not None:
            prover.close()
            del prover
            gc.collect()  # what of the key is in a circle is the device's memory all the same
        self._shared = {}

    def _ready(self) -> Prover:
        if self._prover is None:
            raise RuntimeError("the prover was asked for work before its key was loaded")
        return self._prover


def shared_files(spec: WorkerSpec | SynthesiserSpec) -> Shared:
    """The files of a spec's system, read or mapped in this process."""
    if spec.shared is None:
        return spec.system.shared()
    from kernels.host.shared_arrays import Receiver

    receiver = Receiver()
    return {
        name: sent.content() if isinstance(sent, MappedFile) else receiver.array(sent)
        for name, sent in spec.shared.items()
    }


def process_facts() -> dict[str, Any]:
    """Node and number of this process, for reports and for the test that kills it."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def _used(backend: Backend) -> int:
    """Bytes of the backend's memory in use; 0 where they are not counted. Counting the peak begins anew."""
    backend.watch_memory()
    return backend.memory_peak() or 0
