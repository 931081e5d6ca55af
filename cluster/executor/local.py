"""The fleets of one machine without Ray: workers on threads of this process, or each in a process of its own.

Both have the governor here. Threads start at once and share everything; but what they do in Python they do one at a
time, and beside a GPU that proves in milliseconds that is too much. Processes cost half a second at the start, unless
they are forked (`actors.bootstrap.forking_from_here`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from contextlib import ExitStack
from typing import Any

from actors.backends import BackendChoice, ahead_of, device_backend
from actors.messages import HostSpec, WorkerSpec, pickled
from actors.processes import HostProcess, Started, expect, start_process
from actors.protocol import Host
from actors.prover import switching_quickly
from actors.rooms import Rooms, RoomsHere
from cluster.executor.fleet import LIKELY_MEMORY, Fleet, Site, files_bytes, kept_by
from cluster.executor.placement import GPU_THREADS, SYNTHESISERS_PER_GPU, host_threads, provers_fed, shares
from cluster.executor.verifiers import Verifiers, beside_driver
from cluster.governor.budget import budget_of, memory_for_keys
from cluster.governor.local import LocalGovernor
from cluster.governor.state import Budget
from cluster.scheduler.workers import WorkerHandle
from distprove.errors import ClusterError
from distprove.host.beside import in_background
from distprove.host.machine import usable_threads
from distprove.host.set_aside import remember, remembered
from distprove.host.telemetry import idle_memories, idle_memory
from distprove.settings import ExecutorSettings
from distprove.system import ProofSystem, provers_per_gpu
from kernels.host.arena import HostArena
from kernels.host.shared_arrays import available
from kernels.host.units import count_of


class LocalFleet(Fleet):
    """Workers are threads of this process. Native code lets go of the interpreter lock, so they overlap."""

    kind = "local"
    apart = False
    """Whether workers are processes, so that several of one GPU do not wait for one interpreter."""

    def __init__(self, settings: ExecutorSettings) -> None:
        super().__init__(settings)
        self._switching = ExitStack()
        self.governor = LocalGovernor(Budget(threads=1, memory=1))
        self._arena = HostArena(reclaim_lock=lambda: self.governor.lease(reclaim=True))

    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        settings = self.settings
        threads = settings.threads or usable_threads()
        devices = local_devices(settings)
        if device_backend(settings.backend) is not None and settings.gpus != 0:
            # Which devices were given up by earlier jobs is told where devices are asked for.
            aside, trouble = remembered()
            self.remarks += [*map(str, aside.values()), *([trouble] if trouble else [])]
        per_gpu = provers_per_gpu(system, lambda: self._idle_memory(devices)) if self.apart and devices else 1
        choices = prover_choices(settings, devices, threads, per_gpu)
        keys = memory_for_keys()
        if system is not None:
            keys = files_bytes(system) + sum(kept_by(system, choice) for choice in choices)
        budget = budget_of(threads, settings.memory, keys, settings.throttle)
        self.governor = LocalGovernor(budget)
        self.governor.start()
        self.verifying_threads = len(choices)
        # Beside a CPU prover one witness in the making hides behind its proofs; more would only take its cores.
        count = len(choices)
        if devices:
            count = min(SYNTHESISERS_PER_GPU * len(devices), threads)
        count = max(len(choices), settings.synthesisers or count)
        names = [f"synthesiser-{index}" for index in range(count)]
        for index, choice in enumerate(choices):
            name = f"prover-{index}"
            worker = WorkerHandle(name, "local", tuple(names[index :: len(choices)]))
            host = self._host(HostSpec(name, choice, settings.in_flight))
            self.sites[name] = Site(worker, choice, max(1, min(threads, budget.threads) // count), host)

    def _idle_memory(self, devices: list[int]) -> int:
        """Bytes that a job may use of each device: what the settings allow, or 0 for a device that others use."""
        return _device_memory(self.settings, devices)

    def remember(self, worker: WorkerHandle, device: str, reason: str) -> None:
        trouble = remember(device, reason)
        self.remarks += [trouble] if trouble else []

    def _host(self, spec: HostSpec) -> Host:
        # Where workers are processes, this one leaves Python's own: with many threads at work, as in a service, each
        # switch from one to the next costs more than it brings.
        self._switching.enter_context(switching_quickly())
        return RoomsHere(spec, self.governor, self._arena)

    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        return lambda: host.call(Rooms.open, number, spec)

    def keep(self, system: ProofSystem) -> Callable[[], None]:
        memory = files_bytes(system) + sum(self.residents(system).values())
        name = f"{system.key_digest().hex()}-{next(self._slots)}"
        ticket = self.governor.keep(name, memory=memory)
        return lambda: self.governor.release(ticket)

    def governor_report(self, began: float) -> list[dict[str, Any]]:
        self.governor.watch.look(age=self.report_age)
        return [{"node": "local", **self.governor.report(began)}]

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)
        self._arena.close()
        self.governor.close()
        self._switching.close()


class ProcessFleet(LocalFleet):
    """Workers are processes, and their synthesisers processes of these. One that dies is started again when it is
    loaded again. The processes start at once, before it is known what they are to prove: they import meanwhile, and
    open their devices."""

    apart = True

    def __init__(self, settings: ExecutorSettings, started: dict[str, Started] | None = None) -> None:
        """`started` are workers' processes, by name, as far as there are any."""
        super().__init__(settings)
        self._started = start_ahead(settings) if started is None else started
        # NVML takes some 80 ms a GPU, in which the job is loaded.
        self._idle = in_background(idle_memories, "distprove-nvml") if likely_devices(settings) else None

    def _open(self, system: ProofSystem | None, waits_for: Callable[[str], None]) -> None:
        if self._started:  # now that it is known how many share a device, and before devices are counted
            per_gpu = provers_per_gpu(system, lambda: LIKELY_MEMORY)
            self._started |= start_ahead(self.settings, per_gpu, but=self._started)
        super()._open(system, waits_for)
        self._end_started()  # more than there are

    def _idle_memory(self, devices: list[int]) -> int:
        return _device_memory(self.settings, devices, self._idle.result() if self._idle is not None else None)

    def _host(self, spec: HostSpec) -> Host:
        return HostProcess(spec.name, spec, self.governor, started=self._started.pop(spec.name, None))

    def opener(self, spec: WorkerSpec, host: Host, number: int, shared: Any) -> Callable[[], object]:
        def opens() -> None:
            sent = pickled(spec)
            expect(sent)
            host.call(Rooms.open_sent, number, sent, sys.path)

        return opens

    def verifiers(self, system: ProofSystem) -> Verifiers | None:
        return beside_driver(system, self.verifying_threads, self.settings)

    def close(self, *, now: bool = False) -> None:
        super().close(now=now)
        self._end_started()

    def _end_started(self) -> None:
        while self._started:
            self._started.popitem()[1].end()


