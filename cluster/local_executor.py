"""The executors of one machine without Ray: workers on threads of this process, or each in a process of its own.

Both have the governor here. Threads start at once and share everything; but what they do in Python they do one at a
time, and beside a GPU that proves in milliseconds that is too much. Processes cost a second at the start.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.backends import BackendChoice, leases_from
from actors.prover import SWITCH_INTERVAL, ProverWorker
from actors.synthesiser import SynthesiserWorker
from cluster.devices import cuda_devices
from cluster.executors import Executor, Role, Work, Worker, keeps_lease
from cluster.governor import Budget, LocalGovernor, node_budget, predicted_bytes
from cluster.placement import GPU_THREADS, SYNTHESISERS_PER_GPU, host_threads, shares, split_threads, synthesis_threads
from cluster.policy import policy_for
from cluster.processes import ProverProcess, SynthesiserProcess
from cluster.residents import of_node, of_prover
from cluster.tasks import Finished, Kind, Task, TaskThreads
from cluster.verifiers import verifiers_for
from distprove.errors import ClusterError
from distprove.inflight import Line, Timed, Turn
from distprove.job import ExecutorSettings
from distprove.machine import usable_threads
from distprove.phases import Phase
from distprove.place import parse_place
from distprove.system import Partition, ProofSystem
from kernels.host_arena import HostArena
from kernels.shared_arrays import available

Shared = dict[str, NDArray[np.uint8]]


class LocalProver(Protocol):
    """`ProverWorker`, or one that is elsewhere. `work` is what the executor's synthesisers make."""

    @property
    def line(self) -> Line | None:
        """Where its tasks wait for their turn, if that is here."""

    def yield_to(self, throttle: Path | None) -> None: ...
    def load(self, shared: Shared, turn: Turn | None = None) -> Timed: ...
    def commit(self, partition: Partition, work: Any, turn: Turn | None = None) -> Timed: ...
    def prove(self, partition: Partition, work: Any, challenge: bytes | None, turn: Turn | None = None) -> Timed: ...
    def check(self, turn: Turn | None = None) -> Timed: ...
    def diagnose(self, partition: Partition, work: Any, turn: Turn | None = None) -> Timed: ...
    def close(self) -> None: ...


class LocalWitness(Protocol):
    """What a synthesiser made."""

    @property
    def nbytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class LocalSynthesiser(Protocol):
    """`SynthesiserWorker`, or one that is elsewhere."""

    def yield_to(self, throttle: Path | None) -> None: ...
    def load(self, shared: Shared) -> Any: ...
    def synthesise(self, partition: Partition) -> LocalWitness: ...


