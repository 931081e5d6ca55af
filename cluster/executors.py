"""Where work runs: one interface, an executor inside this process, and (in `ray_executor`) one over Ray.

An executor owns workers: provers, each with one device and the key resident, and synthesisers. It runs what the driver
submits and reports each thing once it is over, in whatever order things end. It decides nothing: which partition goes
where, what is tried again and who is given up is the driver's business, so both executors behave alike.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.backends import BackendChoice, leases_from
from actors.prover import SWITCH_INTERVAL, ProverWorker
from actors.synthesiser import SynthesiserWorker
from cluster.connect import prepare
from cluster.devices import cuda_devices
from cluster.governor import Budget, LocalGovernor, node_budget, predicted_bytes
from cluster.placement import GPU_THREADS, SYNTHESISERS_PER_GPU, host_threads, shares, split_threads
from cluster.policy import policy_for
from cluster.residents import of_node, of_prover
from distprove.errors import ClusterError
from distprove.inflight import Line, Timed, Turn
from distprove.job import ExecutorSettings
from distprove.machine import usable_threads
from distprove.phases import Phase
from distprove.place import parse_place
from distprove.system import Partition, PartitionProof, ProofSystem, Synthesised
from kernels.host_arena import HostArena

KEEPERS = 4
"""Threads that put proofs on disk. They wait for it most of the time, and a disk that syncs several files at once takes
hardly longer than for one."""


class Role(str, Enum):
    PROVER = "prover"
    SYNTHESISER = "synthesiser"


class Kind(str, Enum):
    """What a worker can be asked. VERIFY and KEEP run beside the driver and have no worker."""

    LOAD = "load"
    CHECK = "check"
    SYNTHESISE = "synthesise"
    COMMIT = "commit"
    PROVE = "prove"
    DIAGNOSE = "diagnose"
    VERIFY = "verify"
    KEEP = "keep"


@dataclass(frozen=True)
class Worker:
    """A worker's public facts: its id is unique within the executor."""

    id: str
    role: Role
    node: str


@dataclass(frozen=True)
class Task:
    """Something submitted. `partition` is None for LOAD and CHECK; `worker` is None for VERIFY and KEEP."""

    kind: Kind
    worker: str | None
    partition: str | None


@dataclass
class Finished:
    """A task that is over: its value, or the error it ended with, and when it ran (seconds since the epoch).

    Values: LOAD facts of the worker; SYNTHESISE `Work`; COMMIT (bytes, PhaseTimes); PROVE (PartitionProof, PhaseTimes);
    VERIFY bool; KEEP, CHECK and DIAGNOSE None.
    Errors are those of the proof system and backend, unwrapped, or `WorkerDied` and `WorkLost`.
    """

    task: Task
    value: Any = None
    error: BaseException | None = None
    started: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Work:
    """A witness, wherever it is. `handle` means something to the executor only, and is secret."""

    handle: Any = field(repr=False)
    nbytes: int
    seconds: float
    lease: tuple[str, int] | None = None
    """The node whose governor counts its memory until it is forgotten, and the ticket there."""


class WorkerDied(Exception):
    """The worker's process ended before the task did. The worker comes back; it must be loaded again."""


class WorkLost(Exception):
    """The witness is gone (its node died); it must be made again."""


class Executor(ABC):
    """See the module's text. Use as a context manager; `start` once, then submit and wait."""

    kind: str

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        self._done: SimpleQueue[Finished] = SimpleQueue()
        self._verifier: _Threads | None = None
        self._keepers: _Threads | None = None
        self._system: ProofSystem | None = None

    @abstractmethod
    def start(self, system: ProofSystem) -> list[Worker]:
        """Place the workers. Each must be loaded before it is used. Raises ClusterError for missing resources."""

    @abstractmethod
    def load(self, worker: Worker) -> None:
        """Load program or key on a worker, also after its death. Finishes when the worker is ready."""

    @abstractmethod
    def check(self, worker: Worker) -> None:
        """Check the key on a prover that has loaded it."""

    @abstractmethod
    def synthesise(self, worker: Worker, partition: Partition) -> None: ...

    @abstractmethod
    def forget(self, work: Work) -> None:
        """A witness is needed no more: its memory is free to be leased again. A second call does nothing."""

    @abstractmethod
    def commit(self, worker: Worker, partition: Partition, work: Work) -> None: ...

    @abstractmethod
    def prove(self, worker: Worker, partition: Partition, work: Work, challenge: bytes | None) -> None: ...

    @abstractmethod
    def diagnose(self, worker: Worker, partition: Partition, work: Work) -> None:
        """Find out whether the witness is to blame for a bad proof: ends with an InputError if it is."""

    def verify(self, proof: PartitionProof) -> None:
        """Verify beside the driver, whatever the prover's machine may have said."""
        assert self._system is not None, "start first"
        if self._verifier is None:
            self._verifier = _Threads("verifier", self._done)
        system = self._system

        def verified(_: Turn | None) -> bool:
            with self.verifying():
                return system.verify(proof)

        self._verifier.submit(Task(Kind.VERIFY, None, proof.name), verified)

    @abstractmethod
    def verifying(self) -> AbstractContextManager[object]:
        """A lease of a thread to verify on, from the governor of the driver's node."""

    def keep(self, proof: PartitionProof, store: Callable[[PartitionProof], None]) -> None:
        """Have `store` put a verified proof on disk, beside the driver: it must not wait for a disk."""
        if self._keepers is None:
            self._keepers = _Threads("keeper", self._done, KEEPERS)
        self._keepers.submit(Task(Kind.KEEP, None, proof.name), lambda _: store(proof))

    @abstractmethod
    def wait(self, timeout: float) -> Finished | None:
        """The next task that is over, or None after `timeout` seconds."""

    @abstractmethod
    def retire(self, worker: Worker) -> None:
        """Stop a worker for good. Its unfinished tasks may or may not be reported."""

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        """What each node's governor has to say at the end; times in seconds after `began` (since the epoch)."""
        return []

    def close(self, *, now: bool = False) -> None:
        """Stop everything this executor started. `now`: without waiting for what runs."""
        for threads in (self._verifier, self._keepers):
            if threads is not None:
                threads.stop(wait=not now)

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(now=error is not None)