def local_fleet(settings: ExecutorSettings, likely_provers: int = 1) -> LocalFleet:
    """Make the fleet of one machine that the settings ask for; processes start at once, of `likely_provers` for each
    device. Raises ClusterError."""
    with ExitStack() as stack:
        started: dict[str, Started] = {}
        if settings.isolate is None and likely_isolated(settings):
            started = start_ahead(settings, likely_provers)  # they open their devices while these are counted
            for process in started.values():
                stack.callback(process.end)
        if not isolates(settings):
            return LocalFleet(settings)
        stack.pop_all()
        return ProcessFleet(settings, started or None)


def start_ahead(settings: ExecutorSettings, per_gpu: int = 1, but: Container[str] = ()) -> dict[str, Started]:
    """Workers' processes by name, as many as there are likely to be, but for those that there are: each imports what it
    needs, and opens its device. None where that cannot be told."""
    if remembered().devices:
        return {}
    chosen, devices = device_backend(settings.backend), likely_devices(settings)
    try:
        spread = shares(
            devices, settings.gpu_workers, provers_fed(per_gpu, devices, settings.threads or usable_threads())
        )
    except ClusterError:  # the devices may be more, or fewer
        return {}
    return {
        name: start_process(
            name,
            has_fork_server=True,
            ahead=ahead_of(chosen[0], index % devices) if chosen is not None and devices else None,
        )
        for index, name in enumerate(f"prover-{index}" for index in range(len(spread)))
        if name not in but
    }


def likely_devices(settings: ExecutorSettings) -> int:
    """Guess the number of devices that `local_devices` will count."""
    chosen = device_backend(settings.backend)
    likely = 0 if chosen is None else chosen[1].likely()
    return likely if settings.gpus is None else min(likely, settings.gpus)


def likely_isolated(settings: ExecutorSettings) -> bool:
    """Guess what `isolates` will say."""
    return available() and bool(likely_devices(settings) if settings.isolate is None else settings.isolate)


def isolates(settings: ExecutorSettings) -> bool:
    """Whether workers are processes: as the settings say, or else where there are GPUs. Raises ClusterError where that
    cannot be."""
    if settings.isolate and not available():
        raise ClusterError("workers in processes of their own need a system where these can share memory: Linux")
    return bool(local_devices(settings)) and available() if settings.isolate is None else settings.isolate


def prover_choices(
    settings: ExecutorSettings, devices: list[int], threads: int, per_gpu: int = 1
) -> list[BackendChoice]:
    """Backends of this machine's provers: the `devices` in turn, with `per_gpu` provers on one unless the settings say
    how many there are, as far as each has `THREADS_EACH`; without any devices the CPU."""
    spread = shares(len(devices), settings.gpu_workers, provers_fed(per_gpu, len(devices), threads))
    name = settings.backend
    if name == "auto":
        found = device_backend(name) if devices else None
        name = found[0] if found else "cpu"
    each = threads // len(spread)
    return [
        BackendChoice(
            name,
            device=devices[index % len(devices)] if devices else 0,
            threads=max(1, min(GPU_THREADS, each) if devices else each),
            budget=settings.device_memory,
            share=share,
            host_threads=host_threads(threads, len(spread)),
        )
        for index, share in enumerate(spread)
    ]


def _device_memory(settings: ExecutorSettings, devices: list[int], found: Mapping[str, int] | None = None) -> int:
    """Bytes that a job may use of each device: what the settings allow, or 0 for a device that others use. `found` is
    as in `idle_memory`."""
    chosen = device_backend(settings.backend)
    idle = idle_memory([chosen[1].identify(device) for device in devices], found) if chosen is not None else 0
    return min(idle, settings.device_memory or idle)


def local_devices(settings: ExecutorSettings) -> list[int]:
    """Devices of this machine that the settings allow, but for those that were given up. Raises ClusterError when
    asked-for ones are missing, or all were given up."""
    chosen = device_backend(settings.backend)
    if chosen is None or settings.gpus == 0:
        return []
    name, entry = chosen
    found, aside = entry.devices(), remembered().devices
    usable = [device for device in range(found) if not aside or entry.identify(device) not in aside]
    wanted = len(usable) if settings.gpus is None else settings.gpus
    if wanted > len(usable) or (settings.backend == name and not usable) or (found and not usable):
        given_up = "".join(f"; {each}" for each in aside.values())
        raise ClusterError(
            f"{count_of(max(1, wanted), f'{entry.title} device')} asked for, {len(usable)} usable here (see "
            f"`distprove doctor`)"
            f"{given_up}"
        )
    return usable[:wanted]
