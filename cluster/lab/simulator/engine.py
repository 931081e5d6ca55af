"""Runs a load through a node: a discrete-event simulation whose admission is the node's own governor and policy.

A partition's way: synthesis (one thread) -> sparse products (a pool) -> a GPU, and beside it a group sum on the host (a
pool) -> verification; what synthesis and the witness took is then unmapped in the deallocation lane. Tasks of a class
share its speed, which `hardware.rates` gives and which changes only when something begins or ends.

Where a load says so (`Sharing`), several workers share a GPU behind a lock, and each prepares what it has on a thread.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from cluster.governor.state import Budget, Governor, Request
from cluster.governor.steward import PERIOD, Steward
from cluster.governor.watch import Sight
from cluster.lab.simulator.hardware import Demand, Machine, Running, Work, bandwidth_share, pool_speedup, rates
from cluster.policy import Decision, Policy
from distprove.host.phases import Phase

YIELDED = 0.25
"""Share of its time that a loop runs while it yields to a critical phase (kernels/cpu/src/threads.h)."""


@dataclass(frozen=True)
class Sharing:
    """Workers (`Load.in_flight` of them) that share a GPU behind a lock.

    A worker begins to prepare its partition on one thread and takes the lock. The GPU's work is the load's; its last
    part, and the group sum on the host, need the preparation. When the lock is given back the worker ends its partition
    on one thread.
    """

    preparation: float
    """Seconds on one thread."""
    late: float
    """Seconds of the load's `gpu` that need the preparation."""
    epilogue: float
    """Seconds on one thread after the lock, with the demands of verification."""
    scratch: int
    """Bytes that proving takes beside the witness, which are unmapped by themselves."""
    keeps: bool = True
    """Whether the worker takes no other partition until the group sum is done."""


@dataclass(frozen=True)
class Load:
    """What is to be done. Times in seconds on the machine alone, on one thread unless said otherwise."""

    jobs: int
    """Proofs under way at once: a client each, which begins its next proof when one is done."""
    partitions: int
    """Of one proof."""
    parallel: int
    """Partitions of one proof that may be in preparation at once."""
    proofs: int
    """After so many proofs' worth of partitions the run ends; until then every client has something to do."""
    synthesis: float
    spmv: float
    """Core-seconds on a pool."""
    gpu: float
    cpu_msm: float
    """Core-seconds on a pool; 0: everything is on the GPU."""
    verification: float
    scratch: int
    """Bytes that synthesis takes beside the witness."""
    witness: int
    pool: int
    """Threads of the host's pool."""
    serial: float = 0.05
    """Share of a pool's work that runs on one thread."""
    buckets: float = 8e6
    """Bytes of buckets per thread of a group sum."""
    demands: dict[Work, Demand] = field(default_factory=dict)
    noise: float = 0.05
    """Standard deviation of the logarithm of a task's work."""
    in_flight: int = 2
    """Partitions that a GPU's worker has at once."""
    seed: int = 1
    sharing: Sharing | None = None
    """None: a GPU has one worker, which has `in_flight` partitions and begins a group sum with the GPU's work."""
    whole_synthesis: bool = False
    """Whether what synthesis leased is kept, threads and all, until its sparse products are done."""
    closes: bool = False
    """Whether no more than `proofs` are begun: the last partitions then have ever less beside them."""
    yielding: Mapping[Work, float] = field(default_factory=lambda: {Work.SYNTHESIS: YIELDED})
    """What yields to a group sum under a policy that asks for it, and the share of its time that it gets meanwhile."""


@dataclass(frozen=True)
class Spread:
    """Of a stage's seconds over all partitions; zeros where there was none."""

    mean: float
    most: float

    @classmethod
    def of(cls, seconds: list[float]) -> Spread:
        return cls(fmean(seconds), max(seconds)) if seconds else cls(0.0, 0.0)


@dataclass(frozen=True)
class Outcome:
    """What became of it. Seconds."""

    seconds: float
    seconds_a_proof: float
    gpu_busy: float
    """Share of the GPUs' time."""
    idle_a_proof: float
    """Seconds that a GPU was idle for each proof."""
    durations: dict[Work, float]
    """Medians, waits for leases not counted."""
    decisions: tuple[Decision, ...]
    peak_memory: int
    synthesis: Spread
    """From when a partition's synthesis begins until its sparse products are done."""
    preparation: Spread
    proving: Spread
    """The time that a worker has a partition, its waits included."""
    gaps: tuple[float, ...]
    """Times for which a GPU's workers had nothing, between their first partition and the end."""


