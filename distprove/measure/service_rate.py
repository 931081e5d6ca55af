"""Measures the rate of a standing service at jobs of one partition, beside a bare loop over the same witness.

The service runs in this process, with the workers that it has anywhere; the jobs are submitted from threads, many at a
time and without HTTP. The bare loop hands partitions to provers in this process that hold the key, as many in flight
as a worker has, and does nothing else. These take turns. CPU time is that of this process, by what its threads are for;
workers in processes of their own are not in it.
"""

from __future__ import annotations

import itertools
import os
import re
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.prover import Device, ProverWorker, switching_quickly
from cluster.executor.local import local_devices, prover_choices
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.views import JobRequest, JobState, JobView
from cluster.service.writer import WriterBeside
from distprove.errors import DistproveError, JobFailed, UsageError
from distprove.host.machine import usable_threads
from distprove.measure.scaling import repeated
from distprove.measure.timing import steady_rate
from distprove.proof import invalid_among
from distprove.settings import ExecutorSettings
from distprove.system import Partition, PartitionProof, ProofSystem, Witness

TIMED = (
    "key resident; service, from the first submission to the last job's end, submissions of 32 jobs each, both "
    "synced to disk; steady, between a tenth and nine tenths of the ends; bare, from the first partition handed "
    "over to the last proof in host memory, its witness made before; the two in turn"
)
CHECKED = "every proof: by the service before its job is proved, and of the bare loop after the clock has stopped"
SUBMITTERS, LOT = 2, 32
"""Threads that submit, and jobs that each submits at a time, as soon as its last ones were accepted."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Turn:
    """All jobs once through the service."""

    rate: float
    """Jobs a second."""
    steady: float
    """Jobs a second between a tenth and nine tenths of the ends."""
    cpu: dict[str, float]
    """CPU milliseconds a job, in all and by threads of the process."""


@dataclass(frozen=True)
class ServiceRate:
    """Rates of a service and of bare loops, in turn."""

    what: str
    jobs: int
    turns: tuple[Turn, ...]
    bare: tuple[float, ...]
    """Partitions a second."""

    def to_dict(self) -> dict[str, Any]:
        def median(part: Callable[[Turn], float]) -> float:
            return statistics.median(map(part, self.turns))

        bare = statistics.median(self.bare)
        return {
            "what": self.what,
            "jobs": self.jobs,
            "rate_a_second": median(lambda turn: turn.rate),
            "steady_a_second": median(lambda turn: turn.steady),
            "bare_a_second": bare,
            "rate_of_bare_loop": median(lambda turn: turn.rate) / bare,
            "cpu_ms_a_job": median(lambda turn: turn.cpu["process"]),
            "turns": [vars(turn) for turn in self.turns],
            "bare": list(self.bare),
        }


def measure_service(
    request: JobRequest,
    system: ProofSystem,
    settings: ExecutorSettings,
    what: str,
    scratch: Path,
    *,
    jobs: int,
    repeats: int = 3,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[ServiceRate, dict[str, Any]]:
    """Have a service with these `settings` do so many jobs as `request`, and the facts of the bare loop's first prover.

    `system` is the job's, loaded. `scratch` holds the service's folder. Raises UsageError for a job of several
    partitions, JobFailed when one is not proved, and what a service raises.
    """
    if len(system.plan()) != 1 or system.needs_barrier:
        raise UsageError("a job of one partition is needed, of a proof system whose partitions stand alone")
    with ExitStack() as stack:
        tell("loading the key for the bare loop")
        witness = system.synthesiser(system.shared(), settings.threads or 1).synthesise(system.plan()[0])
        choices = prover_choices(settings, local_devices(settings), settings.threads or usable_threads())
        provers = [ProverWorker(system, stack.enter_context(closing(Device(choice)))) for choice in choices]
        for prover in provers:
            stack.callback(prover.close)
        facts = [prover.load(system.shared()).value for prover in provers]
        plan = repeated(system, jobs)
        works = [replace(witness, name=partition.name) for partition in plan]

        def bare() -> float:
            return jobs / bare_loop(system, provers, settings.in_flight, plan, works)

        tell("starting the service")
        limits = Limits(queued=max(10_000, jobs), kept=max(10_000, 4 * jobs))
        service = Service(scratch / "service", settings, limits, writer=WriterBeside)
        stack.callback(service.close, drain=False)
        service.start()
        load = _Load(service, request)
        load.run(1, "cold")
        load.run(min(jobs, 100), "warm")
        bare()
        turns, bares = [], []
        for number in range(repeats):
            tell(f"repeat {number + 1} of {repeats}")
            turns.append(load.run(jobs, str(number)))
            bares.append(bare())
    return ServiceRate(what, jobs, tuple(turns), tuple(bares)), facts[0]


def bare_loop(
    system: ProofSystem,
    provers: Sequence[ProverWorker],
    in_flight: int,
    plan: Sequence[Partition],
    works: Sequence[Witness],
) -> float:
    """Seconds in which the provers prove all partitions, each its share of them, `in_flight` at a time. Raises
    JobFailed when a proof does not verify."""
    pools = [ThreadPoolExecutor(in_flight) for _ in provers]

    def proven(prover: ProverWorker, partition: Partition, witness: Witness) -> PartitionProof:
        proof: PartitionProof = prover.make_proof(partition, witness, None).value[0]
        return proof

    try:
        with switching_quickly():  # as in a worker's process
            began = time.perf_counter()
            turns = zip(itertools.cycle(zip(pools, provers, strict=True)), plan, works, strict=False)
            asked = [pool.submit(proven, prover, partition, witness) for (pool, prover), partition, witness in turns]
            proofs = [each.result() for each in asked]
            wall = time.perf_counter() - began
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)
    if invalid_among(system, proofs):
        raise JobFailed("a proof of the bare loop does not verify")
    return wall


class _Load:
    """Submits jobs to a service, and waits for their ends."""

    def __init__(self, service: Service, request: JobRequest) -> None:
        self._service = service
        self._request = request
        self._ends: list[float] = []
        self._left = 0
        self._failed: list[str] = []
        self._over = threading.Event()
        service.listeners.append(self._heard)

    def run(self, jobs: int, name: str) -> Turn:
        """Have so many jobs done. Raises JobFailed."""
        self._ends, self._left = [], jobs
        self._over.clear()
        before, began = _cpu(), time.monotonic()
        with ThreadPoolExecutor(SUBMITTERS, "bench-submit") as threads:
            list(threads.map(lambda first: self._submit(name, range(first, jobs, SUBMITTERS)), range(SUBMITTERS)))
            self._over.wait()
            spent = {who: taken - before.get(who, 0.0) for who, taken in _cpu().items()}
        if self._failed:
            raise JobFailed(f"{len(self._failed)} of {jobs} jobs failed: {self._failed[0]}")
        ends = sorted(self._ends)
        return Turn(jobs / (ends[-1] - began), steady_rate(ends), {who: 1e3 * s / jobs for who, s in spent.items()})

    def _submit(self, name: str, numbers: range) -> None:
        """Submit jobs with these numbers. Raises what one of them is refused for."""
        for first in range(0, len(numbers), LOT):
            lot = [replace(self._request, id=f"{name}-{number}") for number in numbers[first : first + LOT]]
            for told in self._service.submit_all(lot):
                if isinstance(told, DistproveError):
                    raise told

    def _heard(self, view: JobView) -> None:
        if not view.state.final:
            return
        if view.state is not JobState.PROVED:
            self._failed.append(str(view.error))
        self._ends.append(time.monotonic())
        self._left -= 1
        if not self._left:
            self._over.set()


def _cpu() -> dict[str, float]:
    """Seconds of CPU that this process and its living threads took so far, these by names without numbers."""
    spent = {"process": time.process_time()}
    for thread in threading.enumerate():
        try:
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        name = re.sub(r"[-_ ]*\d+.*", "", thread.name)
        spent[name] = spent.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / TICKS
    return spent
