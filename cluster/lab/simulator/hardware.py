"""How fast everything on a node goes while so much of it runs at once.

Every running task belongs to a class. A class has threads at work, and of each thread three things are known: what it
moves over the memory bus at full speed (bytes/s), which share of its time at full speed it waits for memory (`stalls`),
and how much more it moves when the last-level cache is taken from it. From these follow, as in a queue that is shared:

* cores: with more threads than cores each gets its share, of a little more where cores have two hardware threads, and a
  little is lost to switching;
* cache: group sums keep buckets for each thread; what does not fit in the last-level cache makes all miss more;
* bus: when more is asked for than it can move, waits for memory lengthen by one factor for all, until it fits; many
  streams at once cost the bus some of its speed, because they close each other's DRAM rows;
* unmapping: freeing large memory interrupts every core (translations are shot down), the more the more free at once.

The forms are the simplest that have these effects; the coefficients (`Machine`) are assumed or fitted, not measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Work(str, Enum):
    """The classes of running tasks."""

    SYNTHESIS = "synthesis"
    SPMV = "spmv"
    CPU_MSM = "cpu_msm"
    VERIFICATION = "verification"
    GPU = "gpu"
    FREE = "free"
    PREPARATION = "preparation"
    """What a prover's thread does with a witness before the GPU can do all of its work."""


@dataclass(frozen=True)
class Demand:
    """What one thread of a class (or one GPU's work, on the host) asks for."""

    bandwidth: float
    """Bytes per second at full speed."""
    stalls: float
    """Share of its time at full speed that it waits for memory, 0 to 1."""
    cache: float = 0.0
    """How much more it moves when nothing of it stays in the last-level cache, as a share of `bandwidth`."""
    cores: float = 1.0
    """Cores that one thread keeps busy."""
    host: float = 1.0
    """Share of its time at full speed that a core must be there for: less than 1 for what runs on a GPU."""
    serial: float | None = None
    """Share of a pool's work that runs on one thread; None: as the load says for all pools."""


@dataclass(frozen=True)
class Machine:
    """A node."""

    name: str
    cores: int
    bandwidth: float
    """Bytes per second of the memory bus, for few streams."""
    cache: float
    """Bytes of the last-level cache."""
    gpus: int
    memory: int
    """Bytes that may be leased."""
    switching: float = 0.03
    """Share of the cores' time lost for each time the threads are as many as the cores, beyond the first."""
    rows: float = 0.25
    """How much longer the bus takes when as many threads wait for memory as there are cores."""
    shootdown: float = 0.02
    """How much longer everything takes for each thread that unmaps."""
    unmap: float = 4e9
    """Bytes per second that are unmapped, however many do it."""
    hyperthreads: float = 0.0
    """What the second hardware thread of a core adds to its speed, as a share of it."""


@dataclass(frozen=True)
class Running:
    """What runs at one moment: threads by class. For `GPU` the devices at work, for `FREE` the threads that unmap."""

    threads: Mapping[Work, float]
    slowed: Mapping[Work, float]
    """Classes held back by the throttle word, and the share of their time that they get."""


def pool_speedup(threads: int, serial: float) -> float:
    """Of work on a pool, over one thread, when a share `serial` of it runs on one thread (Amdahl's law)."""
    return 1.0 / (serial + (1.0 - serial) / threads)


def rates(machine: Machine, demands: Mapping[Work, Demand], buckets: float, running: Running) -> dict[Work, float]:
    """Speed of each class that runs, as a share of its speed alone. `buckets`: bytes per thread of a group sum."""
    active = {work: count for work, count in running.threads.items() if count > 0}
    share = {work: running.slowed.get(work, 1.0) for work in active}
    threads = sum(count * share[work] * demands[work].cores for work, count in active.items())
    over = max(1.0, threads / machine.cores)
    both = 1.0 + machine.hyperthreads * min(1.0, over - 1.0)
    core = both / (over * (1.0 + machine.switching * (over - 1.0)))
    core /= 1.0 + machine.shootdown * active.get(Work.FREE, 0.0)

    sums = active.get(Work.CPU_MSM, 0.0) * buckets
    lost = max(0.0, 1.0 - machine.cache / sums) if sums else 0.0
    asked = {
        work: count * share[work] * core * demands[work].bandwidth * (1.0 + demands[work].cache * lost)
        for work, count in active.items()
    }
    waiting = sum(count * share[work] * core * demands[work].stalls for work, count in active.items())
    bus = machine.bandwidth / (1.0 + machine.rows * waiting / machine.cores)
    longer = _stretch(asked, demands, bus)
    found: dict[Work, float] = {
        work: share[work]
        / (1.0 + demands[work].host * (1.0 / core - 1.0))
        / (1.0 + demands[work].stalls * (longer - 1.0))
        for work in active
        if work is not Work.FREE
    }
    if Work.FREE in active:
        found[Work.FREE] = 1.0 / active[Work.FREE]  # one lock over the address space: together no faster than one
    return found


COPY = Demand(12e9, stalls=1.0)
"""One thread that does nothing but copy."""


def bandwidth_share(machine: Machine, demands: Mapping[Work, Demand], buckets: float, running: Running) -> float:
    """Speed of one more thread that only copies, as a share of its speed alone.

    It takes the place of verification, which hardly uses memory.
    """
    beside = Running({**running.threads, Work.VERIFICATION: 1.0}, running.slowed)
    return rates(machine, {**demands, Work.VERIFICATION: COPY}, buckets, beside)[Work.VERIFICATION]


def _stretch(asked: Mapping[Work, float], demands: Mapping[Work, Demand], bus: float) -> float:
    """By what factor waits for memory lengthen, so that what is moved fits the bus. At least 1."""

    def moved(longer: float) -> float:
        return sum(rate / (1.0 + demands[work].stalls * (longer - 1.0)) for work, rate in asked.items())

    used = moved(1.0) / bus
    if used <= 1.0:
        return 1.0 + 0.5 * used**4  # queues form before the bus is full
    low, high = 1.0, 2.0
    while moved(high) > bus and high < 1e6:
        low, high = high, high * 2.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if moved(middle) > bus else (low, middle)
    return high + 0.5