class InProcessExecutor(Executor):
    """Workers are threads of this process. Native code lets go of the interpreter lock, so they overlap."""

    kind = "local"

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._shared: Shared = {}
        self._provers: dict[str, LocalProver] = {}
        self._synthesisers: dict[str, LocalSynthesiser] = {}
        self._threads: dict[str, TaskThreads] = {}
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
        choices = prover_choices(settings, system, devices, threads)
        files = sum(array.nbytes for array in self._shared.values())
        resident = of_node(files, [of_prover(system, choice) for choice in choices])
        budget = node_budget(settings, resident.memory)
        self._governor = LocalGovernor(budget, policy_for(settings, budget.threads))
        # For as long as there are workers, and before there are witnesses: none of them waits for room while it loads.
        self._governor.keep(system.key_digest().hex(), memory=resident.memory, pinned=resident.pinned)
        throttle = self._governor.start(len(choices) * settings.in_flight)
        for index, choice in enumerate(choices):
            name = f"prover-{index}"
            prover = self._provers[name] = self._prover(name, system, choice)
            prover.yield_to(throttle)
            self._threads[name] = TaskThreads(name, self._done, settings.in_flight, prover.line)
        self._verifying = len(choices)
        # Beside a CPU prover one witness in the making hides behind its proofs; more would only take its cores.
        count = min(len(choices), threads)
        if choices[0].name == "cuda":
            left = synthesis_threads(threads, choices[0].host_threads, len(choices), choices[0].placing)
            count = min(SYNTHESISERS_PER_GPU * len(devices), left)
        count = settings.synthesisers or count
        for index in range(count):
            name = f"synthesiser-{index}"
            synthesiser = self._synthesisers[name] = self._synthesiser(name, system, max(1, threads // count))
            synthesiser.yield_to(throttle)
            self._threads[name] = TaskThreads(name, self._done)
        return [Worker(name, Role.PROVER, "local") for name in self._provers] + [
            Worker(name, Role.SYNTHESISER, "local") for name in self._synthesisers
        ]

    def _prover(self, name: str, system: ProofSystem, choice: BackendChoice) -> LocalProver:
        return ProverWorker(system, choice, leases_from(self._governor, choice), self._arena)

    def _synthesiser(self, name: str, system: ProofSystem, threads: int) -> LocalSynthesiser:
        return SynthesiserWorker(system, threads, self._arena)

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
                made = synthesiser.synthesise(partition)
                kept = ("local", lease.hand_on(made.nbytes)) if keep else None
                return Work(made, made.nbytes, made.seconds, kept)

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
        self._provers, self._synthesisers, self._threads = {}, {}, {}
        self._arena.close()
        self._governor.close()
        sys.setswitchinterval(self._switch_interval)
        super().close(now=now)


class ProcessExecutor(InProcessExecutor):
    """Workers are processes, each with a thread here that waits for it. One that dies is started again when it is
    loaded again. Witnesses stay in the memory of the process that made them (`kernels.shared_arrays`)."""

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._processes: dict[str, ProverProcess | SynthesiserProcess] = {}

    def start(self, system: ProofSystem) -> list[Worker]:
        workers = super().start(system)
        self.verifiers = verifiers_for(system, len(self._provers))
        return workers

    def _prover(self, name: str, system: ProofSystem, choice: BackendChoice) -> LocalProver:
        prover = self._processes[name] = ProverProcess(name, system, choice, self._governor)
        return prover

    def _synthesiser(self, name: str, system: ProofSystem, threads: int) -> LocalSynthesiser:
        synthesiser = self._processes[name] = SynthesiserProcess(name, system, threads, self._governor)
        return synthesiser

    def forget(self, work: Work) -> None:
        work.handle.release()
        super().forget(work)

    def retire(self, worker: Worker) -> None:
        super().retire(worker)
        self._processes[worker.id].end()

    def close(self, *, now: bool = False) -> None:
        if now:  # first: what runs there is waited for by threads here
            for process in self._processes.values():
                process.end()
        super().close(now=now)
        if self.verifiers is not None:
            self.verifiers.close()
        for process in self._processes.values():
            with self._governor.lease(lane=True):  # its memory goes with it
                process.end()
        self._processes = {}


def local_executor(settings: ExecutorSettings) -> InProcessExecutor:
    """What the settings ask for. Raises ClusterError."""
    return ProcessExecutor(settings) if isolates(settings) else InProcessExecutor(settings)


def isolates(settings: ExecutorSettings) -> bool:
    """Whether workers are processes: as the settings say, or else where there are GPUs. Raises ClusterError where that
    cannot be."""
    if settings.isolate and not available():
        raise ClusterError("workers in processes of their own need a system where these can share memory: Linux")
    return bool(local_devices(settings)) and available() if settings.isolate is None else settings.isolate


def prover_choices(
    settings: ExecutorSettings, system: ProofSystem, devices: list[int], threads: int
) -> list[BackendChoice]:
    """What each prover of this machine computes on: the CUDA `devices`, or without any the processors."""
    spread = shares(len(devices), settings.gpu_workers)
    if devices:
        name, each, beside = "cuda", min(GPU_THREADS, threads // len(spread)), host_threads(threads, len(spread))
    else:
        name = "cpu" if settings.backend == "auto" else settings.backend
        each, beside = split_threads(max(1, threads // len(spread)), settings)
    placing = parse_place(settings.place, system.name)
    return [
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


def local_devices(settings: ExecutorSettings) -> list[int]:
    """CUDA devices of this machine that the settings allow. Raises ClusterError when asked-for ones are missing."""
    if settings.backend not in ("auto", "cuda") or settings.gpus == 0:
        return []
    found = cuda_devices()
    wanted = found if settings.gpus is None else settings.gpus
    if wanted > found or (settings.backend == "cuda" and not found):
        raise ClusterError(f"{max(1, wanted)} CUDA devices asked for, {found} usable here (see `distprove doctor`)")
    return list(range(wanted))