@dataclass
class _Task:
    work: Work
    threads: int
    size: float
    done: Callable[[], None]
    began: float = 0.0


class _Class:
    """Running tasks of one class and pool size, which all go at the same speed."""

    def __init__(self, speedup: float) -> None:
        self.speedup = speedup
        """Of its pool over one thread."""
        self.served = 0.0
        self.heap: list[tuple[float, int, _Task]] = []
        self.rate = 0.0


class _Partition:
    def __init__(self, job: int, sizes: dict[Work, float]) -> None:
        self.job = job
        self.sizes = sizes
        """How much longer each of its tasks is than the load says: drawn once, so that every policy has the same."""
        self.parcel = 0
        """The lease of its witness's memory."""
        self.shift = 0
        """The lease of the thread that makes it."""
        self.open = 2
        """Of GPU and group sum, how many are not done."""
        self.began = 0.0
        """When its synthesis began, then when a worker took it."""
        self.prepared = False
        self.waiting: Callable[[], None] | None = None
        """What the GPU does as soon as it is prepared."""


class _Lookout:
    """What the simulated node's governor sees of it: how much memory bandwidth is left."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def look(self) -> Sight:
        return Sight(0.0, 0, False)

    def bandwidth(self) -> float | None:
        return self._simulation.bandwidth_share()

    def share(self, bandwidth: float | None) -> float | None:
        return bandwidth


class Simulation:
    """One run. `run` once."""

    def __init__(self, machine: Machine, load: Load, policy: Policy) -> None:
        self._machine = machine
        self._load = load
        self._state = Governor(Budget(max(machine.cores, load.pool), machine.memory))
        self._steward = Steward(self._state, policy, watch=_Lookout(self), slots=machine.gpus * load.in_flight)
        self._now = 0.0
        self._random = random.Random(load.seed)
        self._classes: dict[tuple[Work, int], _Class] = {}
        self._asked: dict[int, Callable[[int], None]] = {}
        self._taken_up = 0
        """Of the leases ever granted, how many have been acted on."""
        self._holders = itertools.count(1)
        self._numbers = itertools.count()
        self._durations: dict[Work, list[float]] = {work: [] for work in Work}
        self._speeds: dict[tuple[object, ...], dict[Work, float]] = {}
        self._proven_count = 0
        self._left = [0] * load.jobs
        """Partitions of each client's proof that have not begun."""
        self._preparing = [0] * load.jobs
        self._undone = [0] * load.jobs
        self._ready: deque[_Partition] = deque()
        self._devices: list[int] = [0] * machine.gpus
        """Partitions that each GPU's worker has."""
        self._gpu_queue: list[deque[_Partition]] = [deque() for _ in range(machine.gpus)]
        self._computing = [False] * machine.gpus
        self._gpu_busy = 0.0
        self._begun = 0
        self._syntheses: list[float] = []
        self._provings: list[float] = []
        self._gaps: list[float] = []
        self._idle_since: list[float | None] = [None] * machine.gpus
        """Since when each GPU's workers have had nothing; None: they have something, or never had."""

    def run(self) -> Outcome:
        """Until as much is proven as the load says."""
        for job in range(self._load.jobs):
            self._next_proof(job)
        # A node is looked at every PERIOD; where proofs take long, less often changes nothing but the run's cost.
        period, tick = max(PERIOD, self._load.gpu), 0.0
        self._settle()
        while self._proven_count < self._load.proofs * self._load.partitions:
            step, first = self._next_end()
            if self._now + step >= tick:
                self._advance(tick - self._now)
                self._steward.tick(self._now)
                tick += period
            else:
                self._advance(step)
                assert first is not None
                _, _, task = heapq.heappop(first.heap)
                self._durations[task.work].append(self._now - task.began)
                task.done()
            self._settle()
        proofs = self._load.proofs
        busy = self._gpu_busy / (self._now * self._machine.gpus)
        return Outcome(
            seconds=self._now,
            seconds_a_proof=self._now / proofs,
            gpu_busy=busy,
            idle_a_proof=(1.0 - busy) * self._now * self._machine.gpus / proofs,
            durations={work: median(seconds) for work, seconds in self._durations.items() if seconds},
            decisions=tuple(self._steward.decisions),
            peak_memory=self._state.peak_memory,
            synthesis=Spread.of(self._syntheses),
            preparation=Spread.of(self._durations[Work.PREPARATION]),
            proving=Spread.of(self._provings),
            gaps=tuple(self._gaps),
        )

    # -- a partition's way ------------------------------------------------------------------------------------------

    def _next_proof(self, job: int) -> None:
        if self._load.closes and self._begun == self._load.proofs:
            return
        self._begun += 1
        self._left[job] = self._undone[job] = self._load.partitions
        self._prepare(job)

    def _prepare(self, job: int) -> None:
        load = self._load
        while self._left[job] and self._preparing[job] < load.parallel:
            self._left[job] -= 1
            self._preparing[job] += 1
            sizes = {work: self._random.lognormvariate(0.0, load.noise) for work in Work if work in load.demands}
            self._synthesise(_Partition(job, sizes))

    def _synthesise(self, partition: _Partition) -> None:
        load = self._load

        def made() -> None:
            self._state.release(partition.shift)
            if load.scratch:
                self._free(load.scratch, lambda: self._state.shrink(partition.parcel, load.witness))

        def done() -> None:
            if not load.whole_synthesis:
                made()
            self._pool(partition, Phase.SPMV, Work.SPMV, load.spmv, multiplied)

        def multiplied() -> None:
            if load.whole_synthesis:
                made()
            self._syntheses.append(self._now - partition.began)
            self._synthesised(partition)

        def has_memory(ticket: int) -> None:
            partition.parcel = ticket
            self._ask(granted, phase=Phase.SYNTHESIS, threads=1)

        def granted(ticket: int) -> None:
            partition.shift = ticket
            partition.began = self._now
            self._start(Work.SYNTHESIS, 1, load.synthesis * partition.sizes[Work.SYNTHESIS], done)

        self._ask(has_memory, memory=load.scratch + load.witness)

    def _synthesised(self, partition: _Partition) -> None:
        self._ready.append(partition)
        self._hand_out()

    def _hand_out(self) -> None:
        for device, count in enumerate(self._devices):
            while self._ready and self._devices[device] < self._load.in_flight:
                partition = self._ready.popleft()
                self._devices[device] = count = count + 1
                self._steward.proving += 1
                self._taken(partition, device)
                self._gpu_queue[device].append(partition)
                self._compute(device)

    def _taken(self, partition: _Partition, device: int) -> None:
        """A worker has it now."""
        partition.began = self._now
        if (since := self._idle_since[device]) is not None:
            self._gaps.append(self._now - since)
            self._idle_since[device] = None
        sharing = self._load.sharing
        if sharing is None:
            return

        def prepared() -> None:
            partition.prepared = True
            if partition.waiting is not None:
                partition.waiting()
            self._sum(partition, device)

        size = sharing.preparation * partition.sizes[Work.PREPARATION]
        self._start(Work.PREPARATION, 1, size, prepared)

    def _compute(self, device: int) -> None:
        if self._computing[device] or not self._gpu_queue[device]:
            return
        partition, load = self._gpu_queue[device].popleft(), self._load
        self._computing[device] = True
        began = self._now
        self._preparing[partition.job] -= 1
        self._prepare(partition.job)

        def computed() -> None:
            self._computing[device] = False
            self._gpu_busy += self._now - began
            self._computed(partition, device)
            self._compute(device)

        if load.sharing is None:
            self._start(Work.GPU, 1, load.gpu * partition.sizes[Work.GPU], computed)
            self._sum(partition, device)
            return
        late = load.sharing.late * partition.sizes[Work.GPU]

        def wait_for_preparation() -> None:
            partition.waiting = lambda: self._start(Work.GPU, 1, late, computed)
            if partition.prepared:
                partition.waiting()

        self._start(Work.GPU, 1, load.gpu * partition.sizes[Work.GPU] - late, wait_for_preparation)

    def _sum(self, partition: _Partition, device: int) -> None:
        load = self._load
        self._pool(partition, Phase.CPU_MSM, Work.CPU_MSM, load.cpu_msm, lambda: self._half(partition, device))

    def _computed(self, partition: _Partition, device: int) -> None:
        sharing = self._load.sharing
        if sharing is None:
            self._half(partition, device)
            return

        def ended() -> None:
            if not sharing.keeps:
                self._given_back(partition, device)
            self._half(partition, device)

        self._start(Work.VERIFICATION, 1, sharing.epilogue, ended)

    def _half(self, partition: _Partition, device: int) -> None:
        partition.open -= 1
        if partition.open:
            return
        sharing = self._load.sharing
        if sharing is None or sharing.keeps:
            self._given_back(partition, device)
        if sharing is not None:
            self._free(sharing.scratch, lambda: None)
        self._free(self._load.witness, lambda: self._state.release(partition.parcel))
        self._with_threads(
            Phase.VERIFICATION, Work.VERIFICATION, 1, self._load.verification, lambda: self._proven(partition)
        )

    def _given_back(self, partition: _Partition, device: int) -> None:
        """The worker is done with it, and takes the next one."""
        self._provings.append(self._now - partition.began)
        self._devices[device] -= 1
        self._steward.proving -= 1
        if not self._devices[device]:
            self._idle_since[device] = self._now
        self._hand_out()

    def _proven(self, partition: _Partition) -> None:
        self._steward.proven(self._now)
        self._proven_count += 1
        self._undone[partition.job] -= 1
        if not self._undone[partition.job]:
            self._next_proof(partition.job)

    def _pool(self, partition: _Partition, phase: Phase, work: Work, size: float, done: Callable[[], None]) -> None:
        if size:
            self._with_threads(phase, work, self._load.pool, size * partition.sizes[work], done)
        else:
            done()

    def _with_threads(self, phase: Phase, work: Work, threads: int, size: float, done: Callable[[], None]) -> None:
        def granted(ticket: int) -> None:
            def ended() -> None:
                self._state.release(ticket)
                done()

            self._start(work, self._state.leases[ticket].threads, size, ended)

        self._ask(granted, phase=phase, threads=threads)

    def _free(self, count: int, done: Callable[[], None]) -> None:
        """Unmap so many bytes in the lane; only then may the memory be leased again."""

        def granted(ticket: int) -> None:
            def ended() -> None:
                self._state.release(ticket)
                done()

            self._start(Work.FREE, 1, count / self._machine.unmap, ended)

        self._ask(granted, lane=True)

    # -- time -------------------------------------------------------------------------------------------------------

    def _ask(self, granted: Callable[[int], None], **what: object) -> None:
        ticket = self._state.request(Request((next(self._holders), 0.0), **what))  # type: ignore[arg-type]
        self._asked[ticket] = granted

    def _settle(self) -> None:
        """Begin what was granted, and find out how fast everything goes now."""
        self._steward.changed(self._now)
        while self._taken_up < self._state.granted:
            # The newest leases are the last; one that was given back at once has nobody to tell.
            newest = list(itertools.islice(reversed(self._state.leases), self._state.granted - self._taken_up))
            self._taken_up = self._state.granted
            for ticket in reversed(newest):
                self._asked.pop(ticket)(ticket)
            self._steward.changed(self._now)
        running = self._running()
        key = (*running.threads.items(), bool(running.slowed))
        if key not in self._speeds:
            self._speeds[key] = rates(self._machine, self._load.demands, self._load.buckets, running)
        speeds = self._speeds[key]
        for (work, _), cls in self._classes.items():
            cls.rate = speeds.get(work, 0.0) * cls.speedup

    def _running(self) -> Running:
        threads: dict[Work, float] = {}
        for (work, _), cls in self._classes.items():
            threads[work] = threads.get(work, 0.0) + len(cls.heap) * cls.speedup
        return Running(threads, self._load.yielding if self._state.critical else {})

    def bandwidth_share(self) -> float:
        """What a probe finds now, as a share of what it finds on the idle node."""
        return bandwidth_share(self._machine, self._load.demands, self._load.buckets, self._running())

    def _speedup(self, work: Work, threads: int) -> float:
        own = self._load.demands[work].serial
        serial = (self._load.serial if own is None else own) if threads > 1 else 0.0
        return pool_speedup(threads, serial)

    def _start(self, work: Work, threads: int, size: float, done: Callable[[], None]) -> None:
        cls = self._classes.get((work, threads))
        if cls is None:
            cls = self._classes[work, threads] = _Class(self._speedup(work, threads))
        task = _Task(work, threads, size, done, self._now)
        heapq.heappush(cls.heap, (cls.served + size, next(self._numbers), task))

    def _next_end(self) -> tuple[float, _Class | None]:
        best, first = float("inf"), None
        for cls in self._classes.values():
            if cls.heap and cls.rate > 0:
                step = max(0.0, cls.heap[0][0] - cls.served) / cls.rate
                if step < best:
                    best, first = step, cls
        return best, first

    def _advance(self, step: float) -> None:
        self._now += step
        for cls in self._classes.values():
            cls.served += cls.rate * step


def simulate(machine: Machine, load: Load, policy: Policy, **changes: object) -> Outcome:
    """A run of `load` on `machine` under `policy`, with these fields of the load changed."""
    return Simulation(machine, replace(load, **changes), policy).run()  # type: ignore[arg-type]