class InProcessExecutor(Executor):
    """Workers are threads of this process. Native code lets go of the interpreter lock, so they overlap."""

    kind = "local"

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._shared: dict[str, NDArray[np.uint8]] = {}
        self._provers: dict[str, ProverWorker] = {}
        self._synthesisers: dict[str, SynthesiserWorker] = {}
        self._threads: dict[str, _Threads] = {}
        self._switch_interval = sys.getswitchinterval()
        self._governor = LocalGovernor(Budget(threads=1, memory=1))
        self._arena = HostArena(lane=lambda: self._governor.lease(lane=True))

    def start(self, system: ProofSystem) -> list[Worker]:
        settings = self.settings
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._system = system
        self._shared = system.shared()
        threads = settings.threads or usable_threads()
        devices = local_devices(settings)
        placing = parse_place(settings.place, system.name)
        spread = shares(len(devices), settings.gpu_workers)
        if devices:
            name, each, beside = "cuda", min(GPU_THREADS, threads // len(spread)), host_threads(threads, len(spread))
        else:
            name = "cpu" if settings.backend == "auto" else settings.backend
            each, beside = split_threads(max(1, threads // len(spread)), settings)
        choices = [
            BackendChoice(
                name,
                device=devices[index // share] if devices else 0,
                threads=max(1, each),
                budget=settings.device_memory,
                share=share,
                placing=placing,
                host_threads=beside,
            )
            for index, share in enumerate(spread)
        ]
        files = sum(array.nbytes for array in self._shared.values())
        resident = of_node(files, [of_prover(system, choice) for choice in choices])
        budget = node_budget(settings, resident.memory)
        self._governor = LocalGovernor(budget, policy_for(settings, budget.threads))
        # For as long as there are workers, and before there are witnesses: none of them waits for room while it loads.
        self._governor.keep(system.key_digest().hex(), memory=resident.memory, pinned=resident.pinned)
        throttle = self._governor.start(len(choices) * settings.in_flight)
        for index, choice in enumerate(choices):
            prover = ProverWorker(system, choice, leases_from(self._governor, choice), self._arena)
            prover.yield_to(throttle)
            self._provers[f"prover-{index}"] = prover
        # Beside a CPU prover one witness in the making hides behind its proofs; more would only take its cores.
        ahead = SYNTHESISERS_PER_GPU if choices[0].name == "cuda" else 1
        count = settings.synthesisers or min(ahead * len(devices or choices), threads)
        for index in range(count):
            synthesiser = SynthesiserWorker(system, max(1, threads // count), self._arena)
            synthesiser.yield_to(throttle)
            self._synthesisers[f"synthesiser-{index}"] = synthesiser
        for name, prover in self._provers.items():
            self._threads[name] = _Threads(name, self._done, settings.in_flight, prover.line)
        for name in self._synthesisers:
            self._threads[name] = _Threads(name, self._done)
        return [Worker(name, Role.PROVER, "local") for name in self._provers] + [
            Worker(name, Role.SYNTHESISER, "local") for name in self._synthesisers
        ]

    def load(self, worker: Worker) -> None:
        prover, task = self._provers.get(worker.id), Task(Kind.LOAD, worker.id, None)
        if prover is not None:
            self._threads[worker.id].submit(task, lambda turn: prover.load(self._shared, turn))
        else:
            synthesiser = self._synthesisers[worker.id]
            self._threads[worker.id].submit(task, lambda _: synthesiser.load(self._shared))

    def synthesise(self, worker: Worker, partition: Partition) -> None:
        assert self._system is not None, "start first"
        synthesiser, need = self._synthesisers[worker.id], predicted_bytes(self._system, partition)
        keep = keeps_lease(self._system)

        def work(_: Turn | None) -> Work:
            with self._governor.lease(phase=Phase.SYNTHESIS, threads=1, memory=need) as lease:
                made = work_of(synthesiser.synthesise(partition))
                return replace(made, lease=("local", lease.hand_on(made.nbytes))) if keep else made

        self._threads[worker.id].submit(Task(Kind.SYNTHESISE, worker.id, partition.name), work)

    def commit(self, worker: Worker, partition: Partition, work: Work) -> None:
        prover = self._provers[worker.id]
        task = Task(Kind.COMMIT, worker.id, partition.name)
        self._threads[worker.id].submit(task, lambda turn: prover.commit(partition, work.handle, turn))

    def prove(self, worker: Worker, partition: Partition, work: Work, challenge: bytes | None) -> None:
        prover = self._provers[worker.id]
        task = Task(Kind.PROVE, worker.id, partition.name)

        def proof(turn: Turn | None) -> Timed:
            with self._governor.proving():
                return prover.prove(partition, work.handle, challenge, turn)

        self._threads[worker.id].submit(task, proof)

    def check(self, worker: Worker) -> None:
        self._threads[worker.id].submit(Task(Kind.CHECK, worker.id, None), self._provers[worker.id].check)

    def diagnose(self, worker: Worker, partition: Partition, work: Work) -> None:
        prover = self._provers[worker.id]
        task = Task(Kind.DIAGNOSE, worker.id, partition.name)
        self._threads[worker.id].submit(task, lambda turn: prover.diagnose(partition, work.handle, turn))

    def wait(self, timeout: float) -> Finished | None:
        try:
            return self._done.get(timeout=timeout)
        except Empty:
            return None

    def retire(self, worker: Worker) -> None:
        self._threads[worker.id].stop(wait=False)

    def forget(self, work: Work) -> None:
        if work.lease is not None:
            self._governor.release(work.lease[1])

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        return [{"node": "local", **self._governor.report(began)}]

    def verifying(self) -> AbstractContextManager[object]:
        return self._governor.lease(phase=Phase.VERIFICATION, threads=1)

    def close(self, *, now: bool = False) -> None:
        for thread in self._threads.values():
            thread.stop(wait=not now)
        if not now:
            for prover in self._provers.values():
                with self._governor.lease(lane=True):
                    prover.close()
        self._provers, self._threads = {}, {}
        self._arena.close()
        self._governor.close()
        sys.setswitchinterval(self._switch_interval)
        super().close(now=now)


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor the settings ask for: in this process, over a Ray that is joined, or over one started for it."""
    if settings.local:
        return InProcessExecutor(settings)
    prepare(settings)
    from cluster.ray_executor import RayExecutor  # Ray takes seconds to import, and reads its environment then

    return RayExecutor(settings)


def work_of(witness: Synthesised) -> Work:
    """A witness in this process, as the driver sees it."""
    return Work(witness, sum(array.nbytes for array in witness.arrays.values()), witness.seconds)


def keeps_lease(system: ProofSystem) -> bool:
    """Whether a witness's memory stays leased until it is proven. Before a barrier every witness is kept, however many
    there are: waiting for their memory would be waiting for ever."""
    return not system.needs_barrier


def local_devices(settings: ExecutorSettings) -> list[int]:
    """CUDA devices of this machine that the settings allow. Raises ClusterError when asked-for ones are missing."""
    if settings.backend not in ("auto", "cuda") or settings.gpus == 0:
        return []
    found = cuda_devices()
    wanted = found if settings.gpus is None else settings.gpus
    if wanted > found or (settings.backend == "cuda" and not found):
        raise ClusterError(f"{max(1, wanted)} CUDA devices asked for, {found} usable here (see `distprove doctor`)")
    return list(range(wanted))


_Call = Callable[["Turn | None"], Any]


class _Threads:
    """Daemon threads that take tasks in order and report each to `done`. `call` gets a turn if there is a line.

    Daemon, because a kernel under way cannot be interrupted and must not keep an interrupted driver from ending.
    """

    def __init__(self, name: str, done: SimpleQueue[Finished], count: int = 1, line: Line | None = None) -> None:
        self._tasks: SimpleQueue[tuple[Task, _Call] | None] = SimpleQueue()
        self._done = done
        self._line = line
        self._taking = threading.Lock()
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"distprove-{name}-{index}", daemon=True) for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task, call: _Call) -> None:
        self._tasks.put((task, call))

    def stop(self, *, wait: bool) -> None:
        """Run nothing that has not begun; `wait` for what has."""
        self._stopped = True
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _take(self) -> tuple[Task, _Call, Turn | None] | None:
        """The next task, with its place in line; None at the end."""
        with self._taking:  # one at a time, so that the tasks stand in line as they were submitted
            item = self._tasks.get()
            if item is None or self._stopped:
                return None
            return (*item, self._line.join() if self._line is not None else None)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            task, call, turn = taken
            finished = Finished(task, started=time.time())
            try:
                with turn or nullcontext():  # so that it is left, whatever becomes of the call
                    finished.value = call(turn)
            except BaseException as error:  # whatever it is, the driver must hear of it
                finished.error = error
            finished.ended = time.time()
            if isinstance(finished.value, Timed):
                timed = finished.value
                finished.value, finished.started, finished.ended = timed.value, timed.started, timed.ended
                del timed
            self._done.put(finished)
            del taken, call, turn, finished  # a witness must not live on until the next task comes
